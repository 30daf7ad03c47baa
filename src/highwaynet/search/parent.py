"""The parent process of a study on one machine: starts workers, replaces dead ones, releases lost trials, shows progress."""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from highwaynet.base.errors import HighwayError
from highwaynet.search.address import Address
from highwaynet.search.spec import StudySpec
from highwaynet.search.status import StudyStatus, standings_of
from highwaynet.search.storage import make_portable
from highwaynet.search.trials import Trials
from highwaynet.search.workers import remove_dead
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.workers import Process, dismiss, start_worker, tell, why_it_ended

LOOK = 0.5
"""Minimum seconds between two queries of the storage."""
COST = 20
"""The pause after a query is at least this many times its duration, so that queries take at most about a twentieth of the time."""
DEATHS = 15
"""How often each worker may die without any trial finishing before the parent gives up."""
LOG = "workers.log"


class StudyWatcher(Protocol):
    """Callbacks that follow a study."""

    def show(self, standings: list[StudyStatus], workers: int) -> None:
        """Called regularly, with the progress of each configuration and the number of workers here."""
        ...

    def note(self, sentence: str) -> None:
        """Called with a sentence for the user."""
        ...


class Team:
    """The workers of one parent.

    Args:
        job: The order that each worker gets.
        folder: The study's folder, where their log is.
    """

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        self._job, self._log = job, folder / LOG
        self._read = self._log.stat().st_size if self._log.is_file() else 0
        self._code = 0
        self._workers: dict[int, Process] = {}

    def __len__(self) -> int:
        """Number of workers that are not buried yet."""
        return len(self._workers)

    def fill(self, count: int) -> None:
        """Start workers until there are `count`."""
        for number in range(count):
            if number not in self._workers:
                self._workers[number] = self._start(number)

    def _start(self, number: int) -> Process:
        with self._log.open("ab") as log:
            worker = start_worker("highwaynet.search.worker", subprocess.DEVNULL, log)
        tell(worker, self._job | {"number": number})
        return worker

    def has_ended(self) -> bool:
        """Whether a worker has ended that is not buried yet."""
        return any(worker.poll() is not None for worker in self._workers.values())

    def bury(self) -> int:
        """Remove workers that have ended; return how many of them failed."""
        ended = {number: worker for number, worker in self._workers.items() if worker.poll() is not None}
        for number, worker in ended.items():
            dismiss(worker)
            del self._workers[number]
            self._code = worker.returncode or self._code
        return sum(worker.returncode != 0 for worker in ended.values())

    def dismiss(self) -> None:
        """Ask all workers to save and end."""
        for worker in self._workers.values():
            dismiss(worker)

    def last_words(self) -> str:
        """Return why the last worker died: the last line of the log, or the exit code."""
        log = b""
        with suppress(OSError):
            log = self._log.read_bytes()[self._read :]
        return why_it_ended(self._code, log)


def run_study(
    spec: StudySpec, address: Address, folder: Path, attributes: dict[str, Any], workers: int, display: StudyWatcher
) -> list[StudyStatus]:
    """Run a study to its end with `workers` workers on this machine; other machines may take part.

    Raises:
        InterruptedRunError: On Ctrl-C or SIGTERM; the study can be continued.
        StorageError: If the storage does not answer for too long.
        HighwayError: If workers keep dying.
    """
    with Interruption() as stop:
        stop.armed = True
        trials = Trials(spec, address, folder, attributes, lambda: bool(stop.requested), display.note)
        trials.create(again=True)
        job = {"spec": spec.to_toml(), "storage": address.url, "folder": str(folder.resolve()), "attributes": attributes}
        team = Team(job, folder)
        try:
            standings = _tend(trials, team, workers, display, stop)
        finally:
            team.dismiss()
            if sys.exc_info()[0] is not KeyboardInterrupt:  # after a second Ctrl-C, do not wait; the workers end on their own
                _wait(team)
            trials.storage.engine.dispose()
        make_portable(address)
        remove_dead(folder)
        with suppress(OSError):
            if not (folder / LOG).stat().st_size:
                (folder / LOG).unlink()
        return standings


def _tend(trials: Trials, team: Team, workers: int, display: StudyWatcher, stop: Interruption) -> list[StudyStatus]:
    deaths, progress = 0, -1
    while True:
        began = time.monotonic()
        died = team.bury()
        snapshot = trials.snapshot()
        if trials.rescue(snapshot):
            snapshot = trials.snapshot()
        standings = standings_of(trials.spec, snapshot)
        display.show(standings, len(team))
        if all(one.is_over for one in standings):
            return standings
        left = sum(one.left for one in standings)
        deaths = deaths + died if left == progress else died
        progress = left
        if deaths > DEATHS * workers:
            raise HighwayError(f"workers keep dying, the last one with: {team.last_words()}")
        if died and not stop.requested:
            display.note(f"a worker died ({team.last_words()}); another one takes over its trial")
        if stop.requested:
            team.dismiss()
            _wait(team)
            done, failed, total = (sum(getattr(one, name) for one in standings) for name in ("done", "failed", "trials"))
            also = f" ({failed} failed)" if failed else ""
            raise InterruptedRunError(f"interrupted, with {done} of {total} trials done{also}, and saved", stop.requested)
        team.fill(min(workers, left))
        pause = max(LOOK, COST * (time.monotonic() - began))
        until = time.monotonic() + min(pause, 30)
        while time.monotonic() < until and not stop.requested and not team.has_ended():
            time.sleep(0.05)


def _wait(team: Team) -> None:
    """Wait until all workers have ended; each finishes its step and saves."""
    while len(team):
        team.bury()
        time.sleep(0.05)
