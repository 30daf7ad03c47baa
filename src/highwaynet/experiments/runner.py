"""Many runs side by side, in processes with one thread each; every run goes on where it was."""

import json
import select
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.experiments.claims import Run
from highwaynet.experiments.pool import Pool, has_ended
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.lock import is_locked
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.workers import dismiss, start_worker, tell, why_it_ended

LOOK = 0.3
"""Seconds between two looks at the processes."""
ATTEMPTS = 2
"""How often a run may fail. Once may be bad luck: its process was killed, or another one began it at the same moment."""

Places = list[tuple[Run, Path]]
"""Runs, and where they are or will be."""


class Failures:
    """What went wrong."""

    def __init__(self) -> None:
        self._counts: Counter[Path] = Counter()
        self.final: dict[Path, str] = {}
        """Runs that are given up, and why."""

    def add(self, label: str, path: Path, reason: str) -> None:
        """A run failed, perhaps again."""
        self._counts[path] += 1
        if self._counts[path] >= ATTEMPTS:
            self.give_up(label, path, reason)

    def give_up(self, label: str, path: Path, reason: str) -> None:
        """Trying again would not help."""
        self.final[path] = f"the run {label} failed: {reason}; the same command continues it, or starts it again if you remove {path}"


@dataclass(frozen=True)
class Standing:
    """How far the runs are."""

    done: int
    runs: int
    running: tuple[tuple[str, int, int], ...]
    """Label, epochs so far, and epochs of each run that goes on."""


Show = Callable[[Standing], None]


class _Worker:
    """A process that trains one run at a time."""

    def __init__(self) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `wait`)
        self._process = start_worker("highwaynet.experiments.worker", subprocess.PIPE, self._words)
        self.run: Run | None = None
        self.path = Path()
        self.dead = False

    def begin(self, run: Run, path: Path) -> None:
        """Give it something to do."""
        self.run, self.path = run, path
        tell(self._process, {"spec": run.spec.to_toml(), "path": str(path.resolve())})

    def look(self) -> str | None:
        """What went wrong with its run, empty where nothing did; None while it goes on."""
        if self.run is None or self._process.stdout is None or not select.select([self._process.stdout], [], [], 0)[0]:
            return None
        if answer := self._process.stdout.readline():
            return str(json.loads(answer)["error"])
        self.dead = True
        self._words.seek(0)
        return f"its process died ({why_it_ended(self._process.wait(), self._words.read())})"

    def dismiss(self) -> None:
        """Ask it to save and end."""
        dismiss(self._process)

    def wait(self) -> None:
        """Until it has ended."""
        self._process.wait()
        self._words.close()
        if self._process.stdout:
            self._process.stdout.close()


def run_all(runs: list[Run], pool: Pool, workers: int, show: Show) -> None:
    """Bring all runs to their end, so many at a time; those that another process is busy with are waited for.

    Raises:
        InterruptedRunError: If Ctrl-C or SIGTERM came; what was trained is saved.
        HighwayError: If a run failed; the others are brought to their end before.
    """
    team: list[_Worker] = []
    failures = Failures()
    planned: Places = [(run, pool.path_of(run)) for run in runs]
    waiting = planned
    with Interruption() as stop:
        stop.armed = True
        try:
            while waiting := [(run, path) for run, path in waiting if not _is_over(run, path, failures)]:
                if stop.requested:
                    raise InterruptedRunError("interrupted; what was trained is saved", stop.requested)
                _begin(waiting, team, workers)
                show(_standing(planned, waiting, team, failures))
                time.sleep(LOOK)
                for worker in list(team):
                    _look(worker, team, failures)
        finally:
            for worker in team:
                worker.dismiss()
            for worker in team:
                worker.wait()
    show(_standing(planned, [], [], failures))
    if failed := len(failures.final):
        beside = f" ({failed - 1} more failed)" if failed > 1 else ""
        raise HighwayError(next(iter(failures.final.values())) + beside)


def _is_over(run: Run, path: Path, failures: Failures) -> bool:
    """Whether nothing more is to be done for a run: it ended, or is given up."""
    try:
        return path in failures.final or has_ended(path)
    except InputError as error:
        failures.give_up(run.label, path, str(error))
        return True


def _look(worker: _Worker, team: list[_Worker], failures: Failures) -> None:
    """Find out whether a worker's run is over, and how."""
    reason = worker.look()
    if reason is None:
        return
    run, worker.run = worker.run, None
    if worker.dead:
        team.remove(worker)
        worker.dismiss()
        worker.wait()
    # Otherwise another process was faster: what it does is waited for, what it did is taken.
    if reason and run and not has_ended(worker.path) and not is_locked(worker.path):
        failures.add(run.label, worker.path, reason)


def _begin(waiting: Places, team: list[_Worker], workers: int) -> None:
    """Give runs to workers without one; a spec that two labels share is run once, and one that another process has is left to it."""
    for run, path in waiting:
        if path in [worker.path for worker in team if worker.run] or (path.is_dir() and is_locked(path)):
            continue
        free = next((worker for worker in team if worker.run is None), None)
        if free is None and len(team) >= workers:
            return
        if free is None:
            free = _Worker()
            team.append(free)
        free.begin(run, path)


def _standing(planned: Places, waiting: Places, team: list[_Worker], failures: Failures) -> Standing:
    failed = sum(path in failures.final for _, path in planned)
    busy = [(worker.run, worker.path) for worker in team if worker.run]
    running = tuple((run.label, epochs_done(path), run.spec.training.epochs) for run, path in busy)
    return Standing(len(planned) - len(waiting) - failed, len(planned), running)


def epochs_done(path: Path) -> int:
    """How many epochs of a run are there; none that could be read where its history is damaged."""
    with suppress(HighwayError):
        return RunDirectory(path).epochs_written
    return 0
