"""LSTM cells over depth: against torch's own LSTM cell, gates, lesion, observation, gradients."""

import pytest
import torch
from torch import Tensor, nn

from highwaynet import DepthLSTM, NetworkSpec, build_network, lesion, observe
from highwaynet.networks.layerwise import layerwise


def as_cells(stack: DepthLSTM) -> list[nn.LSTMCell]:
    """torch's cells with the same weights, (i, f, g, o) instead of (g, i, f, o), and nothing from outside."""
    cells = []
    for weight, bias in zip(stack.weight.detach(), stack.bias.detach(), strict=True):
        cell = nn.LSTMCell(1, stack.width).to(weight.dtype)
        for target, source in ((cell.weight_hh, weight), (cell.bias_hh, bias)):
            g, i, f, o = source.split(stack.width)
            target.data.copy_(torch.cat((i, f, g, o)))
        cell.weight_ih.data.zero_()
        cell.bias_ih.data.zero_()
        cells.append(cell)
    return cells


def stack_of(layers: int = 4, width: int = 6, **settings: object) -> DepthLSTM:
    return DepthLSTM(width, layers=layers, generator=torch.Generator().manual_seed(0), **settings).double()  # type: ignore[arg-type]


def test_it_is_torchs_lstm_cell_layer_by_layer() -> None:
    stack = stack_of(gate_bias=-0.5)
    x = torch.randn(7, 6, dtype=torch.float64)
    h = c = x
    for cell in as_cells(stack):
        h, c = cell(torch.zeros(7, 1, dtype=torch.float64), (h, c))
    torch.testing.assert_close(stack(x), h)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_equations_hold_in_what_is_observed(activation: str) -> None:
    stack, x = stack_of(activation=activation), torch.randn(5, 6, dtype=torch.float64)
    y, *gates = stack(x, return_gates=True)
    assert torch.equal(y, stack(x))
    assert [gate.shape for gate in gates] == [(4, 5, 6)] * 3
    with observe(stack) as seen:
        assert torch.equal(stack(x), y)
    cell = x
    for number, layer in enumerate(seen.gated):
        assert torch.equal(layer["transform"].values, gates[0][number].detach())
        assert torch.equal(layer["carry"].values, gates[1][number].detach())
        cell = layer["carry"].values * cell + layer["transform"].values * layer["state"].values
        squashed = torch.tanh(cell) if activation == "tanh" else torch.relu(cell)
        torch.testing.assert_close(layer["output"].values, gates[2][number].detach() * squashed)


def test_gates_start_at_the_bias_and_its_opposite() -> None:
    stack = DepthLSTM(64, layers=3, gate_bias=-3.0)
    assert (stack.gate_bias == -3).all()
    assert (stack.forget_bias == 3).all()
    _, i, f, o = stack(torch.randn(500, 64), return_gates=True)
    for gate, start in ((i, -3.0), (f, 3.0), (o, 0.0)):
        assert abs(gate.mean() - torch.sigmoid(torch.tensor(start))) < 0.05


def test_a_closed_layer_copies_output_and_cell() -> None:
    stack, x = stack_of(layers=5), torch.randn(3, 6, dtype=torch.float64)
    shorter = stack.without([1, 4])
    with lesion(stack, [1, 4]):
        y, i, f, _ = stack(x, return_gates=True)
        assert torch.equal(stack(x), shorter(x))
        assert torch.equal(y, shorter(x))
        assert not i[0].any()
        assert (f[3] == 1).all()
    with lesion(stack, range(1, 6)):
        assert torch.equal(stack(x), x)
    assert not torch.equal(stack(x), shorter(x))


@pytest.mark.parametrize("recomputes", [False, True])
def test_gradcheck(recomputes: bool) -> None:
    stack = stack_of(layers=3, width=3)
    stack.recomputes = recomputes
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)

    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y: Tensor = torch.func.functional_call(stack, {"weight": weight, "bias": bias}, (x,))
        return y

    assert torch.autograd.gradcheck(call, (x, stack.weight, stack.bias))


def test_layer_by_layer_it_computes_the_same_again_and_again() -> None:
    network, x = build_network(NetworkSpec(name="fc-lstm", depth=5, width=7), (6,), 3), torch.randn(4, 6)
    pieces = [piece.module for piece in layerwise(network)]
    assert sum(isinstance(piece, DepthLSTM) for piece in pieces) == 4
    for inputs in (x, torch.randn(4, 6), x):  # a cell of an earlier pass must not stay
        y = inputs
        for piece in pieces:
            y = piece(y)
        torch.testing.assert_close(y, network(inputs))
    assert network.stack.cell is None
    logits, i, f, o = network(x, return_gates=True)
    torch.testing.assert_close(logits, network(x))
    assert i.shape == f.shape == o.shape == (4, 4, 7)
