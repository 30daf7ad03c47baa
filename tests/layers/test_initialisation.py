"""Start weights: their spread against the formulas, each half with its own fans."""

import math

import pytest
import torch

from highwaynet import DenseHighway, DensePlain

WIDTH = 200
EXPECTED_STD = {
    "glorot-uniform": math.sqrt(2 / (2 * WIDTH)),
    "glorot-normal": math.sqrt(2 / (2 * WIDTH)),
    "he": math.sqrt(2 / WIDTH),
    "orthogonal": math.sqrt(1 / WIDTH),
    "normal": 0.3,
    "uniform": 0.3,
}


@pytest.mark.parametrize("init", list(EXPECTED_STD))
def test_spread_of_both_halves(init: str) -> None:
    stack = DenseHighway(WIDTH, layers=2, init=init, init_std=0.3, generator=torch.Generator().manual_seed(1))
    gate_std = EXPECTED_STD["glorot-normal" if init == "he" else init]  # He's factor 2 is for ReLU, and a gate has none
    for layer in stack.weight.detach():
        for half, std in zip(layer.split(WIDTH), (EXPECTED_STD[init], gate_std), strict=True):
            assert abs(half.mean()) < 0.02
            assert half.std().item() == pytest.approx(std, rel=0.03)
    assert not torch.equal(stack.weight[0, :WIDTH], stack.weight[0, WIDTH:])


def test_glorot_uniform_stays_within_its_limit() -> None:
    layer = DensePlain(30, 70, init="glorot-uniform")
    limit = math.sqrt(6 / 100)
    assert 0.95 * limit < layer.weight.abs().max() <= limit


def test_uniform_weights_stay_within_their_range() -> None:
    layer = DensePlain(30, 70, init="uniform", init_std=0.005 / math.sqrt(3))
    assert 0.0049 < layer.weight.abs().max() <= 0.005 * (1 + 1e-6)


def test_orthogonal_halves_are_orthogonal() -> None:
    stack = DenseHighway(20, init="orthogonal")
    for half in stack.weight.detach()[0].split(20):
        torch.testing.assert_close(half @ half.T, torch.eye(20), atol=1e-5, rtol=0)


def test_the_generator_decides() -> None:
    def weights(seed: int) -> torch.Tensor:
        return DenseHighway(5, layers=2, generator=torch.Generator().manual_seed(seed)).weight

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
