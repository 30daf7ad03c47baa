"""Ctrl-C and SIGTERM as a request: the step in progress is finished and saved."""

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
"""Seconds in which a second SIGINT is the first one's echo: torchrun passes on what its workers have got already."""


class InterruptedRunError(HighwayError):
    """The run was asked to stop, and did; it can be resumed.

    Args:
        sentence: The message.
        exit_code: Exit code of the command: 130 for Ctrl-C, 143 for SIGTERM.
    """

    everywhere = True

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code

    def with_way(self, way: str) -> "InterruptedRunError":
        """The same, with the command that goes on."""
        return InterruptedRunError(f"{self}; go on with: {way}", self.exit_code)


class Interruption:
    """Context manager that turns Ctrl-C and SIGTERM into a request to stop a run, in the main thread.

    Give it to `train` as `interruption`: the step in progress is then finished and saved, and `train` raises `InterruptedRunError`. The
    second Ctrl-C stops at once.
    """

    def __init__(self) -> None:
        self.requested = 0
        """The exit code of the request: 130 for Ctrl-C, 143 for SIGTERM, 0 for none."""
        self.armed = False
        """Whether somebody looks at `requested`; before that, signals end the program at once."""
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
        """Ask the run to stop after the step in progress, from a watcher or another thread; it raises InterruptedRunError then."""
        self.requested = 130

    def check(self, sentence: str, world: World) -> None:
        """Raise InterruptedRunError where a process was asked to stop."""
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
                with suppress(OSError):  # nobody may be listening
                    os.write(2, b"\nhighway: finishing the step and saving; Ctrl-C again leaves at once\n")
