"""What is minimised, and what is measured on the way: cross-entropy and accuracy, or squared error, RMSE and R²."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from highwaynet.data.record import DataRecord
from highwaynet.kernels.dense_layer import cross_entropy
from highwaynet.runs.records import Score
from highwaynet.training.distribution import ALONE, World


def loss_function(record: DataRecord, outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean loss of a batch: outputs (batch, classes) with class numbers, or (batch, 1) with standardised numbers."""
    if record.task == "classification":
        return cross_entropy(outputs, targets)
    return F.mse_loss(outputs.squeeze(1), targets)


def training_loss(
    network: Callable[..., Any],
    record: DataRecord,
    inputs: Tensor,
    targets: Tensor,
    companion_weight: float | None = None,
    *,
    takes_targets: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, their loss, and what is minimised: where companions have a weight, their losses too (deep supervision).

    `takes_targets`: the network can compute the cross-entropy itself.
    """
    if companion_weight is None and takes_targets and record.task == "classification":
        outputs, loss = network(inputs, targets=targets)
        return outputs, loss, loss
    if companion_weight is None:
        outputs = network(inputs)
        loss = loss_function(record, outputs, targets)
        return outputs, loss, loss
    outputs, companions = network(inputs, return_companions=True)
    loss = loss_function(record, outputs, targets)
    return outputs, loss, loss + companion_weight * sum(loss_function(record, companion, targets) for companion in companions)


class Tally:
    """Sums up loss and metrics batch by batch, in double precision and without waiting for the device."""

    def __init__(self, record: DataRecord, sums: tuple[float, ...] = (0.0,) * 5) -> None:
        self._record = record
        self._samples = int(sums[0])
        # Σ loss, correct answers, Σ y and Σ y² of the targets
        self._sums = torch.tensor(sums[1:], dtype=torch.float64)

    def add(self, loss: Tensor, outputs: Tensor, targets: Tensor) -> None:
        """Count a batch whose mean loss is `loss`."""
        self._samples += len(targets)
        self._sums = self._sums.to(loss.device)
        self._sums[0] += loss.detach().double() * len(targets)
        if self._record.task == "classification":
            self._sums[1] += (outputs.detach().argmax(1) == targets).sum()
        else:
            exact = targets.double()
            self._sums[2:] += torch.stack([exact.sum(), exact.square().sum()])

    @property
    def finite(self) -> bool:
        """Whether every loss so far was a number."""
        return math.isfinite(self._sums[0].item())

    def sums(self) -> Tensor:
        """Number of samples and sums, to be put together with those of other processes, or to go on from."""
        return torch.cat([torch.tensor([self._samples], dtype=torch.float64), self._sums.cpu()])

    def score(self, world: World = ALONE) -> Score:
        """The means so far, over all processes."""
        samples, loss, correct, total, squares = world.total(self.sums()).tolist()
        count = max(samples, 1)
        loss = loss / count
        if self._record.task == "classification":
            return Score(loss=loss, accuracy=correct / count, samples=int(samples))
        variance = squares / count - (total / count) ** 2
        r2 = 1 - loss / variance if variance > 1e-12 else 0.0
        rmse = math.sqrt(loss) * self._record.target_std if loss >= 0 else math.nan
        return Score(loss=loss, rmse=rmse, r2=r2, samples=int(samples))
