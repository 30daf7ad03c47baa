"""Preprocessing: a sequence of named steps, each with statistics that are learned from the training samples only.

scale         divides by the largest value a pixel can have, so that inputs lie between 0 and 1
standardise   subtracts the mean and divides by the standard deviation, of each channel (images) or each feature
gcn           global contrast normalisation: each sample minus its own mean, divided by its own standard deviation
mean-image    subtracts the mean image
zca           whitens: decorrelates all inputs and gives them equal variance, as close to the original as possible
piecewise     adds the piecewise-linear encoding of each feature (Gorishniy et al. 2022, https://arxiv.org/abs/2203.05556): a feature for
              each bin between two quantiles, which rises from 0 to 1 in its bin; features with two values have no bins

Statistics are summed in float64, over batches, so that the data set may be larger than memory. Samples may have weights: statistics of
weighted samples are those of repeated ones.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from highwaynet.data.names import Step

Batches = Callable[[], Iterator[Tensor]]
"""A function that starts a pass over the training inputs, in batches of raw values."""

ZCA_EPSILON = 1e-2
"""Added to the variances before division, so that directions without variance are not amplified."""
BINS = 16
"""Bins of a feature with `piecewise`, at most, if the user does not choose."""
MOST_VALUES = 20_000_000
"""Quantiles are those of evenly spaced samples with at most this many values in all."""


@dataclass(frozen=True)
class Preprocessing:
    """Fitted steps; `apply` converts raw inputs to inputs of the network."""

    steps: tuple[Step, ...]
    full_scale: float
    """The input value that `scale` maps to 1."""
    state: Mapping[str, Tensor]
    """Statistics by step and name, for instance "standardise.mean"."""

    def apply(self, inputs: Tensor) -> Tensor:
        """Apply all steps to raw inputs (batch, ...) and return float32, or float64 for float64; the raw inputs are not changed."""
        x = inputs.to(torch.float64 if inputs.dtype is torch.float64 else torch.float32, copy=True)
        for step in self.steps:
            x = self._apply_step(step, x)
        return x

    def _apply_step(self, step: Step, x: Tensor) -> Tensor:
        state = self.state
        match step:
            case "scale":
                return x.mul_(1.0 / self.full_scale)
            case "standardise":
                return x.sub_(state["standardise.mean"]).mul_(state["standardise.inverse_std"])
            case "gcn":
                flat = x.flatten(1)
                std, mean = torch.std_mean(flat, dim=1, correction=0, keepdim=True)
                return flat.sub_(mean).div_(std.clamp_(min=1e-8)).view_as(x)
            case "mean-image":
                return x.sub_(state["mean-image.mean"])
            case "zca":
                flat = x.flatten(1).sub_(state["zca.mean"])
                return (flat @ state["zca.matrix"].to(flat)).view_as(x)
            case "piecewise":
                chosen = x.index_select(1, state["piecewise.feature"])  # (batch, bins of all features)
                return torch.cat([x, chosen.sub_(state["piecewise.low"]).mul_(state["piecewise.inverse_width"]).clamp_(0, 1)], dim=1)


def fit_preprocessing(
    steps: tuple[Step, ...], full_scale: float, batches: Batches, weights: Tensor | None = None, bins: int = BINS
) -> Preprocessing:
    """Learn the statistics of each step from the training inputs, to which the steps before it were applied.

    Args:
        steps: The steps, in order.
        full_scale: The input value that `scale` maps to 1.
        batches: Starts a pass over the training inputs.
        weights: How much each of them counts, (samples,); None if all count alike.
        bins: Bins of a feature with `piecewise`, at most.
    """
    learners: dict[str, Callable[[Batches, Tensor | None], dict[str, Tensor]]] = {
        "standardise": _learn_standardise,
        "mean-image": _learn_mean,
        "zca": _learn_zca,
        "piecewise": partial(_learn_piecewise, bins=bins),
    }
    fitted = Preprocessing((), full_scale, {})
    for step in steps:
        learn = learners.get(step)
        learned = learn(_prepared(fitted, batches), weights) if learn else {}
        state = {**fitted.state, **{f"{step}.{name}": _stored(value, next(batches()).dtype) for name, value in learned.items()}}
        fitted = Preprocessing((*fitted.steps, step), full_scale, state)
    return fitted


def _stored(value: Tensor, inputs: torch.dtype) -> Tensor:
    """Return a statistic as it is kept: float32, or float64 for float64 inputs; indices stay as they are."""
    return value if inputs is torch.float64 or not value.is_floating_point() else value.float()


def _prepared(fitted: Preprocessing, batches: Batches) -> Batches:
    return lambda: (fitted.apply(batch).double() for batch in batches())


def _weighted(batches: Batches, weights: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches with the weights of their samples, shaped to multiply them."""
    start = 0
    for batch in batches():
        mine = torch.ones(len(batch), dtype=torch.float64) if weights is None else weights[start : start + len(batch)]
        start += len(batch)
        yield batch, mine.view(-1, *[1] * (batch.ndim - 1))


def _learn_standardise(batches: Batches, weights: Tensor | None) -> dict[str, Tensor]:
    """Compute mean and 1 / standard deviation of each channel or feature; a constant one is only centred."""

    def moment(power: int, centre: Tensor | float) -> Tensor:
        total, count = torch.zeros(()), 0.0
        for batch, mine in _weighted(batches, weights):
            spread = tuple(axis for axis in range(batch.ndim) if axis != 1)
            values = (batch - centre) ** power * mine
            total = total + values.sum(dim=spread, keepdim=True)[0]
            count += float(mine.sum()) * batch[0, 0].numel()
        return total / count

    first = next(batches())[0]
    near = first[:, *[slice(1)] * (first.ndim - 1)]  # a value of each channel or feature; the mean of equal values is that value then
    mean = near + moment(1, near)
    std = moment(2, mean).sqrt()  # a second pass, for numerical stability
    return {"mean": mean, "inverse_std": 1.0 / torch.where(std > 1e-12, std, 1.0)}


def _learn_mean(batches: Batches, weights: Tensor | None) -> dict[str, Tensor]:
    total, count = torch.zeros(()), 0.0
    for batch, mine in _weighted(batches, weights):
        total, count = total + (batch * mine).sum(dim=0), count + float(mine.sum())
    return {"mean": total / count}


def _learn_zca(batches: Batches, weights: Tensor | None) -> dict[str, Tensor]:
    """W = U · diag(1 / sqrt(variance + ε)) · Uᵀ from the covariance U · diag(variance) · Uᵀ."""
    mean = _learn_mean(batches, weights)["mean"].flatten()
    covariance, count = torch.zeros(mean.numel(), mean.numel(), dtype=torch.float64), 0.0
    for batch, mine in _weighted(batches, weights):
        flat = batch.flatten(1) - mean
        covariance += (flat * mine.view(-1, 1)).T @ flat
        count += float(mine.sum())
    variance, directions = torch.linalg.eigh(covariance / count)
    return {"mean": mean, "matrix": (directions / (variance.clamp(min=0) + ZCA_EPSILON).sqrt()) @ directions.T}


def _learn_piecewise(batches: Batches, weights: Tensor | None, bins: int) -> dict[str, Tensor]:
    """Compute the bins of each feature between quantiles of its values; equal quantiles give fewer bins, and a single one is left out."""
    size = sum(batch.numel() for batch in batches())
    every = -(-size // MOST_VALUES)
    values = torch.cat([batch[::every] for batch in batches()])  # (samples, features)
    mine = torch.ones(len(values), dtype=torch.float64)
    if weights is not None:
        mine = torch.cat([own.flatten()[::every] for _, own in _weighted(batches, weights)])
    feature, low, width = [], [], []
    for place in range(values.shape[1]):
        edges = _quantiles(values[:, place], mine, bins)
        edges = edges[:0] if len(edges) == 2 else edges
        feature += [place] * max(0, len(edges) - 1)
        low.append(edges[:-1])
        width.append(edges.diff())
    return {"feature": torch.tensor(feature, dtype=torch.int64), "low": torch.cat(low), "inverse_width": 1 / torch.cat(width)}


def _quantiles(values: Tensor, weights: Tensor, bins: int) -> Tensor:
    """Return the distinct quantiles k / bins of weighted values, without interpolation: weights count like repeated values."""
    order = values.argsort()
    reached = weights[order].cumsum(0)
    wanted = torch.linspace(0, 1, bins + 1, dtype=torch.float64) * reached[-1]
    places = torch.searchsorted(reached, wanted).clamp_(max=len(values) - 1)
    distinct: Tensor = values[order][places].unique()
    return distinct
