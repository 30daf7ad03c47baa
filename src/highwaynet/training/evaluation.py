"""Loss and metrics of a network on one part of the data."""

import torch
from torch import nn

from highwaynet.data.dataset import Split
from highwaynet.runs.records import Score
from highwaynet.training.objective import Tally, loss_function

EVALUATION_BATCH = 256


def evaluate(network: nn.Module, split: Split) -> Score:
    """Loss and metrics over all samples of a split, in evaluation mode and without gradients."""
    record = split.preparation.record
    tally = Tally(record)
    was_training = network.training
    network.eval()
    try:
        with torch.inference_mode():
            for inputs, targets in split.batches(EVALUATION_BATCH):
                outputs = network(inputs)
                tally.add(loss_function(record, outputs, targets), outputs, targets)
    finally:
        network.train(was_training)
    return tally.score()
