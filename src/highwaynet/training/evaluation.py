"""Loss and accuracy of a network on one part of the data."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet.data.dataset import Split
from highwaynet.runs.records import Score

EVALUATION_BATCH = 1024


class Tally:
    """Sums up loss and right answers batch by batch, in double precision and without waiting for either."""

    def __init__(self) -> None:
        self._loss = torch.zeros((), dtype=torch.float64)
        self._correct = torch.zeros((), dtype=torch.int64)
        self._samples = 0

    def add(self, loss: Tensor, logits: Tensor, targets: Tensor) -> None:
        """Count a batch whose mean loss is `loss`."""
        self._loss += loss.detach().double() * len(targets)
        self._correct += (logits.detach().argmax(1) == targets).sum()
        self._samples += len(targets)

    def score(self) -> Score:
        """The means so far."""
        count = max(self._samples, 1)
        return Score(loss=self._loss.item() / count, accuracy=self._correct.item() / count, samples=self._samples)


def evaluate(network: nn.Module, split: Split) -> Score:
    """Loss and accuracy over all samples of a split, in evaluation mode and without gradients."""
    tally = Tally()
    was_training = network.training
    network.eval()
    try:
        with torch.inference_mode():
            for inputs, targets in split.batches(EVALUATION_BATCH):
                logits = network(inputs)
                tally.add(F.cross_entropy(logits, targets), logits, targets)
    finally:
        network.train(was_training)
    return tally.score()
