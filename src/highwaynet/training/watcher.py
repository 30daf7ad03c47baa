"""Whoever wants to see a run while it goes on."""

from highwaynet.data.record import DataRecord
from highwaynet.runs.run_records import EpochRecord, TimingRecord


class Watcher:
    """Base class of objects that are told what happens in a run. Override the methods you need; the others do nothing."""

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Training begins, or goes on, after this many epochs and steps."""

    def step(self, samples: int) -> None:
        """A step on this many samples was taken."""

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """An epoch ended."""

    def note(self, sentence: str) -> None:
        """Something happened that a person should know."""

    def close(self) -> None:
        """The run ended, one way or the other."""


class Watchers(Watcher):
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
            watcher.close()

    def note(self, sentence: str) -> None:
        """Tell all."""
        for watcher in self._watchers:
            watcher.note(sentence)
