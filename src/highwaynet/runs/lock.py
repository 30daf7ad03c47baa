"""A lock that allows one writer for a run directory. It is a system lock on the folder, which ends with the process in any case."""

import os
import time
from pathlib import Path

from highwaynet.base.errors import InputError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

PATIENCE = 2.0
"""Seconds to wait for a lock, because listing runs locks each of them for a moment."""


class FolderLock:
    """An exclusive lock on a folder; does nothing if the system has no such locks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Acquire the lock; raises InputError if another process keeps it."""
        deadline = time.monotonic() + PATIENCE
        while not self.attempt():
            if time.monotonic() > deadline:
                raise InputError(f"{self._folder} is being trained by another process: wait for it, or name another folder with --out")
            time.sleep(0.05)

    def attempt(self, *, shared: bool = False) -> bool:
        """Try to acquire the lock and return whether that succeeded; several processes can hold a shared lock."""
        if fcntl is None or self._descriptor is not None:
            return True
        try:
            descriptor = os.open(self._folder, os.O_RDONLY)
        except OSError:  # the next operation on the folder reports why
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
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(folder: Path) -> bool:
    """Whether a process is writing to the folder."""
    lock = FolderLock(folder)
    taken = not lock.attempt(shared=True)
    lock.release()
    return taken
