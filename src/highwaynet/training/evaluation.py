"""Loss and metrics of a network on one part of the data."""

from dataclasses import replace

import torch
from torch import nn

from highwaynet.data.dataset import Split
from highwaynet.runs.records import Score
from highwaynet.training.distribution import ALONE, World
from highwaynet.training.objective import Tally, loss_function

EVALUATION_BATCH = 256


def evaluate(network: nn.Module, split: Split, world: World = ALONE) -> Score:
    """Loss and metrics over all samples of a split, in evaluation mode and without gradients. Processes divide the samples."""
    record = split.preparation.record
    tally = Tally(record)
    was_training = network.training
    network.eval()
    weights = next(network.parameters())
    mine = replace(split, rows=split.rows.tensor_split(world.size)[world.rank])
    try:
        with torch.inference_mode():
            for inputs, targets in mine.batches(EVALUATION_BATCH):
                outputs = network(inputs.to(weights)).cpu()
                tally.add(loss_function(record, outputs, targets), outputs, targets)
    finally:
        network.train(was_training)
    return tally.score(world)
