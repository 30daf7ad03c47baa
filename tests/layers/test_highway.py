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
    with pytest.raises(ValueError, match=r"gate has no bias to start at -2\.0"):
        Highway(nn.Identity(), nn.Linear(3, 3, bias=False))
    with pytest.raises(ValueError, match=r"carry has no bias to start at 2\.0"):
        Highway(nn.Identity(), nn.Linear(3, 3), nn.Linear(3, 3, bias=False))


@pytest.mark.parametrize(
    ("layer", "part"),
    [
        (Highway(nn.Linear(3, 4), nn.Linear(3, 3)), "transform"),
        (Highway(nn.Linear(3, 3), nn.Linear(3, 1)), "gate"),
        (Highway(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)), "carry"),
    ],
)
def test_refuses_shapes_that_differ(layer: Highway, part: str) -> None:
    with pytest.raises(ValueError, match=f"{part} gives shape"):
        layer(torch.zeros(2, 3))
