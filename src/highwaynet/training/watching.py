"""Whoever wants to see a run while it goes on."""

from typing import Protocol

from highwaynet.data.record import DataRecord
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.records import EpochRecord, TimingRecord
from highwaynet.runs.training_spec import TrainingSpec
from highwaynet.training.distribution import World
from highwaynet.training.tensorboard import TensorBoardLog


class Watcher(Protocol):
    """Is told what happens."""

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Training begins, or goes on, after so many epochs and steps."""
        ...

    def step(self, samples: int) -> None:
        """A step on so many samples was taken."""
        ...

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """An epoch ended."""
        ...

    def note(self, sentence: str) -> None:
        """Something happened that a person should know."""
        ...


class Watchers:
    """Several watchers as one."""

    def __init__(self, watchers: list[Watcher]) -> None:
        self._watchers = watchers

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Tell all."""
        for watcher in self._watchers:
            watcher.started(data, epochs, steps)

    def step(self, samples: int) -> None:
        """Tell all."""
        for watcher in self._watchers:
            watcher.step(samples)

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """Tell all."""
        for watcher in self._watchers:
            watcher.epoch(record, timing)

    def close(self) -> None:
        """Let those who keep files open write what is left."""
        for watcher in self._watchers:
            if isinstance(watcher, TensorBoardLog):
                watcher.close()

    def note(self, sentence: str) -> None:
        """Tell all."""
        for watcher in self._watchers:
            watcher.note(sentence)


def watchers_of(run: RunDirectory, training: TrainingSpec, watcher: Watcher | None, world: World) -> Watchers:
    """The user's watcher and those that the spec asks for, in the process that leads."""
    if not world.leads:
        return Watchers([])
    found: list[Watcher] = [watcher] if watcher else []
    if training.tensorboard:
        found.append(TensorBoardLog(run))
    return Watchers(found)
