"""One writer for a run directory. The lock is the system's, on the folder itself: it ends with the process, however that ends."""

import os
import time
from pathlib import Path

from highwaynet.base.errors import InputError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

PATIENCE = 2.0
"""Seconds to wait for a lock: whoever lists runs holds theirs for a moment."""


class FolderLock:
    """An exclusive lock on a folder; where the system has none, nothing happens."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take it; raises InputError where another process has it."""
        deadline = time.monotonic() + PATIENCE
        while not self.attempt():
            if time.monotonic() > deadline:
                raise InputError(f"{self._folder} is being trained by another process: wait for it, or name another folder with --out")
            time.sleep(0.05)

    def attempt(self, *, shared: bool = False) -> bool:
        """Take it if it is free; shared ones do not stand in each other's way."""
        if fcntl is None or self._descriptor is not None:
            return True
        try:
            descriptor = os.open(self._folder, os.O_RDONLY)
        except OSError:  # what comes next will say why
            return True
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError:  # a file system without locks
            os.close(descriptor)
            return True
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Give it back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(folder: Path) -> bool:
    """Whether a process is writing to the folder."""
    lock = FolderLock(folder)
    taken = not lock.attempt(shared=True)
    lock.release()
    return taken
