"""Progress of training: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from highwaynet.base.text import loss_text
from highwaynet.cli.output import messages
from highwaynet.data.record import DataRecord
from highwaynet.runs.run_records import EpochRecord, TimingRecord
from highwaynet.training.watcher import Watcher

LINES = 20
"""Without a terminal, a run prints about this many lines."""


class TrainingProgress(Watcher):
    """Watcher and context manager that shows loss, accuracy, speed and remaining time.

    Args:
        title: What is trained.
        epochs: Number of epochs.
        notes: Sentences for the user that are printed when training starts.
        verdicts: Gets sentences about the trained network, for the end of the output; by default they are printed at once.
    """

    def __init__(self, title: str, epochs: int, notes: Sequence[str] = (), verdicts: list[str] | None = None) -> None:
        self._epochs, self._notes, self._verdicts = epochs, notes, verdicts
        self._title, self._stage, self._told = title, "", False
        self._samples = self._first = 0
        self._started = self._shown = 0.0
        self._narrow = messages.width < 110
        self._bar: Progress | None = None
        if messages.is_terminal and sys.stderr.isatty():
            self._bar = Progress(
                BarColumn(bar_width=8 if self._narrow else 24),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(compact=True),
                TextColumn("{task.fields[state]}"),
                console=messages,
                auto_refresh=False,  # a refresh thread would slow down training
            )
            self._task = self._bar.add_task("", total=None, state="")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar and self._started:
            self._bar.refresh()
            self._bar.stop()

    def stage(self, title: str, epochs: int) -> None:
        """Begin again for another run, with this many epochs."""
        self._epochs, self._started = epochs, 0.0
        self._stage = title

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Describe the data; nothing is printed before, so that wrong input gives only its error message."""
        again = bool(self._started)
        self._started, self._first, self._samples = time.perf_counter(), epochs, epochs * data.train
        if self._bar:
            self._bar.update(self._task, completed=self._samples, total=self._epochs * data.train)
        if again:  # after a rewind
            return
        parts = f"{data.train:,} to train on, {data.validation:,} for validation, {data.test:,} for testing"
        about = (f"{self._title}, on {data.found} ({parts})", *data.notes, *self._notes)
        for text in (*about, self._stage) if not self._told else (self._stage,):
            if text:
                self._say(text)
        self._told = True
        if self._bar:
            self._bar.start()

    def step(self, samples: int) -> None:
        """Count samples, and redraw the bar a few times a second."""
        self._samples += samples
        if self._bar:
            now = time.perf_counter()
            if now - self._shown > 0.25:
                self._shown = now
                self._bar.update(self._task, completed=self._samples)
                self._bar.refresh()

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """Show the results of an epoch."""
        state = self._text(record, timing)
        if self._bar:
            self._bar.update(self._task, completed=self._samples, state=state)
        elif record.epoch % max(1, self._epochs // LINES) == 0 or record.epoch in {1, self._epochs}:
            left = (time.perf_counter() - self._started) / (record.epoch - self._first) * (self._epochs - record.epoch)
            self._say(f"{self._title}  {state}  {left:,.0f} s left")

    def note(self, sentence: str) -> None:
        """Print a sentence immediately."""
        self._say(f"highway: {sentence}")

    def verdict(self, sentence: str) -> None:
        """Keep a sentence for the end of the output, where it is not overlooked."""
        if self._verdicts is None:
            self.note(sentence)
        else:
            self._verdicts.append(sentence)

    def _say(self, line: str) -> None:
        """Print a line; a closed pipe must not end the run."""
        with suppress(BrokenPipeError):
            messages.print(line, soft_wrap=True)

    def _text(self, record: EpochRecord, timing: TimingRecord) -> str:
        """Return the results of an epoch in words; shorter than 60 characters next to a bar on a narrow terminal."""
        epoch, speed = f"{record.epoch}/{self._epochs}", f"{timing.samples_per_second:,.0f}"
        train, validation = record.train, record.validation
        if self._bar is not None and self._narrow:
            checked = f" val {loss_text(validation.loss)} {validation.headline}" if validation else ""
            return f"{epoch} loss {loss_text(train.loss)} {train.headline}{checked} {speed}/s"
        return f"epoch {epoch}  {train}" + (f"  validation {validation}" if validation else "") + f"  {speed} samples/s"
