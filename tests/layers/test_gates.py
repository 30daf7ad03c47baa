"""The gating, its gradients against the closed form, and the rule for the gate bias."""

import pytest
import torch

from highwaynet import DenseHighway, auto_gate_bias
from highwaynet.layers.gate_bias import resolve_gate_bias
from highwaynet.layers.gates import mix
from highwaynet.layers.names import FamilyName


def leaves(*count: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.rand(5, 7, dtype=torch.float64).requires_grad_() for _ in range(*count)]


def test_gradients_of_the_coupled_gating() -> None:
    x, h, t, dy = leaves(4)
    dx, dh, dt = torch.autograd.grad(mix(x, h, t), (x, h, t), dy)
    torch.testing.assert_close(dh, t * dy)
    torch.testing.assert_close(dt, (h - x) * dy)
    torch.testing.assert_close(dx, (1 - t) * dy)


def test_gradients_of_the_independent_gating() -> None:
    x, h, t, c, dy = leaves(5)
    dx, dh, dt, dc = torch.autograd.grad(mix(x, h, t, c), (x, h, t, c), dy)
    torch.testing.assert_close(dh, t * dy)
    torch.testing.assert_close(dt, h * dy)
    torch.testing.assert_close(dx, c * dy)
    torch.testing.assert_close(dc, x * dy)


def test_mixing_is_exact_at_both_ends_for_any_size_of_number() -> None:
    x = torch.tensor([1e-30, 1.0, 1e30, -3.3])
    h = torch.tensor([1e30, 1e-8, -7.7, 1e-38])
    assert torch.equal(mix(x, h, torch.zeros(4)), x)
    assert torch.equal(mix(x, h, torch.ones(4)), h)


@pytest.mark.parametrize(("family", "least"), [("dense", pytest.approx(-7.9, abs=0.01)), ("convolutional", -4.0)])
def test_auto_bias_falls_with_depth_within_its_limits(family: FamilyName, least: object) -> None:
    biases = [auto_gate_bias(depth, family=family) for depth in range(2000)]
    assert biases[10] == -1.0
    assert max(biases) == -1.0
    assert min(biases) == least
    assert biases == sorted(biases, reverse=True)


def test_auto_bias_of_convolutional_networks_is_the_papers_guideline() -> None:
    assert [auto_gate_bias(depth, family="convolutional") for depth in (10, 20, 30)] == [-1.0, -2.0, -3.0]


def test_auto_bias_of_dense_networks_goes_from_10_to_100_layers_evenly_in_the_logarithm() -> None:
    assert [round(auto_gate_bias(depth), 3) for depth in (10, 31, 32, 50, 99, 100)] == [-1, -2.474, -2.515, -3.097, -3.987, -4]


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown family 'round': choose one of dense, convolutional"):
        auto_gate_bias(10, family="round")  # type: ignore[arg-type]


def test_the_bias_is_on_the_transform_gate_and_nowhere_else() -> None:
    stack = DenseHighway(5, layers=3, gate_bias=-3.0, carry="independent")
    assert torch.equal(stack.bias, torch.tensor([0.0, -3.0, 3.0]).repeat_interleave(5).expand(3, 15))
    assert torch.equal(stack.gate_bias, torch.full((3, 5), -3.0))


@pytest.mark.parametrize("value", ["Auto", float("nan"), None])
def test_a_wrong_bias_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="gate_bias"):
        resolve_gate_bias(value, 10)  # type: ignore[arg-type]
