"""Detecting which workers are alive: by a locked folder on this machine, by heartbeats in the storage on others."""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from highwaynet.runs.lock import FolderLock, is_locked
from highwaynet.search.storage import Patience, heartbeat

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

WORKERS = "workers"


class WorkerFolder:
    """The folder of a worker in the study's folder; it stays locked until the process ends, for any reason."""

    def __init__(self, study: Path) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._path = study / WORKERS / self.name
        self._path.mkdir(parents=True)
        self._lock = FolderLock(self._path)
        self._lock.acquire()
        if not is_locked(self._path):  # the system has no such locks, so the folder would make the worker look dead
            self.close()

    def close(self) -> None:
        """Remove the folder; the worker has no trial any more."""
        with suppress(OSError):
            self._path.rmdir()
        self._lock.release()


def is_alive(study: Path, worker: str) -> bool | None:
    """Whether a worker is alive; None for workers of other machines, because locks on shared disks may not be visible there."""
    folder = study / WORKERS / worker
    if worker.rsplit("-", 2)[0] != socket.gethostname() or not folder.is_dir():
        return None
    return is_locked(folder)


def remove_dead(study: Path) -> None:
    """Remove the folders of killed workers, after all trials are done."""
    for folder in (study / WORKERS).glob("*/"):
        if is_alive(study, folder.name) is False:
            with suppress(OSError):
                folder.rmdir()
    with suppress(OSError):
        (study / WORKERS).rmdir()


class SignsOfLife(threading.Thread):
    """Sends the storage a heartbeat every few seconds, and notices if the trial was given to another worker.

    Args:
        storage: The storage.
        patience: Its `troubled` is updated if the storage does not answer.
        lost: Called with the trial's id if it was given to another worker.
    """

    def __init__(self, storage: "RDBStorage", patience: Patience, lost: Callable[[int], None]) -> None:
        super().__init__(name="signs of life", daemon=True)
        self.trial: int | None = None
        """The id of the trial that this worker runs."""
        self._storage, self._patience, self._lost, self._interval = storage, patience, lost, heartbeat()
        self._ended = threading.Event()

    def run(self) -> None:
        """Send heartbeats until `end` is called; errors of the storage are ignored until the next one."""
        while not self._ended.wait(self._interval):
            if (trial := self.trial) is not None:
                try:
                    self._storage.record_heartbeat(trial)
                    if self._storage.get_trial(trial).state.is_finished():
                        self._lost(trial)
                except Exception:
                    self._patience.troubled = time.monotonic()
        self._storage.remove_session()

    def end(self) -> None:
        """Stop the heartbeats."""
        self._ended.set()
        self.join(timeout=self._interval)
