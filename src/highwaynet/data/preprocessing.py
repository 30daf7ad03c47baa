"""Preprocessing: a sequence of named steps, each with statistics that are learned from the training samples only.

scale         divides by the largest value a pixel can have, so that inputs lie between 0 and 1
standardise   subtracts the mean and divides by the standard deviation, of each channel (images) or each feature
gcn           global contrast normalisation: each sample minus its own mean, divided by its own standard deviation
mean-image    subtracts the mean image
zca           whitens: decorrelates all inputs and gives them equal variance, as close to the original as possible

Statistics are summed in float64, over batches, so that the data set may be larger than memory.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from highwaynet.data.names import Step

Batches = Callable[[], Iterator[Tensor]]
"""A function that starts a pass over the training inputs, in batches of raw values."""

ZCA_EPSILON = 1e-2
"""Added to the variances before division, so that directions without variance are not amplified."""


@dataclass(frozen=True)
class Preprocessing:
    """Fitted steps; `apply` converts raw inputs to inputs of the network."""

    steps: tuple[Step, ...]
    full_scale: float
    """The input value that `scale` maps to 1."""
    state: Mapping[str, Tensor]
    """Statistics by step and name, for instance "standardise.mean"."""

    def apply(self, inputs: Tensor) -> Tensor:
        """Apply all steps to raw inputs (batch, ...) and return float32; the raw inputs are not changed."""
        x = inputs.to(torch.float32, copy=True)
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
                return (flat @ state["zca.matrix"]).view_as(x)


def fit_preprocessing(steps: tuple[Step, ...], full_scale: float, batches: Batches) -> Preprocessing:
    """Learn the statistics of each step from the training inputs, to which the steps before it were applied."""
    fitted = Preprocessing((), full_scale, {})
    for step in steps:
        learn = _LEARNERS.get(step)
        learned = learn(_prepared(fitted, batches)) if learn else {}
        state = {**fitted.state, **{f"{step}.{name}": value.float() for name, value in learned.items()}}
        fitted = Preprocessing((*fitted.steps, step), full_scale, state)
    return fitted


def _prepared(fitted: Preprocessing, batches: Batches) -> Batches:
    return lambda: (fitted.apply(batch).double() for batch in batches())


def _learn_standardise(batches: Batches) -> dict[str, Tensor]:
    """Compute mean and 1 / standard deviation of each channel or feature; a constant one is only centred."""

    def moment(power: int, centre: Tensor | float) -> Tensor:
        total, count = torch.zeros(()), 0
        for batch in batches():
            spread = tuple(axis for axis in range(batch.ndim) if axis != 1)
            values = (batch - centre) ** power
            total = total + values.sum(dim=spread, keepdim=True)[0]
            count += batch.shape[0] * batch[0, 0].numel()
        return total / count

    mean = moment(1, 0.0)
    std = moment(2, mean).sqrt()  # a second pass, for numerical stability
    return {"mean": mean, "inverse_std": 1.0 / torch.where(std > 1e-12, std, 1.0)}


def _learn_mean(batches: Batches) -> dict[str, Tensor]:
    total, count = torch.zeros(()), 0
    for batch in batches():
        total, count = total + batch.sum(dim=0), count + len(batch)
    return {"mean": total / count}


def _learn_zca(batches: Batches) -> dict[str, Tensor]:
    """W = U · diag(1 / sqrt(variance + ε)) · Uᵀ from the covariance U · diag(variance) · Uᵀ."""
    mean = _learn_mean(batches)["mean"].flatten()
    covariance, count = torch.zeros(mean.numel(), mean.numel(), dtype=torch.float64), 0
    for batch in batches():
        flat = batch.flatten(1) - mean
        covariance += flat.T @ flat
        count += len(batch)
    variance, directions = torch.linalg.eigh(covariance / count)
    return {"mean": mean, "matrix": (directions / (variance.clamp(min=0) + ZCA_EPSILON).sqrt()) @ directions.T}


_LEARNERS: dict[str, Callable[[Batches], dict[str, Tensor]]] = {
    "standardise": _learn_standardise,
    "mean-image": _learn_mean,
    "zca": _learn_zca,
}
