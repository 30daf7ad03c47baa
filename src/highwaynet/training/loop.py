"""The training loop: read it from top to bottom."""

import math
import time
from pathlib import Path
from typing import Protocol

import torch
import torch.nn.functional as F

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.base.randomness import generator_for
from highwaynet.data.load import load_dataset
from highwaynet.runs.directory import FINAL, RunDirectory
from highwaynet.runs.environment import describe_environment
from highwaynet.runs.load import fresh_network
from highwaynet.runs.records import EpochRecord, TimingRecord
from highwaynet.runs.spec import RunSpec
from highwaynet.training.evaluation import Tally, evaluate
from highwaynet.training.schedule import learning_rate


class Watcher(Protocol):
    """Whoever wants to see a run while it goes on."""

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
        HighwayError: If the loss is no longer finite.
    """
    RunDirectory.check_free(path, overwrite=overwrite)
    if spec.training.threads is not None:
        torch.set_num_threads(spec.training.threads)
    data = load_dataset(spec.data)
    batch_size, epochs = spec.training.batch_size, spec.training.epochs
    if batch_size > len(data.train):
        raise InputError(f"training.batch_size = {batch_size}: {data.name} has {len(data.train)} training samples; choose at most that")
    network = fresh_network(spec)
    optimiser = torch.optim.SGD(network.parameters(), lr=spec.training.learning_rate, momentum=spec.training.momentum)
    steps_per_epoch = math.ceil(len(data.train) / batch_size)
    run = RunDirectory.create(path, spec, describe_environment(), overwrite=overwrite)
    run.log(f"started: {spec.network.name}, {spec.network.depth} layers, on {data.name}, {epochs} epochs")

    step = 0
    for epoch in range(1, epochs + 1):
        started = time.perf_counter()
        network.train()
        tally = Tally()
        order = torch.randperm(len(data.train), generator=generator_for(spec.seed, "permutation", epoch))
        for inputs, targets in data.train.batches(batch_size, order):
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(spec.training, step, epochs * steps_per_epoch)
            logits = network(inputs)  # (batch, classes)
            loss = F.cross_entropy(logits, targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            tally.add(loss, logits, targets)
            step += 1
            if watcher:
                watcher.step(len(targets))

        trained = tally.score()
        validated = evaluate(network, data.validation) if data.validation else None
        if not math.isfinite(trained.loss) or (validated and not math.isfinite(validated.loss)):
            run.log(f"stopped: the loss was not finite in epoch {epoch}")
            raise HighwayError(
                f"the loss is no longer finite in epoch {epoch}: try a training.learning_rate below {spec.training.learning_rate} "
                f"(the finished epochs are in {path})"
            )
        record = EpochRecord(
            epoch=epoch,
            step=step,
            learning_rate=optimiser.param_groups[0]["lr"],
            train_loss=trained.loss,
            train_accuracy=trained.accuracy,
            validation_loss=validated.loss if validated else None,
            validation_accuracy=validated.accuracy if validated else None,
        )
        seconds = time.perf_counter() - started
        timing = TimingRecord(epoch=epoch, seconds=seconds, samples_per_second=len(data.train) / seconds)
        run.add_epoch(record, timing)
        if watcher:
            watcher.epoch(record, timing)

    run.save_checkpoint(FINAL, network.state_dict(), epoch=epochs, step=step)
    run.log("finished")
    return run
