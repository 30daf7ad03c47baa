"""The training loop: read it from top to bottom."""

import math
import time
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.base.memory import keep_freed_memory
from highwaynet.base.randomness import generator_for, seed_for
from highwaynet.data.augmentation import Augmentation
from highwaynet.data.dataset import Augment, Dataset
from highwaynet.data.load import load_dataset
from highwaynet.data.record import DataRecord
from highwaynet.layers.dropout import Dropout
from highwaynet.networks.description import describe
from highwaynet.networks.spec import MAX_PARAMETERS
from highwaynet.runs.directory import FINAL, RunDirectory
from highwaynet.runs.environment import describe_environment
from highwaynet.runs.load import fresh_network
from highwaynet.runs.recipes import find_recipe
from highwaynet.runs.records import EpochRecord, Score, TimingRecord
from highwaynet.runs.spec import RunSpec
from highwaynet.runs.training_spec import TrainingSpec
from highwaynet.training.evaluation import EVALUATION_BATCH, evaluate
from highwaynet.training.objective import Tally, training_loss
from highwaynet.training.optimiser import make_optimiser, set_learning_rate
from highwaynet.training.schedule import learning_rate

STEPS = 20
"""A recipe's epoch has at least about so many steps."""


class Watcher(Protocol):
    """Whoever wants to see a run while it goes on."""

    def started(self, data: DataRecord) -> None:
        """Data and spec were found to fit; training begins."""
        ...

    def step(self, samples: int) -> None:
        """A step on so many samples was taken."""
        ...

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """An epoch ended."""
        ...


def train(spec: RunSpec, path: Path, *, overwrite: bool = False, watcher: Watcher | None = None) -> RunDirectory:
    """Train a network and leave everything about it in a run directory.

    Nothing is written before the spec has been found to fit the data.

    Args:
        spec: What to run.
        path: The run directory to make.
        overwrite: Replace an earlier run there.
        watcher: Told about every step and epoch.

    Raises:
        InputError: If the spec does not fit the data, or the directory cannot be made.
        HighwayError: If the loss or a weight is no longer finite.
    """
    RunDirectory.check_free(path, overwrite=overwrite)
    threads_before = torch.get_num_threads()
    threads = spec.training.threads or threads_before
    spec = _with_training(spec, threads=threads)
    torch.set_num_threads(threads)
    keep_freed_memory()
    try:
        data = load_dataset(spec.data)
        spec = _for_few_samples(spec, len(data.train))
        check_fit(spec, data)
        run = RunDirectory.create(path, spec, describe_environment(), overwrite=overwrite)
        run.save_preparation(data.preparation)
        run.log(f"started: {spec.network.name}, {spec.network.depth} layers, on {data.name}, {spec.training.epochs} epochs")
        if watcher:
            watcher.started(data.preparation.record)
        try:
            with torch.random.fork_rng(devices=[]):
                fit(spec, data, run, watcher)
        except BaseException as error:
            with suppress(HighwayError):  # what stopped the run matters more than a log that cannot be written
                run.log(f"stopped: {error or type(error).__name__}")
            raise
        run.log("finished")
        return run
    finally:
        torch.set_num_threads(threads_before)


def _with_training(spec: RunSpec, **changes: float) -> RunSpec:
    return spec.model_copy(update={"training": spec.training.model_copy(update=changes)})


def _for_few_samples(spec: RunSpec, samples: int) -> RunSpec:
    """A recipe made for tens of thousands of samples, for few: smaller batches and learning rate, if they were left alone.

    Otherwise a folder of a hundred images would be one step an epoch.
    """
    training = spec.training
    if training.recipe is None:
        return _with_training(spec, batch_size=samples) if samples < training.batch_size == TrainingSpec().batch_size else spec
    usual = find_recipe(training.recipe, spec.network.name, spec.network.variant).training
    if training.batch_size != usual["batch_size"] or samples >= STEPS * training.batch_size:
        return spec
    batch = min(samples, max(8, samples // STEPS))
    rate = training.learning_rate
    if rate == usual["learning_rate"] and training.optimiser == usual.get("optimiser", "sgd"):
        rate *= batch / training.batch_size
    return _with_training(spec, batch_size=batch, learning_rate=rate)


def check_fit(spec: RunSpec, data: Dataset) -> None:
    """Raise InputError where spec and data do not fit together."""
    training, record = spec.training, data.preparation.record
    table = describe(spec.network, record.input_shape, record.outputs)
    if table.parameters > MAX_PARAMETERS:
        shape = "×".join(map(str, record.input_shape))
        raise InputError(
            f"{spec.network.name} would have {table.parameters:,} weights for samples of {shape}; give smaller ones (data.resize)"
        )
    if (
        any(row.norm and prod(row.shape[1:]) == 1 for row in table.rows)
        and len(data.train) % training.batch_size == 1 % training.batch_size
    ):
        raise InputError(
            f"training.batch_size = {training.batch_size}: with {len(data.train)} training samples a batch of one is left, for which "
            f"{spec.network.name} has no batch norm on such small images; choose another"
        )
    if training.batch_size > len(data.train):
        raise InputError(
            f"training.batch_size = {training.batch_size}: {data.name} has {len(data.train)} training samples; choose at most that"
        )
    for field in ("crop", "mirror", "rotate"):
        if getattr(training, field) and record.kind != "images":
            raise InputError(f"training.{field} = {getattr(training, field)}: augmentation is for images; {data.name} has none")


def fit(spec: RunSpec, data: Dataset, run: RunDirectory, watcher: Watcher | None) -> None:
    """All epochs, and the final checkpoint."""
    training, record = spec.training, data.preparation.record
    network = fresh_network(spec, record)
    optimiser = make_optimiser(network, training)
    augmentation = Augmentation(training.crop, training.mirror, training.rotate)
    drops_out = any(isinstance(module, Dropout) for module in network.modules())
    steps_per_epoch = math.ceil(len(data.train) / training.batch_size)
    steps = training.epochs * steps_per_epoch

    step = 0
    for epoch in range(1, training.epochs + 1):
        started = time.perf_counter()
        network.train()
        tally = Tally(record)
        order = torch.randperm(len(data.train), generator=generator_for(spec.seed, "permutation", epoch))
        augment = _augment(augmentation, spec.seed, epoch)
        for inputs, targets in data.train.batches(training.batch_size, order, augment):
            rate = learning_rate(training, step, steps, steps_per_epoch)
            set_learning_rate(optimiser, rate)
            if drops_out:  # which draws from the global generator
                torch.manual_seed(seed_for(spec.seed, "dropout", step))
            companion_weight = training.companion_weight * (1 - step / steps)
            outputs, loss, objective = training_loss(network, record, inputs, targets, companion_weight)
            optimiser.zero_grad()
            objective.backward()
            optimiser.step()
            tally.add(loss, outputs, targets)
            step += 1
            if watcher:
                watcher.step(len(targets))

        trained = tally.score()
        validated = evaluate(network, data.validation) if data.validation else None
        if not _finite(network, trained, validated or evaluate(network, data.train.head(EVALUATION_BATCH))):
            raise HighwayError(
                f"the loss or a weight is no longer finite in epoch {epoch}: try a training.learning_rate below {training.learning_rate}, "
                f"or other start weights (what was finished is in {run.path})"
            )
        line = EpochRecord.of(trained, validated, epoch=epoch, step=step, learning_rate=rate)
        seconds = time.perf_counter() - started
        timing = TimingRecord(epoch=epoch, seconds=seconds, samples_per_second=len(data.train) / seconds)
        run.add_epoch(line, timing)
        if watcher:
            watcher.epoch(line, timing)

    run.save_checkpoint(FINAL, network.state_dict(), epoch=training.epochs, step=step)


def _augment(augmentation: Augmentation, seed: int, epoch: int) -> Augment | None:
    """The same pixels for the same (run seed, epoch, step), whenever the epoch is run."""
    if not augmentation:
        return None
    return lambda number, images, share: augmentation.apply(images, generator_for(seed, "augmentation", epoch, number), share)


def _finite(network: nn.Module, *scores: Score) -> bool:
    """Whether losses and weights are numbers; the epoch's last step shows only in a loss that is measured after it."""
    weights = all(bool(torch.isfinite(parameter).all()) for parameter in network.parameters())
    return weights and all(math.isfinite(score.loss) for score in scores)
