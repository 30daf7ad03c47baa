"""A lock that allows one writer for a run directory. It is a system lock on the folder, which ends with the process in any case."""

import os
import time
from contextlib import suppress
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

    @property
    def folder(self) -> Path:
        """Where the folder is. While it is locked, it is followed if somebody renames it.

        Raises:
            InputError: If it was removed, or if it was renamed and the system does not tell where it is.
        """
        if self._descriptor is None or _is_at(self._descriptor, self._folder):
            return self._folder
        with suppress(OSError):  # Linux tells where a folder is now
            moved = Path(f"/proc/self/fd/{self._descriptor}").readlink()
            if _is_at(self._descriptor, moved):
                self._folder = moved
                return moved
        raise InputError(f"{self._folder} was removed, renamed or replaced while it was being written to")

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

    def release(self, folder: Path | None = None) -> None:
        """Release the lock; with `folder`, the lock is one for this folder from now on."""
        if self._descriptor is not None:
            with suppress(InputError):
                self._folder = self.folder
            os.close(self._descriptor)
            self._descriptor = None
        self._folder = folder or self._folder


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether a path leads to the folder that was opened."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


def is_locked(folder: Path) -> bool:
    """Whether a process is writing to the folder."""
    lock = FolderLock(folder)
    taken = not lock.attempt(shared=True)
    lock.release()
    return taken
