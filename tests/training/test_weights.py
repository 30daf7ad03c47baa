"""Weights of samples in losses and metrics, and the thin versions of torch's AdamW and average, against naive twins."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from highwaynet import Batch, Classification, NetworkSpec, Objective, Regression, build_network
from highwaynet.data.record import DataRecord
from highwaynet.training.measuring import Tally
from highwaynet.training.optimiser import ThinAdamW, ThinAverage

COUNTS = torch.tensor([1, 3, 2, 1, 1])


class Own(Objective):
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, targets, label_smoothing=0.2)


@pytest.mark.parametrize(
    "objective", [Classification(), Classification(0.1), Classification(class_weight=torch.tensor([1.0, 5.0, 2.0])), Own()]
)
def test_weighted_losses_are_those_of_repeated_samples(objective: Objective) -> None:
    outputs, targets = torch.randn(5, 3, dtype=torch.float64, requires_grad=True), torch.tensor([0, 1, 2, 0, 1])
    objective = objective.double()
    weights = COUNTS / COUNTS.double().mean()
    weighted = objective(lambda x: x, Batch(outputs, targets, weights=weights))
    repeated = objective(lambda x: x, Batch(outputs.repeat_interleave(COUNTS, 0), targets.repeat_interleave(COUNTS)))
    torch.testing.assert_close(weighted.loss, repeated.loss)
    torch.testing.assert_close(weighted.minimised, repeated.minimised)
    mine, theirs = (torch.autograd.grad(one.minimised, outputs)[0] for one in (weighted, repeated))
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("targets", [torch.randn(5), torch.randn(5, 2)], ids=["one", "several"])
def test_weighted_squared_errors(targets: Tensor) -> None:
    outputs, weights = torch.randn(5, targets[0].numel()), COUNTS / COUNTS.float().mean()
    found = Regression()(lambda x: x, Batch(outputs, targets, weights=weights)).loss
    expected = (outputs.view_as(targets) - targets).square().repeat_interleave(COUNTS, 0).mean()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "targets", [torch.tensor([0, 1, 1, 0, 1]), torch.randn(5), torch.randn(5, 2)], ids=["classes", "number", "numbers"]
)
def test_weighted_metrics_are_those_of_repeated_samples(targets: Tensor) -> None:
    classes = not targets.is_floating_point()
    several = targets.dim() == 2
    record = DataRecord(
        found="",
        kind="features",
        task="classification" if classes else "regression",
        input_shape=(2,),
        class_names=("a", "b") if classes else (),
        target_std=2.0,
        target_means=(0.0, 0.0) if several else (),
        target_stds=(1.0, 1.0) if several else (),
        train=5,
        validation=0,
        test=0,
    )
    outputs = torch.randn(5, record.outputs)
    objective: Objective = Classification() if classes else Regression()
    weighted, repeated = Tally(record), Tally(record)
    weighted.add(objective.measure_weighted(outputs, targets, COUNTS), outputs, targets, COUNTS)
    many = outputs.repeat_interleave(COUNTS, 0), targets.repeat_interleave(COUNTS, 0)
    repeated.add(objective.measure(*many), *many)
    mine, theirs = weighted.score(), repeated.score()
    for metric in ("loss", "accuracy", "rmse", "r2"):
        expected = getattr(theirs, metric)
        assert getattr(mine, metric) == (None if expected is None else pytest.approx(expected, rel=1e-4)), metric
    assert (mine.rmse is None) == (classes or several)


def test_thin_adamw_and_average_equal_those_of_torch() -> None:
    network = build_network(NetworkSpec(depth=4, width=10), (6,), 3, generator=torch.Generator().manual_seed(0))
    twin = copy.deepcopy(network)
    optimisers = [
        kind(one.parameters(), lr=0.01, weight_decay=0.1, fused=True) for kind, one in ((ThinAdamW, network), (torch.optim.AdamW, twin))
    ]
    averages = [ThinAverage(network, 0.9), AveragedModel(twin, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)]
    inputs, targets = torch.randn(20, 6), torch.arange(20) % 3
    for rate in (0.01, 0.02, 0.005):
        for one, optimiser, average in zip((network, twin), optimisers, averages, strict=True):
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            one(inputs, targets=targets)[1].backward()
            optimiser.step()
            average.update_parameters(one)
    for mine, theirs in ((network, twin), averages):
        for (name, value), other in zip(mine.state_dict().items(), theirs.state_dict().values(), strict=True):
            assert torch.equal(value, other), name
    for mine, theirs in zip(*(list(optimiser.state.values()) for optimiser in optimisers), strict=True):
        assert all(torch.equal(mine[key], theirs[key]) for key in ("step", "exp_avg", "exp_avg_sq"))


def test_batch_norm_is_averaged_as_torch_does() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    averages = [ThinAverage(module, 0.8), AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=True)]
    for _ in range(3):
        module(torch.randn(5, 3))
        for average in averages:
            average.update_parameters(module)
    for mine, theirs in zip(*(average.state_dict().values() for average in averages), strict=True):
        assert torch.equal(mine, theirs)
