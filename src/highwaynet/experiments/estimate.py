"""Estimates of how long runs take on this machine, from a few timed steps of the training loop."""

import math
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

from highwaynet.data.record import DataRecord
from highwaynet.experiments.claims import Run
from highwaynet.runs.spec import RunSpec, with_training
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.loop import train
from highwaynet.training.watcher import Watcher

WARM = 3
"""Warm-up steps that are not timed."""
STEPS = 10
"""Minimum number of timed steps."""
SECONDS = 0.5
"""Minimum timed seconds, unless the run ends before."""
BESIDE = 1.15
"""Factor for the time of an epoch besides its steps: evaluation, saving, start-up."""
START = {"gate_bias", "init", "init_std", "init_range"}
"""Settings of the initialisation, which do not change the time."""


FORWARD = 1 / 3
"""The share of a training step that a teacher needs, which is not trained."""


class _EnoughError(Exception):
    """Enough steps have been timed."""


class Clock(Watcher):
    """Watcher that times the steps of a run, and then ends it."""

    def __init__(self) -> None:
        self.samples = 0
        self._ends: list[float] = []

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Start the clock."""
        self.samples = data.train
        self._ends = [time.perf_counter()]

    def step(self, samples: int) -> None:
        """Record the time; raise `_EnoughError` after enough steps."""
        if torch.cuda.is_initialized():  # GPUs compute asynchronously
            torch.cuda.synchronize()
        self._ends.append(time.perf_counter())
        if len(self._ends) > WARM + STEPS and self._ends[-1] - self._ends[WARM] >= SECONDS:
            raise _EnoughError

    @property
    def seconds(self) -> float:
        """Mean seconds of a step, without warm-up steps if there are others; 0 if the run diverged in its first step."""
        ends = self._ends[WARM:] if len(self._ends) > WARM + 1 else self._ends
        return (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else 0.0


def seconds_of(spec: RunSpec) -> tuple[float, int]:
    """Return the seconds of a step on this machine with one thread, and the number of steps of an epoch."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, suppress(_EnoughError, DivergenceError):
        train(with_training(spec, threads=1, tensorboard=False), Path(folder) / "run", watcher=clock)
    return clock.seconds, math.ceil(clock.samples / spec.training.batch_size)


def estimate(
    left: list[tuple[Run, int]],
    workers: int,
    tell: Callable[[str], None] = lambda sentence: None,
    known: dict[str, float] | None = None,
) -> float:
    """Estimate the seconds until all runs are done, given the epochs left of each (of both stages), with `workers` runs at a time.

    Runs that differ only in settings without effect on the time are timed once, also those of an earlier call with the same `known`.
    """
    known = {} if known is None else known
    costs = []
    if left and not known:
        tell("timing a few steps of each kind of network")

    def of_epoch(spec: RunSpec) -> float:
        kind = _kind(spec)
        if kind not in known:
            step, steps = seconds_of(spec)
            known[kind] = step * steps
        return known[kind]

    for run, epochs in left:
        seconds = epochs * of_epoch(run.spec.model_copy(update={"teacher": None}))
        if run.teacher:
            training = run.spec.training
            augmented = training.crop or training.mirror or training.rotate
            stages = 1 + (epochs > run.spec.training.epochs)
            # Without augmentation the teacher is asked once in each stage.
            seconds += FORWARD * of_epoch(run.teacher.spec) * (epochs if augmented else stages)
        costs.append(BESIDE * seconds)
    return max(sum(costs) / max(1, workers), max(costs, default=0.0))


def _kind(spec: RunSpec) -> str:
    training = spec.training
    return " ".join(
        [
            spec.network.model_dump_json(exclude=START),
            spec.data.model_dump_json(),
            *map(str, (training.batch_size, training.optimiser, training.precision, training.crop, training.mirror, training.rotate)),
        ]
    )
