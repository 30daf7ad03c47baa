"""Weights as matrices that share memory with the model, and stacks as ordinary linear layers."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import (
    ConvHighway,
    ConvHighway1d,
    DenseHighway,
    DenseMaxout,
    DensePlain,
    DenseResidual,
    Highway,
    lesion,
    matrix_parameters,
    unstacked,
)


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), DenseHighway(4, layers=3), DenseResidual(4, layers=2), nn.LayerNorm(4), nn.Linear(4, 3))


def test_which_matrices_there_are() -> None:
    network = model()
    matrices, others = matrix_parameters(network, leave_out=[network[0], network[-1]])
    assert [tuple(matrix.shape) for matrix in matrices] == [(4, 4)] * (2 * 3 + 2)
    assert sorted(part.numel() for part in others) == sorted([20, 4, 24, 8, 4, 4, 12, 3])
    assert len(matrix_parameters(network).matrices) == 10
    assert torch.equal(matrices[3], network[1].weight[1, 4:]), "H and T of each layer in turn"
    assert [tuple(m.shape) for m in matrix_parameters(ConvHighway(3, 5)).matrices] == [(3, 75), (3, 75)]
    assert [tuple(m.shape) for m in matrix_parameters(ConvHighway1d(3, carry="independent")).matrices] == [(3, 9)] * 3
    assert [tuple(m.shape) for m in matrix_parameters(DenseMaxout(4, 3, 2)).matrices] == [(3, 4)] * 2
    assert matrix_parameters(nn.Embedding(5, 4)).matrices == []
    frozen = DenseHighway(4).requires_grad_(False)
    assert len(matrix_parameters(frozen).others) == 2


def test_matrices_share_memory_both_ways() -> None:
    network = model()
    matrices, _ = matrix_parameters(network)
    with torch.no_grad():
        matrices[1].fill_(7.0)  # H of the first highway layer
        assert torch.equal(network[1].weight[0, :4], torch.full((4, 4), 7.0))
        network[1].weight.zero_()
    assert not matrices[2].any()
    network.load_state_dict(model().state_dict())
    assert torch.equal(matrices[1], network[1].weight[0, :4])


@pytest.mark.parametrize("by", ["model", "optimiser", "zeros", "accumulate"])
def test_gradients_follow_however_they_are_cleared(by: str) -> None:
    network = model()
    matrices, others = matrix_parameters(network)
    optimiser = torch.optim.SGD([{"params": matrices}, {"params": others}], lr=0.0)
    x, expected = torch.randn(6, 5), None
    for _ in range(3):
        if by == "model":
            network.zero_grad()
        elif by != "accumulate":
            optimiser.zero_grad(set_to_none=by == "optimiser")
        network(x).square().sum().backward()
        optimiser.step()
        expected = network[1].weight.grad if expected is None else expected
    fresh = copy.deepcopy(model())
    fresh(x).square().sum().backward()
    factor = 3 if by == "accumulate" else 1
    torch.testing.assert_close(network[1].weight.grad, factor * fresh[1].weight.grad)
    for layer in range(3):
        torch.testing.assert_close(matrices[1 + 2 * layer].grad, factor * fresh[1].weight.grad[layer, :4])
        torch.testing.assert_close(matrices[2 + 2 * layer].grad, factor * fresh[1].weight.grad[layer, 4:])
    nn.utils.clip_grad_norm_(network.parameters(), 0.1)
    torch.testing.assert_close(matrices[1].grad, network[1].weight.grad[0, :4])


def test_an_optimiser_of_the_matrices_does_what_one_of_the_model_does() -> None:
    networks, x = [model(), model()], torch.randn(8, 5)
    matrices, others = matrix_parameters(networks[0])
    optimisers = [torch.optim.Adam([*matrices, *others], lr=0.01), torch.optim.Adam(networks[1].parameters(), lr=0.01)]
    for _ in range(4):
        for network, optimiser in zip(networks, optimisers, strict=True):
            optimiser.zero_grad()
            network(x).square().sum().backward()
            optimiser.step()
    for mine, theirs in zip(*(network.parameters() for network in networks), strict=True):
        torch.testing.assert_close(mine, theirs)


def orthogonal(gradient: Tensor) -> Tensor:
    u, _, v = torch.linalg.svd(gradient)
    return u @ v


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon came with torch 2.9")
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_muon_makes_the_update_of_each_matrix_orthogonal(layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    layer, x = ConvHighway(4, 1).to(memory_format=layout), torch.randn(8, 4, 3, 3)
    stack, rows = DenseHighway(6, layers=2), torch.randn(20, 6)
    for module, inputs in ((layer, x), (stack, rows)):
        matrices, _ = matrix_parameters(module)
        before = [matrix.detach().clone() for matrix in matrices]
        optimiser = torch.optim.Muon(matrices, lr=1.0, weight_decay=0.0, momentum=0.0, nesterov=False)
        module(inputs).square().sum().backward()
        wanted = [orthogonal(matrix.grad) for matrix in matrices]
        optimiser.step()
        for matrix, start, direction in zip(matrices, before, wanted, strict=True):
            step = (start - matrix.detach()).flatten()
            # Muon's five Newton-Schulz steps in bfloat16 leave singular values between about 0.7 and 1.2.
            assert F.cosine_similarity(step, direction.flatten(), dim=0) > 0.95
    with pytest.raises(ValueError, match="2D"):
        torch.optim.Muon([stack.weight])


def test_muon_trains_a_deep_stack() -> None:
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("torch.optim.Muon came with torch 2.9")
    torch.manual_seed(0)
    network = nn.Sequential(DensePlain(8, 16), DenseHighway(16, layers=10), nn.Linear(16, 4))
    matrices, others = matrix_parameters(network, leave_out=[network[0], network[-1]])
    optimisers = [torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(others, lr=0.01)]
    x, targets = torch.randn(64, 8), torch.randint(4, (64,))
    losses = []
    for _ in range(40):
        network.zero_grad()
        loss = F.cross_entropy(network(x), targets)
        loss.backward()
        losses.append(loss.item())
        for optimiser in optimisers:
            optimiser.step()
    assert losses[-1] < 0.5 * losses[0]


def test_a_model_that_was_moved_is_noticed() -> None:
    network = DenseHighway(4, layers=2)
    matrix_parameters(network)
    network.double()
    with pytest.raises(RuntimeError, match="moved or converted after matrix_parameters: call it again"):
        network(torch.randn(2, 4, dtype=torch.float64)).sum().backward()


@pytest.mark.parametrize("carry", ["coupled", "independent"])
@pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid", "identity"])
def test_stacks_as_linear_layers(carry: str, activation: str) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        DensePlain(5, 4, activation=activation),
        nn.ModuleDict({"stack": DenseHighway(4, layers=3, carry=carry, activation=activation)})["stack"],
        DenseResidual(4, layers=2, activation=activation),
        nn.Linear(4, 2),
    )
    x = torch.randn(6, 5)
    linear = unstacked(network)
    assert sum(isinstance(module, nn.Linear) for module in linear.modules()) == 1 + 3 * (2 if carry == "coupled" else 3) + 2 + 1
    assert sum(isinstance(module, Highway) for module in linear.modules()) == 3
    torch.testing.assert_close(linear(x), network(x))
    linear(x).square().sum().backward()
    network(x).square().sum().backward()
    torch.testing.assert_close(linear[1][2].gate.weight.grad, network[1].weight.grad[2, 4:8])
    assert isinstance(network[1], DenseHighway), "the model itself is not changed"
    with lesion(network, [2]):
        torch.testing.assert_close(unstacked(network)(x), network(x))
