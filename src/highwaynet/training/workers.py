"""Worker processes: how a parent starts them and speaks to them, and how they hear it.

What to do goes through a worker's standard input, one line of JSON each: a password may be in it. When the input closes, because the parent
wants so or is gone, the worker saves its run and ends.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, Any

from highwaynet.training.interruption import Interruption

Process = subprocess.Popen[bytes]


def start_worker(module: str, stdout: int, stderr: IO[bytes]) -> Process:
    """A process with one thread that runs a module; in a group of its own, so that Ctrl-C reaches the parent alone."""
    return subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def tell(worker: Process, order: dict[str, Any]) -> None:
    """Give it something to do; one that died hears nothing, and whoever looks at it will see that."""
    with suppress(BrokenPipeError):
        if worker.stdin:
            worker.stdin.write(json.dumps(order).encode() + b"\n")
            worker.stdin.flush()


def dismiss(worker: Process) -> None:
    """Ask it to save and end."""
    with suppress(OSError):
        if worker.stdin:
            worker.stdin.close()


def why_it_ended(code: int, log: bytes) -> str:
    """How a process ended that should not have: the last line of its log, or its exit code."""
    if code == -signal.SIGKILL:
        return "killed by signal 9, perhaps because there was not enough memory"
    lines = [line.strip() for line in log.decode("utf-8", "replace").split("\n")]
    return next((line[:300] for line in reversed(lines) if line), f"exit code {code}")


class Orders:
    """In a worker: what its parent says.

    Args:
        stop: Is requested when the parent has nothing more to say.
    """

    def __init__(self, stop: Interruption) -> None:
        self._stop = stop
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def next(self) -> dict[str, Any] | None:
        """The next thing to do, once it is said; None where there is nothing more."""
        line = self._lines.get()
        if line is None or self._stop.requested:
            return None
        order: dict[str, Any] = json.loads(line)
        return order

    def _listen(self) -> None:
        """Read without Python's own buffer, on which a thread that waits would sit when the program ends."""
        text = b""
        while more := os.read(0, 65536):
            *whole, text = (text + more).split(b"\n")
            for line in whole:
                self._lines.put(line.decode())
        self._stop.requested = self._stop.requested or 143
        self._lines.put(None)
