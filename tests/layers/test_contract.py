"""One contract for every highway layer: the generic wrapper and the dense layers, coupled and independent."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import DenseHighway, Highway, lesion
from highwaynet.layers.lesion import Closable

WIDTH = 8
Make = Callable[[int, float], nn.Module]


def generic(width: int, bias: float) -> nn.Module:
    gate = nn.Linear(width, width)
    nn.init.xavier_uniform_(gate.weight)
    return Highway(nn.Sequential(nn.Linear(width, width), nn.Tanh()), gate, gate_bias=bias)


def generic_independent(width: int, bias: float) -> nn.Module:
    layer = generic(width, bias)
    carry = nn.Linear(width, width)
    return Highway(layer.transform, layer.gate, carry, gate_bias=bias)


def dense(width: int, bias: float) -> nn.Module:
    return DenseHighway(width, gate_bias=bias)


def dense_independent(width: int, bias: float) -> nn.Module:
    return DenseHighway(width, gate_bias=bias, carry="independent")


COUPLED = [generic, dense]
INDEPENDENT = [generic_independent, dense_independent]
ALL = COUPLED + INDEPENDENT


def halves(layer: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias of the transform gate, however the layer keeps them."""
    if isinstance(layer, DenseHighway):
        return layer.gate_weight[0], layer.gate_bias[0]
    return layer.gate.weight, layer.gate.bias


def open_gate(layer: nn.Module, value: float) -> None:
    """Set the transform gate to sigmoid(value) for every input, by its parameters alone."""
    weight, bias = halves(layer)
    with torch.no_grad():
        weight.zero_()
        bias.fill_(value)


def block_state(layer: nn.Module, x: Tensor) -> Tensor:
    """H(x), computed apart from the layer."""
    if isinstance(layer, DenseHighway):
        return torch.tanh(x @ layer.weight[0, :WIDTH].T + layer.bias[0, :WIDTH])
    return layer.transform(x)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("bias", [-1.0, -2.0, -4.0])
def test_fresh_gates_start_at_the_bias(make: Make, bias: float) -> None:
    torch.manual_seed(0)
    _, t, *c = make(64, bias)(torch.randn(2000, 64), return_gates=True)
    start = torch.sigmoid(torch.tensor(bias))
    assert abs(t.mean() - start) < 0.05
    assert t.mean() < 0.5, "a fresh layer carries more than it transforms"
    assert t.shape == (2000, 64)
    for gate in c:
        assert abs(gate.mean() - (1 - start)) < 0.05


@pytest.mark.parametrize("init", ["glorot-uniform", "glorot-normal", "he", "orthogonal"])
@pytest.mark.parametrize("bias", [-1.0, -2.0, -4.0])
def test_fresh_gates_start_at_the_bias_with_every_init(init: str, bias: float) -> None:
    stack = DenseHighway(64, gate_bias=bias, init=init, generator=torch.Generator().manual_seed(0))
    _, t = stack(torch.randn(2000, 64, generator=torch.Generator().manual_seed(1)), return_gates=True)
    assert abs(t.mean() - torch.sigmoid(torch.tensor(bias))) < 0.05


@pytest.mark.parametrize("make", ALL)
def test_mixed_precision_keeps_what_is_carried(make: Make) -> None:
    layer, x = make(WIDTH, -1.0), torch.randn(16, WIDTH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, t = layer(x, return_gates=True)[:2]
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, layer(x), atol=0.05, rtol=0.05)
    assert y.grad_fn is not None
    assert t.shape == x.shape


@pytest.mark.parametrize("make", COUPLED)
def test_closed_gate_gives_exactly_x(make: Make) -> None:
    layer, x = make(WIDTH, -1.0), torch.randn(16, WIDTH)
    open_gate(layer, -torch.inf)
    y, t = layer(x, return_gates=True)
    assert torch.equal(t, torch.zeros_like(x))
    assert torch.equal(y, x)


@pytest.mark.parametrize("make", COUPLED)
def test_open_gate_gives_exactly_h(make: Make) -> None:
    layer, x = make(WIDTH, -1.0), torch.randn(16, WIDTH)
    open_gate(layer, torch.inf)
    y, t = layer(x, return_gates=True)
    assert torch.equal(t, torch.ones_like(x))
    if isinstance(layer, Highway):
        assert torch.equal(y, layer.transform(x))
    else:  # the same matrix product, so that rounding is the same
        assert torch.equal(y, torch.tanh(F.linear(x, layer.weight[0], layer.bias[0])[:, :WIDTH]))


@pytest.mark.parametrize("make", COUPLED)
@pytest.mark.parametrize(("value", "open_"), [(-torch.inf, False), (torch.inf, True)])
def test_jacobian_at_both_ends(make: Make, value: float, open_: bool) -> None:
    layer, x = make(WIDTH, -1.0).double(), torch.randn(WIDTH, dtype=torch.float64)
    open_gate(layer, value)
    jacobian = torch.autograd.functional.jacobian(layer, x)
    expected = torch.autograd.functional.jacobian(lambda v: block_state(layer, v), x) if open_ else torch.eye(WIDTH).double()
    torch.testing.assert_close(jacobian, expected)


@pytest.mark.parametrize("make", ALL)
def test_output_is_the_highway_equation(make: Make) -> None:
    layer, x = make(WIDTH, -1.0).double(), torch.randn(16, WIDTH, dtype=torch.float64)
    y, t, *carry = layer(x, return_gates=True)
    c = carry[0] if carry else 1 - t
    weight, bias = halves(layer)
    torch.testing.assert_close(t, torch.sigmoid(x @ weight.T + bias))
    torch.testing.assert_close(y, block_state(layer, x) * t + x * c)
    assert torch.equal(y, layer(x))


@pytest.mark.parametrize("make", ALL)
def test_gradcheck(make: Make) -> None:
    torch.manual_seed(0)
    layer = make(4, -1.0).double()
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    names, values = zip(*layer.named_parameters(), strict=True)

    def call(x: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, (x, *values))


@pytest.mark.parametrize("make", ALL)
def test_lesion_copies_the_input_and_heals(make: Make) -> None:
    layer, x = make(WIDTH, 1.0), torch.randn(16, WIDTH)
    assert isinstance(layer, Closable)
    before = layer(x)
    with lesion(layer, [1]):
        y, t, *c = layer(x, return_gates=True)
        assert torch.equal(y, x)
        assert torch.equal(t, torch.zeros_like(x))
        assert all(torch.equal(gate, torch.ones_like(x)) for gate in c)
    assert torch.equal(layer(x), before)
    assert not torch.equal(before, x)


@pytest.mark.parametrize("make", ALL)
def test_leading_axes_are_free(make: Make) -> None:
    layer, x = make(WIDTH, -1.0), torch.randn(2, 3, WIDTH)
    y, t = layer(x, return_gates=True)[:2]
    assert y.shape == t.shape == x.shape
    torch.testing.assert_close(y[1], layer(x[1]))


@pytest.mark.parametrize("make", ALL)
def test_state_survives_a_round_trip(make: Make) -> None:
    first, second, x = make(WIDTH, -1.0), make(WIDTH, -3.0), torch.randn(4, WIDTH)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(x), second(x))


@pytest.mark.parametrize("make", ALL)
def test_drops_into_a_sequential_and_learns(make: Make) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(make(WIDTH, -1.0), make(WIDTH, -1.0), nn.Linear(WIDTH, 1))
    x, target = torch.randn(64, WIDTH), torch.randn(64, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        loss = nn.functional.mse_loss(model(x), target)
        optimiser.zero_grad()
        loss.backward()
        assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
