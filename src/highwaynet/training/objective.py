"""What is minimised, and what is measured on the way: cross-entropy and accuracy, or squared error, RMSE and R²."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from highwaynet.data.record import DataRecord
from highwaynet.networks.build import Network
from highwaynet.runs.records import Score


def loss_function(record: DataRecord, outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean loss of a batch: outputs (batch, classes) with class numbers, or (batch, 1) with standardised numbers."""
    if record.task == "classification":
        return F.cross_entropy(outputs, targets)
    return F.mse_loss(outputs.squeeze(1), targets)


def training_loss(
    network: Network, record: DataRecord, inputs: Tensor, targets: Tensor, companion_weight: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, their loss, and what is minimised: with companion classifiers their losses too (deep supervision)."""
    if not network.companions:
        outputs = network(inputs)
        loss = loss_function(record, outputs, targets)
        return outputs, loss, loss
    outputs, companions = network(inputs, return_companions=True)
    loss = loss_function(record, outputs, targets)
    return outputs, loss, loss + companion_weight * sum(loss_function(record, companion, targets) for companion in companions)


class Tally:
    """Sums up loss and metrics batch by batch, in double precision and without waiting for either."""

    def __init__(self, record: DataRecord) -> None:
        self._record = record
        self._samples = 0
        self._loss = torch.zeros((), dtype=torch.float64)
        self._correct = torch.zeros((), dtype=torch.int64)
        self._moments = torch.zeros(2, dtype=torch.float64)  # of the targets: Σy, Σy²

    def add(self, loss: Tensor, outputs: Tensor, targets: Tensor) -> None:
        """Count a batch whose mean loss is `loss`."""
        self._samples += len(targets)
        self._loss += loss.detach().double() * len(targets)
        if self._record.task == "classification":
            self._correct += (outputs.detach().argmax(1) == targets).sum()
        else:
            exact = targets.double()
            self._moments += torch.stack([exact.sum(), exact.square().sum()])

    def score(self) -> Score:
        """The means so far."""
        count = max(self._samples, 1)
        loss = self._loss.item() / count
        if self._record.task == "classification":
            return Score(loss=loss, accuracy=self._correct.item() / count, samples=self._samples)
        total, squares = self._moments.tolist()
        variance = squares / count - (total / count) ** 2
        r2 = 1 - loss / variance if variance > 1e-12 else 0.0
        rmse = math.sqrt(loss) * self._record.target_std if loss >= 0 else math.nan
        return Score(loss=loss, rmse=rmse, r2=r2, samples=self._samples)
