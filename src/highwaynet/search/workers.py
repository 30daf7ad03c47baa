"""Which workers live: by a locked folder on this machine, by signs of life in the storage elsewhere."""

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
    """The folder of a living worker in the study's, locked until the process ends, however it ends."""

    def __init__(self, study: Path) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._path = study / WORKERS / self.name
        self._path.mkdir(parents=True)
        self._lock = FolderLock(self._path)
        self._lock.acquire()
        if not is_locked(self._path):  # a system without such locks: the folder would say that nobody lives
            self.close()

    def close(self) -> None:
        """Remove it: there is no trial any more whose worker this is."""
        with suppress(OSError):
            self._path.rmdir()
        self._lock.release()


def is_alive(study: Path, worker: str) -> bool | None:
    """Whether a worker lives; None where this machine does not know. Locks on shared disks may not reach other machines."""
    folder = study / WORKERS / worker
    if worker.rsplit("-", 2)[0] != socket.gethostname() or not folder.is_dir():
        return None
    return is_locked(folder)


def remove_dead(study: Path) -> None:
    """Remove the folders that killed workers left, once all trials are done."""
    for folder in (study / WORKERS).glob("*/"):
        if is_alive(study, folder.name) is False:
            with suppress(OSError):
                folder.rmdir()
    with suppress(OSError):
        (study / WORKERS).rmdir()


class SignsOfLife(threading.Thread):
    """Tells the storage every few seconds that this worker still has its trial, and notices when it has not.

    Args:
        storage: Where to tell it.
        patience: Is told where the storage is away.
        lost: Called when the trial was given to another one.
    """

    def __init__(self, storage: "RDBStorage", patience: Patience, lost: Callable[[int], None]) -> None:
        super().__init__(name="signs of life", daemon=True)
        self.trial: int | None = None
        """The trial that this worker has."""
        self._storage, self._patience, self._lost, self._interval = storage, patience, lost, heartbeat()
        self._ended = threading.Event()

    def run(self) -> None:
        """Until `end`; a storage that is away is asked again next time."""
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
        """Stop telling."""
        self._ended.set()
        self.join(timeout=self._interval)
