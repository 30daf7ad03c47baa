"""Worker processes, and how their parent sends them orders.

An order is a line of JSON on the worker's standard input, because it may contain a password. When the input closes, because the parent
closes it or has died, the worker saves its run and ends.
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
    """Start a process with one thread that runs a module, in its own session, so that Ctrl-C reaches only the parent."""
    return subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def tell(worker: Process, order: dict[str, Any]) -> None:
    """Send an order to a worker; nothing happens if the worker has died."""
    with suppress(BrokenPipeError):
        if worker.stdin:
            worker.stdin.write(json.dumps(order).encode() + b"\n")
            worker.stdin.flush()


def dismiss(worker: Process) -> None:
    """Ask a worker to save its run and end."""
    with suppress(OSError):
        if worker.stdin:
            worker.stdin.close()


def why_it_ended(code: int, log: bytes) -> str:
    """Return why a process ended unexpectedly: the last line of its log, or its exit code."""
    if code == -signal.SIGKILL:
        return "killed by signal 9, perhaps because there was not enough memory"
    lines = [line.strip() for line in log.decode("utf-8", "replace").split("\n")]
    return next((line[:300] for line in reversed(lines) if line), f"exit code {code}")


class Orders:
    """The orders that a worker receives from its parent.

    Args:
        stop: Requested when the input closes.
    """

    def __init__(self, stop: Interruption) -> None:
        self._stop = stop
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def next(self) -> dict[str, Any] | None:
        """Wait for the next order and return it; None if there are no more."""
        line = self._lines.get()
        if line is None or self._stop.requested:
            return None
        order: dict[str, Any] = json.loads(line)
        return order

    def _listen(self) -> None:
        """Read orders in a thread; without Python's buffer, because a thread that waits there would hold its lock when the program ends."""
        text = b""
        while more := os.read(0, 65536):
            *whole, text = (text + more).split(b"\n")
            for line in whole:
                self._lines.put(line.decode())
        self._stop.requested = self._stop.requested or 143
        self._lines.put(None)
