"""Watchers: callbacks that follow a run."""

from highwaynet.data.record import DataRecord
from highwaynet.runs.run_records import EpochRecord, TimingRecord


class Watcher:
    """Base class for callbacks of a run. Override the methods you need; the others do nothing."""

    def stage(self, title: str, epochs: int) -> None:
        """Called before each of the two runs of a training with hints, with what happens in it, and its number of epochs."""

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Called when training starts, resumes or rewinds, after this many epochs and steps."""

    def step(self, samples: int) -> None:
        """Called after each step, with the number of samples of its batch."""

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """Called after each epoch, with its line of the history and its time."""

    def note(self, sentence: str) -> None:
        """Called with a sentence for the user, for instance after a rewind."""

    def verdict(self, sentence: str) -> None:
        """Called with a sentence about the trained network that should not be overlooked; by default it is a note."""
        self.note(sentence)

    def close(self) -> None:
        """Called when the run ends, also after an error."""


class Watchers(Watcher):
    """Passes each call on to several watchers."""

    def __init__(self, watchers: list[Watcher]) -> None:
        self._watchers = watchers

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Call `started` of all watchers."""
        for watcher in self._watchers:
            watcher.started(data, epochs, steps)

    def step(self, samples: int) -> None:
        """Call `step` of all watchers."""
        for watcher in self._watchers:
            watcher.step(samples)

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """Call `epoch` of all watchers."""
        for watcher in self._watchers:
            watcher.epoch(record, timing)

    def close(self) -> None:
        """Call `close` of all watchers."""
        for watcher in self._watchers:
            watcher.close()

    def note(self, sentence: str) -> None:
        """Call `note` of all watchers."""
        for watcher in self._watchers:
            watcher.note(sentence)

    def verdict(self, sentence: str) -> None:
        """Call `verdict` of all watchers."""
        for watcher in self._watchers:
            watcher.verdict(sentence)
