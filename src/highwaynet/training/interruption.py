"""Ctrl-C and SIGTERM as requests to stop: the run finishes the current step, saves and ends."""

import os
import signal
import threading
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

from highwaynet.base.errors import HighwayError
from highwaynet.base.launch import launched_rank
from highwaynet.training.distribution import World

ECHO = 1.0 if "TORCHELASTIC_RUN_ID" in os.environ else 0.0
"""Seconds in which a second SIGINT is ignored under torchrun, which forwards a SIGINT that its workers have already received."""


class InterruptedRunError(HighwayError):
    """The run stopped on request; it can be resumed.

    Args:
        sentence: The message.
        exit_code: Exit code of the command: 130 for Ctrl-C, 143 for SIGTERM.
    """

    everywhere = True

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code

    def with_way(self, way: str) -> "InterruptedRunError":
        """Return a copy whose message also gives the command that continues."""
        return InterruptedRunError(f"{self}; continue with: {way}", self.exit_code)


class Interruption:
    """Context manager that turns Ctrl-C and SIGTERM into a request to stop a run, in the main thread.

    Pass it to `train` as `interruption`. On a request, `train` finishes the current step, saves, and raises `InterruptedRunError`. A
    second Ctrl-C stops immediately.
    """

    def __init__(self) -> None:
        self.requested = 0
        """The exit code of the request: 130 for Ctrl-C, 143 for SIGTERM, 0 for none."""
        self.armed = False
        """Whether a run checks `requested`; if not, signals end the program immediately."""
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.armed = False
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def request(self) -> None:
        """Request a stop after the current step, from a watcher or another thread; `train` then raises InterruptedRunError."""
        self.requested = 130

    def check(self, sentence: str, world: World) -> None:
        """Raise InterruptedRunError, with `sentence` as message, if any process was asked to stop."""
        (asked,) = world.most(self.requested)
        if asked:
            raise InterruptedRunError(sentence, int(asked))

    def _receive(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.armed or (self.requested and number == signal.SIGINT and now - self._since > ECHO):
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            raise InterruptedRunError("interrupted", 128 + number)
        if not self.requested:
            self.requested, self._since = 128 + number, now
            if launched_rank() == 0:
                with suppress(OSError):  # stderr may be closed
                    os.write(2, b"\nhighway: finishing the step and saving; press Ctrl-C again to stop immediately\n")
