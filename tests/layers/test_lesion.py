"""Lesions: numbered over a whole model, and gone afterwards whatever happens."""

import pytest
import torch
from torch import nn

from highwaynet import (
    ConvHighway,
    ConvHighway1d,
    ConvResidual,
    DenseHighway,
    DensePlain,
    DenseResidual,
    DepthLSTM,
    Highway,
    lesion,
    observe,
)
from highwaynet.layers.lesion import count_layers


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(DensePlain(6, 4), DenseHighway(4, layers=3), Highway(nn.Linear(4, 4), nn.Linear(4, 4)), DenseHighway(4))


def test_layers_are_numbered_in_order_and_plain_ones_do_not_count() -> None:
    net = model()
    assert count_layers(net) == 5
    with lesion(net, [2, 4, 5]):
        assert net[1].closed_layers == {2}
        assert net[2].closed_layers == {1}
        assert net[3].closed_layers == {1}


def test_lesions_add_up_when_nested() -> None:
    net = model()
    with lesion(net, [1]), lesion(net, [3]):
        assert net[1].closed_layers == {1, 3}
    assert net[1].closed_layers == frozenset()


def test_no_lesion_survives_an_exception() -> None:
    net, x = model(), torch.randn(2, 6)
    before = net(x)
    with pytest.raises(RuntimeError, match="inside"), lesion(net, [1, 2, 3]):
        raise RuntimeError("inside")
    assert torch.equal(net(x), before)


@pytest.mark.parametrize("number", [0, 6, -1])
def test_a_layer_that_does_not_exist_is_refused(number: int) -> None:
    net = model()
    with pytest.raises(ValueError, match="the model has 5 layers"), lesion(net, [1, number]):
        pytest.fail("not reached")
    assert all(module.closed_layers == frozenset() for module in (net[1], net[2], net[3]))


def test_numbers_may_come_as_a_tensor_or_from_numpy() -> None:
    stack, x = DenseHighway(4, layers=3), torch.randn(2, 4)
    with lesion(stack, torch.tensor([1, 3])):
        assert stack.closed_layers == {1, 3}
    assert stack.without(torch.tensor([1, 3])).num_layers == 1
    with pytest.raises(TypeError), lesion(stack, [1.5]):
        pytest.fail("not reached")
    assert torch.equal(stack(x), stack(x))


def test_a_compiled_module_is_counted_once() -> None:
    compiled = torch.compile(DenseHighway(4, layers=3), backend="eager")
    assert count_layers(compiled) == 3
    x = torch.randn(2, 4)
    with lesion(compiled, [1, 2, 3]):
        assert torch.equal(compiled(x), x)


CLOSABLE = {
    "dense": (lambda: DenseHighway(4, layers=2), (3, 4)),
    "independent": (lambda: DenseHighway(4, layers=2, carry="independent"), (3, 4)),
    "double": (lambda: DenseHighway(4, layers=2).double(), (3, 4)),
    "residual": (lambda: DenseResidual(4, layers=2).double(), (3, 4)),
    "lstm": (lambda: DepthLSTM(4, layers=2), (3, 4)),
    "conv": (lambda: ConvHighway(4), (2, 4, 5, 5)),
    "conv without batch": (lambda: ConvHighway(4, carry="independent"), (4, 5, 5)),
    "conv-1d": (lambda: ConvHighway1d(4), (2, 4, 5)),
    "conv-residual": (lambda: ConvResidual(4), (2, 4, 5, 5)),
    "generic": (lambda: Highway(nn.Linear(4, 4), nn.Linear(4, 4)), (3, 4)),
}


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("name", CLOSABLE)
def test_a_closed_layer_returns_a_copy_of_its_input(name: str, observed: bool) -> None:
    make, shape = CLOSABLE[name]
    layer = make()
    given = torch.randn(shape, dtype=next(layer.parameters()).dtype)
    if len(shape) == 4:
        given = given.contiguous(memory_format=torch.channels_last)
    x = given.clone()
    with lesion(layer, range(1, count_layers(layer) + 1)), torch.no_grad():
        if observed:
            with observe(layer):
                y = layer(x)
        else:
            y = layer(x)
        assert torch.equal(y, x)
        assert y.stride() == x.stride()
        y.add_(1)  # what comes next may work in place, as nn.ReLU(inplace=True) does
        assert torch.equal(x, given)
        if name not in {"residual", "conv-residual"}:
            layer(x, return_gates=True)[0].add_(1)
            assert torch.equal(x, given)


@pytest.mark.parametrize("name", CLOSABLE)
def test_a_closed_layer_passes_gradients_on(name: str) -> None:
    make, shape = CLOSABLE[name]
    layer = make()
    x = torch.randn(shape, dtype=next(layer.parameters()).dtype, requires_grad=True)
    with lesion(layer, range(1, count_layers(layer) + 1)):
        for function in (layer, torch.compile(layer, backend="eager", fullgraph=True)):
            (gradient,) = torch.autograd.grad(function(x).mul_(2).sum(), x)
            assert torch.equal(gradient, torch.full_like(x, 2.0))
