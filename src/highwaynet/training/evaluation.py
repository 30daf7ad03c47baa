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
from highwaynet.runs.names import Kept
from highwaynet.runs.run_records import Score
from highwaynet.runs.stages import check_outputs
from highwaynet.training.distribution import ALONE, World
from highwaynet.training.measuring import Tally
from highwaynet.training.objective import Batch, Objective, standard_objective

EVALUATION_BATCH = 256


@contextmanager
def evaluating(*networks: nn.Module) -> Iterator[None]:
    """Context manager: evaluation mode without gradients; on exit every module gets its previous mode back."""
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
    """Compute loss and metrics over all samples of a split, in evaluation mode and without gradients. Processes divide the samples.

    The loss is that of `objective`, by default cross-entropy for classes and squared error for numbers.
    """
    record = split.preparation.record
    objective = objective or standard_objective(record.task)
    tally = Tally(record, squared_error=objective.is_squared_error, outputs=objective.judges_outputs)
    weights = next(network.parameters())
    mine = replace(split, rows=split.rows.tensor_split(world.size)[world.rank])
    with evaluating(network, objective):
        given = None if mine.weights is None else mine.weights[mine.rows].split(EVALUATION_BATCH)
        for number, (inputs, targets) in enumerate(mine.batches(EVALUATION_BATCH)):
            there = targets.to(weights.device, weights.dtype if targets.is_floating_point() else None)
            own = None if given is None else given[number].to(weights.device)
            found = objective.assess(network, Batch(inputs.to(weights), there, weights=own))
            tally.add(found.loss, found.outputs, there, own)
    return tally.score(world)


def evaluate_run(run: RunDirectory, part: Part, checkpoint: Kept | None = None, data: Any = None) -> Score:
    """Loss and metrics of a run's network on one part of its data; `data` are those of a run that was trained on data in memory."""
    spec, preparation = run.read_spec(), run.load_preparation()
    check_outputs(spec, run.path)
    network = load_network(run, checkpoint, data=preparation.record)
    return evaluate(network, load_dataset(spec.data, preparation, data=data).part(part))
