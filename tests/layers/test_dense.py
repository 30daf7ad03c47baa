"""Dense stacks: against a naive twin, and one layer at a time."""

import pytest
import torch
from torch import Tensor, nn

from highwaynet import DenseHighway, DensePlain, DenseResidual, lesion

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid, "identity": lambda x: x}


class NaiveHighway(nn.Module):
    """The textbook version: two (or three) Linears a layer, h·t + x·c."""

    def __init__(self, stack: DenseHighway) -> None:
        super().__init__()
        width = stack.width
        self.activation = ACTIVATIONS[stack.activation]
        self.layers = nn.ModuleList()
        for weight, bias in zip(stack.weight, stack.bias, strict=True):
            parts = nn.ModuleList()
            for w, b in zip(weight.split(width), bias.split(width), strict=True):
                linear = nn.Linear(width, width)
                linear.weight, linear.bias = nn.Parameter(w.detach().clone()), nn.Parameter(b.detach().clone())
                parts.append(linear)
            self.layers.append(parts)

    def forward(self, x: Tensor) -> Tensor:
        for transform, gate, *carry in self.layers:
            h, t = self.activation(transform(x)), torch.sigmoid(gate(x))
            x = h * t + x * (torch.sigmoid(carry[0](x)) if carry else 1 - t)
        return x


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("carry", ["coupled", "independent"])
def test_highway_stack_equals_its_naive_twin_forward_and_backward(activation: str, carry: str) -> None:
    torch.manual_seed(0)
    stack = DenseHighway(9, layers=7, activation=activation, carry=carry).double()
    twin = NaiveHighway(stack).double()
    x = torch.randn(11, 9, dtype=torch.float64, requires_grad=True)
    x2 = x.detach().clone().requires_grad_()
    y, y2 = stack(x), twin(x2)
    torch.testing.assert_close(y, y2)
    y.square().sum().backward()
    y2.square().sum().backward()
    torch.testing.assert_close(x.grad, x2.grad)
    weights = torch.stack([torch.cat([part.weight.grad for part in layer]) for layer in twin.layers])
    biases = torch.stack([torch.cat([part.bias.grad for part in layer]) for layer in twin.layers])
    torch.testing.assert_close(stack.weight.grad, weights)
    torch.testing.assert_close(stack.bias.grad, biases)


@pytest.mark.parametrize("kind", [DensePlain, DenseResidual])
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_plain_and_residual_stacks_equal_their_formula(kind: type[nn.Module], activation: str) -> None:
    stack = kind(6, layers=4, activation=activation)
    x = expected = torch.randn(5, 6)
    for weight, bias in zip(stack.weight, stack.bias, strict=True):
        h = ACTIVATIONS[activation](expected @ weight.T + bias)
        expected = h + expected if kind is DenseResidual else h
    torch.testing.assert_close(stack(x), expected)


def test_gates_of_a_stack_have_a_layer_axis_and_those_of_a_single_layer_do_not() -> None:
    x = torch.randn(3, 5)
    assert DenseHighway(5)(x, return_gates=True)[1].shape == (3, 5)
    assert DenseHighway(5, layers=1)(x, return_gates=True)[1].shape == (1, 3, 5)
    stack = DenseHighway(5, layers=4, carry="independent")
    y, t, c = stack(x, return_gates=True)
    assert t.shape == c.shape == (4, 3, 5)
    single = DenseHighway(5, carry="independent")
    single.load_state_dict({"weight": stack.weight[:1], "bias": stack.bias[:1]})
    first, t1, c1 = single(x, return_gates=True)
    torch.testing.assert_close(t[0], t1)
    torch.testing.assert_close(c[0], c1)
    assert y.shape == first.shape


@pytest.mark.parametrize("kind", [DenseHighway, DenseResidual])
@pytest.mark.parametrize("closed", [{1}, {3}, {2, 5}, {1, 2, 3, 4, 5}])
def test_closing_layers_equals_removing_them_to_the_bit(kind: type[nn.Module], closed: set[int]) -> None:
    stack, x = kind(6, layers=5), torch.randn(4, 6)
    before = stack(x)
    shorter = stack.without(closed)
    with lesion(stack, closed):
        assert torch.equal(stack(x), shorter(x))
    assert shorter.num_layers == 5 - len(closed)
    assert torch.equal(stack(x), before)
    assert stack.num_layers == 5


def test_removing_layers_keeps_the_right_weights_and_copies_them() -> None:
    stack = DenseHighway(3, layers=4)
    shorter = stack.without([2])
    assert torch.equal(shorter.weight, stack.weight[[0, 2, 3]])
    with torch.no_grad():
        shorter.weight.zero_()
    assert stack.weight.abs().sum() > 0
    with pytest.raises(ValueError, match=r"layers = \[0, 5\]: the stack has 4 layers"):
        stack.without([0, 1, 5])


def test_a_frozen_stack_stays_frozen() -> None:
    stack = DenseHighway(3, layers=4).requires_grad_(False)
    assert not stack.without([1]).weight.requires_grad


def test_single_layers_know_the_depth_of_their_network() -> None:
    assert DenseHighway(3, depth=100).start_gate_bias == -4.0
    assert DenseHighway(3, layers=100).start_gate_bias == -4.0
    assert DenseHighway(3).start_gate_bias == -1.0


@pytest.mark.parametrize("kind", [DenseHighway, DensePlain, DenseResidual])
def test_a_stack_without_all_its_layers_copies_its_input(kind: type[nn.Module]) -> None:
    x = torch.randn(2, 3)
    assert torch.equal(kind(3, layers=2).without([1, 2])(x), x)
    if kind is DenseHighway:
        assert kind(3, layers=1, carry="independent").without([1])(x, return_gates=True)[2].shape == (0, 2, 3)


def test_a_thousand_layers_take_a_step_with_a_gradient_in_every_layer() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(DensePlain(20, 50), DenseHighway(50, layers=999), nn.Linear(50, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, target = torch.randn(16, 20), torch.randint(10, (16,))
    before = nn.functional.cross_entropy(model(x), target)
    before.backward()
    stack = model[1]
    for part in stack.weight.grad.split(50, dim=1):  # H and T of every layer
        norms = part.flatten(1).norm(dim=1)
        assert norms.shape == (999,)
        assert torch.isfinite(norms).all()
        assert (norms > 0).all()
    assert 0 < model[0].weight.grad.norm() < torch.inf
    optimiser.step()
    assert nn.functional.cross_entropy(model(x), target) < before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DenseHighway(0), "width = 0"),
        (lambda: DenseHighway(5, layers=-1), "layers = -1"),
        (lambda: DenseHighway(5, activation="swish"), "unknown activation 'swish'"),
        (lambda: DenseHighway(5, carry="both"), "unknown carry 'both'"),
        (lambda: DenseHighway(5, init="zeros"), "unknown init 'zeros'"),
        (lambda: DensePlain(0), "in_features = 0: must be at least 1"),
        (lambda: DensePlain(5, 0), "out_features = 0: must be at least 1"),
        (lambda: DensePlain(5, 6, layers=2), "only a single layer can change the width"),
        (lambda: DenseResidual(5, layers=-2), "layers = -2"),
    ],
)
def test_wrong_arguments_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_printing_a_stack_says_what_it_is() -> None:
    assert "width=50, layers=49, activation=tanh, gate_bias=-2, carry=coupled" in repr(DenseHighway(50, layers=49, gate_bias=-2))
