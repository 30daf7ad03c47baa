"""How long runs will take on this machine, from a few timed steps of the training loop itself."""

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
"""Steps that are not counted: memory is fetched, kernels are chosen."""
STEPS = 10
"""Steps that are counted, at least."""
SECONDS = 0.5
"""Time that is counted, at least, as long as the run has steps."""
BESIDE = 1.15
"""What an epoch takes beside its steps: evaluation, saving, the beginning."""
START = {"gate_bias", "init", "init_std"}
"""Settings of a network that say how it starts, and cost no time."""


class _EnoughError(Exception):
    """The steps were timed."""


class Clock(Watcher):
    """Times the steps of a run, and ends it."""

    def __init__(self) -> None:
        self.samples = 0
        self._ends: list[float] = []

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Training begins."""
        self.samples = data.train
        self._ends = [time.perf_counter()]

    def step(self, samples: int) -> None:
        """A step was taken."""
        if torch.cuda.is_initialized():  # a GPU is told what to do long before it has done it
            torch.cuda.synchronize()
        self._ends.append(time.perf_counter())
        if len(self._ends) > WARM + STEPS and self._ends[-1] - self._ends[WARM] >= SECONDS:
            raise _EnoughError

    @property
    def seconds(self) -> float:
        """Of a step: the first ones count only where there are no others; 0 where the run diverged in its first."""
        ends = self._ends[WARM:] if len(self._ends) > WARM + 1 else self._ends
        return (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else 0.0


def seconds_of(spec: RunSpec) -> tuple[float, int]:
    """What a step takes here with one thread, and how many steps an epoch has."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, suppress(_EnoughError, DivergenceError):
        train(with_training(spec, threads=1, tensorboard=False), Path(folder) / "run", watcher=clock)
    return clock.seconds, math.ceil(clock.samples / spec.training.batch_size)


def estimate(left: list[tuple[Run, int]], workers: int, tell: Callable[[str], None] = lambda sentence: None) -> float:
    """Seconds until runs are done, each with so many epochs left, so many at a time.

    Runs that differ in nothing that costs time are timed once.
    """
    known: dict[str, float] = {}
    costs = []
    if left:
        tell("timing a few steps of each kind of network")
    for run, epochs in left:
        kind = _kind(run.spec)
        if kind not in known:
            step, steps = seconds_of(run.spec)
            known[kind] = step * steps
        costs.append(BESIDE * epochs * known[kind])
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
