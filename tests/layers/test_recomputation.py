"""Recomputation: the same outputs and gradients, and far fewer bytes kept for the backward pass."""

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from highwaynet import ConvHighway, DenseHighway, DensePlain, DenseResidual, DepthLSTM, NetworkSpec, build_network, recompute
from highwaynet.networks.network import Network


class Kept:
    """Counts the bytes that autograd keeps for the backward pass: all at the end of the forward pass, and the most at any time."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        self._sizes: dict[int, int] = {}
        self.most = 0

    @property
    def now(self) -> int:
        return sum(self._sizes.values())

    def pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in self._parameters and address not in self._sizes:
            self._sizes[address] = storage.nbytes()
            weakref.finalize(storage, self._sizes.pop, address, None)
            self.most = max(self.most, self.now)
        return tensor.detach()  # as saving does; a Python object whose end can be seen

    def __enter__(self) -> "Kept":
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda tensor: tensor)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)


def step(model: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor], int, int]:
    """Output, gradients, bytes kept at the end of the forward pass, and at most."""
    x = x.clone().requires_grad_()
    torch.manual_seed(3)
    with Kept(model) as kept:
        y = model(x)
        after_forward = kept.now
        gradients = torch.autograd.grad(y.square().sum(), [x, *model.parameters()])
    return y.detach(), list(gradients), after_forward, kept.most


STACKS: dict[str, Callable[[], nn.Module]] = {
    "highway": lambda: DenseHighway(20, layers=200),
    "independent": lambda: DenseHighway(20, layers=200, carry="independent"),
    "plain": lambda: DensePlain(20, layers=200),
    "residual": lambda: DenseResidual(20, layers=200),
    "lstm": lambda: DepthLSTM(20, layers=200),
}


@pytest.mark.parametrize("name", STACKS)
def test_200_layers_keep_a_third_of_the_bytes_and_have_equal_gradients(name: str) -> None:
    model, x = STACKS[name](), torch.randn(64, 20)
    y, gradients, before, _ = step(model, x)
    gc.collect()
    again, same, after, most = step(recompute(model), x)
    assert torch.equal(y, again)
    assert all(map(torch.equal, gradients, same))
    assert before > 200 * 64 * 20 * 4  # at least a state for each layer
    assert after <= most <= 0.35 * before
    recompute(model, False)
    assert step(model, x)[2] == before


def test_memory_grows_with_the_root_of_depth() -> None:
    most = [step(recompute(DenseHighway(20, layers=layers)), torch.randn(64, 20))[3] for layers in (100, 400)]
    assert 1.7 < most[1] / most[0] < 2.3


@pytest.mark.parametrize(
    "spec",
    [
        NetworkSpec(name="mnist-highway-16", dropout=(0.1, 0.2, 0.3, 0.4)),
        NetworkSpec(name="mnist-plain-16", deep_supervision=True),
        NetworkSpec(name="resnet-20"),
        NetworkSpec(name="fc-highway", depth=30, dropout=(0.2, 0.5)),
    ],
    ids=lambda spec: spec.name,
)
def test_whole_networks_with_dropout_batch_norm_and_companions(spec: NetworkSpec) -> None:
    def made() -> Network:
        return build_network(spec, (1, 28, 28), 10, generator=torch.Generator().manual_seed(0))

    plain, saving, x = made(), recompute(made()), torch.randn(8, 1, 28, 28)
    y, gradients, before, _ = step(plain, x) if not plain.companions else step(WithCompanions(plain), x)
    again, same, after, most = step(saving, x) if not plain.companions else step(WithCompanions(saving), x)
    assert torch.equal(y, again)
    for mine, theirs in zip(gradients, same, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    assert after < most < before
    for (name, mine), theirs in zip(plain.state_dict().items(), saving.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name  # batch norm counted each batch once


class WithCompanions(nn.Module):
    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        y, companions = self.network(x, return_companions=True)
        return torch.cat([y, *companions], dim=1)


def test_a_closed_layer_stays_closed_and_inference_is_untouched() -> None:
    stack, x = recompute(DenseHighway(8, layers=9)), torch.randn(3, 8)
    stack.closed_layers = frozenset({2, 5})
    shorter = stack.without([2, 5])
    assert torch.equal(stack(x), shorter(x))
    with torch.no_grad():
        assert torch.equal(stack(x), shorter(x))


def test_a_model_without_anything_of_ours_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to recompute"):
        recompute(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="nothing to recompute"):
        recompute(ConvHighway(4))
