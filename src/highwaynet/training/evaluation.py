"""Loss and metrics of a network, or of the network of a run, on one part of the data."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from highwaynet.data.dataset import Split
from highwaynet.data.load import load_dataset
from highwaynet.data.names import Part
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network
from highwaynet.runs.records import Kept, Score
from highwaynet.training.distribution import ALONE, World
from highwaynet.training.measuring import Tally
from highwaynet.training.objective import Objective, standard_objective

EVALUATION_BATCH = 256


@contextmanager
def evaluating(*networks: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; at the end every module is in its own mode again."""
    modes = [(module, module.training) for network in networks for module in network.modules()]
    for network in networks:
        network.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def evaluate(network: nn.Module, split: Split, world: World = ALONE, objective: Objective | None = None) -> Score:
    """Loss and metrics over all samples of a split, in evaluation mode and without gradients. Processes divide the samples.

    The loss is the objective's; by default cross-entropy, or squared error for numbers.
    """
    record = split.preparation.record
    objective = objective or standard_objective(record.task)
    tally = Tally(record, squared_error=objective.is_squared_error)
    weights = next(network.parameters())
    mine = replace(split, rows=split.rows.tensor_split(world.size)[world.rank])
    with evaluating(network, objective):
        for inputs, targets in mine.batches(EVALUATION_BATCH):
            outputs, there = network(inputs.to(weights)), targets.to(weights.device)
            tally.add(objective.measure(outputs, there), outputs, there)
    return tally.score(world)


def evaluate_run(run: RunDirectory, part: Part, checkpoint: Kept | None = None, data: Any = None) -> Score:
    """Loss and metrics of a run's network on one part of its data; `data` are those of a run that was trained on data in memory."""
    spec, preparation = run.read_spec(), run.load_preparation()
    network = load_network(run, checkpoint, data=preparation.record)
    return evaluate(network, load_dataset(spec.data, preparation, data=data).part(part))
