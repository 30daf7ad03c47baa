"""Gated residual network: against the paper's equations written out, forward and backward."""

import pytest
import torch
from torch import Tensor

from highwaynet import GatedResidualNetwork, lesion, observe


def naive(block: GatedResidualNetwork, a: Tensor, c: Tensor | None) -> Tensor:
    """Equations 2 to 5 of the paper, with explicit sums and the definition of layer norm."""
    before = a @ block.first.weight.T + block.first.bias
    if c is not None:
        before = before + (c @ block.context.weight.T)[:, None]
    eta_2 = torch.where(before > 0, before, before.exp() - 1)
    eta_1 = eta_2 @ block.second.weight.T + block.second.bias
    gate = 1 / (1 + torch.exp(-(eta_1 @ block.gate.weight.T + block.gate.bias)))
    z = block.shortcut(a) + gate * (eta_1 @ block.transform.weight.T + block.transform.bias)
    centred = z - z.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + block.norm.eps).sqrt() * block.norm.weight + block.norm.bias


@pytest.mark.parametrize("out", [None, 5])
@pytest.mark.parametrize("hidden", [None, 7])
@pytest.mark.parametrize("context", [None, 3])
def test_equals_the_equations(out: int | None, hidden: int | None, context: int | None) -> None:
    torch.manual_seed(0)
    block = GatedResidualNetwork(6, out, hidden_features=hidden, context_features=context).double()
    a = torch.randn(4, 9, 6, dtype=torch.float64, requires_grad=True)
    c = None if context is None else torch.randn(4, context, dtype=torch.float64, requires_grad=True)
    mine, theirs = block(a, c), naive(block, a, c)
    torch.testing.assert_close(mine, theirs)
    inputs = [a, *([] if c is None else [c]), *block.parameters()]
    for x, y in zip(*(torch.autograd.grad(z.pow(3).sum(), inputs, retain_graph=True) for z in (mine, theirs)), strict=True):
        torch.testing.assert_close(x, y)


def test_context_of_each_step_and_of_each_sequence() -> None:
    torch.manual_seed(0)
    block, x, c = GatedResidualNetwork(6, context_features=3), torch.randn(4, 9, 6), torch.randn(4, 3)
    torch.testing.assert_close(block(x, c), block(x, c[:, None].expand(4, 9, 3)))
    torch.testing.assert_close(block(x[:, 2], c), block(x, c)[:, 2])


def test_gates_can_be_seen_closed_and_started_closed() -> None:
    torch.manual_seed(0)
    block, x = GatedResidualNetwork(6, gate_bias=-20.0), torch.randn(4, 6)
    torch.testing.assert_close(block(x), block.norm(x), atol=1e-5, rtol=1e-5)
    torch.nn.init.zeros_(block.gate.bias)
    with observe(block) as seen:
        y = block(x)
    layer = seen.layers[0]
    torch.testing.assert_close(y, block.norm(x + layer["transform"].values * layer["state"].values))
    assert torch.equal(layer["carry"].values, torch.ones(4, 6))
    with lesion(block, [1]):
        assert torch.equal(block(x), block.norm(x))


def test_dropout_only_in_training() -> None:
    torch.manual_seed(0)
    block, x = GatedResidualNetwork(6, dropout=0.5), torch.randn(4, 6)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))


def with_context(context: torch.Tensor, x: torch.Tensor | None = None) -> torch.Tensor:
    return GatedResidualNetwork(6, context_features=3)(torch.zeros(2, 6) if x is None else x, context)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GatedResidualNetwork(0), "in_features = 0"),
        (lambda: GatedResidualNetwork(6)(torch.zeros(2, 5)), r"takes \(\.\.\., 6\), but the input has shape \(2, 5\)"),
        (lambda: GatedResidualNetwork(6)(torch.zeros(2, 6), torch.zeros(2, 3)), "takes no context: create it with context_features"),
        (lambda: GatedResidualNetwork(6, context_features=3)(torch.zeros(2, 6)), "context_features=3 takes a context, which is missing"),
        (lambda: GatedResidualNetwork(6, context_features=0), "context_features = 0"),
        (lambda: with_context(torch.zeros(2, 4)), r"takes a context \(\.\.\., 3\), but it has shape \(2, 4\)"),
        (lambda: with_context(torch.tensor(1.0)), r"takes a context \(\.\.\., 3\), but it has shape \(\)"),
        (
            lambda: with_context(torch.zeros(5, 3)),
            r"context has shape \(5, 3\) and the input \(2, 6\): its first axes must be those of the input",
        ),
        (lambda: with_context(torch.zeros(2, 2, 3)), r"context has shape \(2, 2, 3\) and the input \(2, 6\)"),
        (lambda: with_context(torch.zeros(7, 3), torch.zeros(1, 6)), r"context has shape \(7, 3\) and the input \(1, 6\)"),
        (lambda: with_context(torch.zeros(2, 3).double()), r"weights, but the context is torch\.float64: convert it"),
        (
            lambda: with_context(torch.zeros(2, 3, dtype=torch.int64)),
            r"the context is torch\.int64: convert it, context\.to\(torch\.float32\)",
        ),
        (lambda: with_context(torch.zeros(2, 3, device="meta")), "weights on cpu, but the context is on meta"),
    ],
)
def test_what_cannot_be_is_said(make: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()  # type: ignore[operator]


def test_a_context_that_is_not_a_tensor_is_refused_and_one_for_all_samples_is_taken() -> None:
    with pytest.raises(TypeError, match="GatedResidualNetwork takes a tensor as context, but got list"):
        with_context([[1.0, 2.0, 3.0]] * 2)  # type: ignore[arg-type]
    assert with_context(torch.zeros(3)).shape == (2, 6)
    assert with_context(torch.zeros(1, 3)).shape == (2, 6)
