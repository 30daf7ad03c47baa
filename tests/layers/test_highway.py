"""The generic wrapper: any module, and what it refuses."""

import pytest
import torch
from torch import nn

from highwaynet import Highway


def test_wraps_a_convolution() -> None:
    torch.manual_seed(0)
    layer = Highway(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()), nn.Conv2d(4, 4, 3, padding=1), gate_bias=-3.0)
    y, t = layer(torch.randn(2, 4, 6, 6), return_gates=True)
    assert y.shape == t.shape == (2, 4, 6, 6)
    assert abs(t.mean() - torch.sigmoid(torch.tensor(-3.0))) < 0.05


def test_keeps_the_gates_bias_when_told_to() -> None:
    gate = nn.Linear(3, 3)
    before = gate.bias.detach().clone()
    Highway(nn.Identity(), gate, gate_bias=None)
    assert torch.equal(gate.bias, before)


@pytest.mark.parametrize("squash", [nn.Sigmoid(), nn.Softmax(-1)])
def test_refuses_a_gate_that_squashes_itself(squash: nn.Module) -> None:
    with pytest.raises(ValueError, match=f"gate ends in {type(squash).__name__}"):
        Highway(nn.Identity(), nn.Sequential(nn.Linear(3, 3), squash))


def test_refuses_a_gate_without_bias() -> None:
    with pytest.raises(ValueError, match="gate ends in Linear, which has no bias to start at -2"):
        Highway(nn.Identity(), nn.Linear(3, 3, bias=False))
    with pytest.raises(ValueError, match="carry ends in Linear, which has no bias to start at 2"):
        Highway(nn.Identity(), nn.Linear(3, 3), nn.Linear(3, 3, bias=False))
    with pytest.raises(ValueError, match="gate ends in Linear, which has no bias"):  # not the bias of a layer before
        Highway(nn.Identity(), nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3, bias=False)))


def test_refuses_what_is_no_module_and_the_same_module_twice() -> None:
    linear = nn.Linear(3, 3)
    with pytest.raises(TypeError, match="carry = 'independent': give a module"):
        Highway(nn.Linear(3, 3), linear, "independent")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the same one was given twice"):
        Highway(linear, linear)


def test_auto_gate_bias_follows_the_depth_and_the_kind_of_gate() -> None:
    dense, conv = nn.Linear(3, 3), nn.Conv2d(3, 3, 1)
    Highway(nn.Identity(), nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), dense)), gate_bias="auto", depth=100)
    Highway(nn.Identity(), conv, gate_bias="auto", depth=20)
    assert torch.equal(dense.bias, torch.full((3,), -4.0))
    assert torch.equal(conv.bias, torch.full((3,), -2.0))
    with pytest.raises(ValueError, match="gate_bias = nan"):
        Highway(nn.Identity(), nn.Linear(3, 3), gate_bias=float("nan"))


@pytest.mark.parametrize(
    ("layer", "part"),
    [
        (Highway(nn.Linear(3, 4), nn.Linear(3, 3)), "transform"),
        (Highway(nn.Linear(3, 3), nn.Linear(3, 1)), "gate"),
        (Highway(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)), "carry"),
    ],
)
def test_refuses_shapes_that_differ(layer: Highway, part: str) -> None:
    with pytest.raises(ValueError, match=f"{part} returns shape"):
        layer(torch.zeros(2, 3))
