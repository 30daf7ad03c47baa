"""Lesions: numbered over a whole model, and gone afterwards whatever happens."""

import pytest
import torch
from torch import nn

from highwaynet import DenseHighway, DensePlain, Highway, lesion
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
