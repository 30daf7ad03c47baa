"""How long runs will take on this machine, from a few timed steps of the training loop itself."""

import math
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from highwaynet.data.record import DataRecord
from highwaynet.experiments.claims import Run
from highwaynet.runs.records import EpochRecord, TimingRecord
from highwaynet.runs.spec import RunSpec, with_training
from highwaynet.training.loop import train

WARM = 3
"""Steps that are not counted: memory is fetched, kernels are chosen."""
STEPS = 10
"""Steps that are counted, at least."""
SECONDS = 0.5
"""Time that is counted, at least, as long as the run has steps."""
BESIDE = 1.15
"""What an epoch takes beside its steps: evaluation, saving, the beginning."""


class _EnoughError(Exception):
    """The steps were timed."""


class _Clock:
    """Times the steps of a run, and ends it."""

    def __init__(self) -> None:
        self.samples = 0
        self._taken, self._began, self._last = 0, 0.0, 0.0

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Training begins."""
        self.samples = data.train

    def step(self, samples: int) -> None:
        """A step was taken."""
        self._taken += 1
        self._last = time.perf_counter()
        if self._taken == WARM:
            self._began = self._last
        if self._taken >= WARM + STEPS and self._last - self._began >= SECONDS:
            raise _EnoughError

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """An epoch ended."""

    def note(self, sentence: str) -> None:
        """Nobody wants to know."""

    @property
    def seconds(self) -> float:
        """Of a step."""
        return (self._last - self._began) / max(1, self._taken - WARM)


def seconds_of(spec: RunSpec) -> tuple[float, int]:
    """What a step takes here with one thread, and how many steps an epoch has."""
    clock = _Clock()
    with tempfile.TemporaryDirectory() as folder, suppress(_EnoughError):
        train(with_training(spec, threads=1, tensorboard=False), Path(folder) / "run", watcher=clock)
    return clock.seconds, math.ceil(clock.samples / spec.training.batch_size)


def estimate(left: list[tuple[Run, int]], workers: int, tell: Callable[[str], None] = lambda sentence: None) -> float:
    """Seconds until runs are done, each with so many epochs left, so many at a time.

    Runs that differ in nothing that costs time are timed once.
    """
    known: dict[str, float] = {}
    costs = []
    for run, epochs in left:
        kind = f"{run.spec.network.model_dump_json()} {run.spec.data.name} {run.spec.training.batch_size} {run.spec.training.precision}"
        if kind not in known:
            tell(f"timing a few steps of {run.label}")
            step, steps = seconds_of(run.spec)
            known[kind] = step * steps
        costs.append(BESIDE * epochs * known[kind])
    return max(sum(costs) / max(1, workers), max(costs, default=0.0))
