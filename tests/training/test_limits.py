"""Limits on the norms of weights, and the learning rate of convolutions, against rules written out by hand."""

from pathlib import Path

import pytest
import torch

from highwaynet import NetworkSpec, TrainingSpec, build_network
from highwaynet.runs.spec import spec_from_values
from highwaynet.training.limits import NormLimits
from highwaynet.training.loop import train
from highwaynet.training.optimiser import make_optimiser


@pytest.mark.parametrize("name", ["fc-highway", "mnist-highway-16", "mnist-fitnet", "resnet-20"])
def test_only_what_is_too_long_is_scaled(name: str) -> None:
    own = {"depth": 4, "width": 8} if name == "fc-highway" else {}
    network = build_network(NetworkSpec(name=name, **own), (1, 28, 28), 10, generator=torch.Generator().manual_seed(0))
    before = {key: parameter.detach().clone() for key, parameter in network.named_parameters()}
    NormLimits([network], TrainingSpec(max_kernel_norm=1.1, max_unit_norm=0.8)).apply()
    touched = kept = 0
    for key, parameter in network.named_parameters():
        weight, old = parameter.detach(), before[key]
        if not key.endswith("weight") or old.dim() == 1:  # biases, batch norm
            assert torch.equal(weight, old), key
            continue
        limit = 1.1 if old.dim() == 4 else 0.8
        rows = old.flatten(1) if old.dim() == 4 else old.reshape(-1, old.shape[-1])
        for row, mine in zip(rows, weight.reshape(rows.shape), strict=True):
            norm = row.square().sum().sqrt()
            if norm <= limit * (1 - 1e-6):
                assert torch.equal(mine, row)
                kept += 1
            elif norm > limit * (1 + 1e-6):
                torch.testing.assert_close(mine, row * limit / norm)
                touched += 1
    assert touched
    assert kept


def test_without_limits_nothing_happens() -> None:
    network = build_network(NetworkSpec(depth=3, width=5), (4,), 2)
    assert NormLimits([network], TrainingSpec())._limited == []


def test_convolutions_have_a_rate_of_their_own() -> None:
    network = build_network(NetworkSpec(name="fitnet-a"), (3, 32, 32), 10)
    optimiser = make_optimiser(network, TrainingSpec(conv_rate=0.05, bias_rate=2.0))
    rates = {id(parameter): group["rate"] for group in optimiser.param_groups for parameter in group["params"]}
    for place, module in network.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            expected = (2.0 if name == "bias" else 1.0) * (0.05 if module.weight.dim() == 4 else 1.0)
            assert rates[id(parameter)] == expected, f"{place}.{name}"


def test_a_run_keeps_its_limits(tmp_path: Path) -> None:
    training = {"epochs": 1, "batch_size": 64, "learning_rate": 0.1, "threads": 1, "max_unit_norm": 0.7}
    run = train(spec_from_values({"network": {"depth": 4, "width": 10}, "training": training}), tmp_path / "run")
    weights = run.checkpoints.load("final")[0]
    norms = torch.cat([tensor.norm(dim=-1).flatten() for name, tensor in weights.items() if name.endswith("weight")])
    assert norms.max() <= 0.7 * (1 + 1e-6)
    assert (norms > 0.7 * (1 - 1e-6)).sum() > 5, "some are at the limit"
