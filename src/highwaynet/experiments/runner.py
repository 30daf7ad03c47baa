"""Many runs side by side, in processes with one thread each; every run goes on where it was."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from highwaynet.base.errors import HighwayError
from highwaynet.experiments.claims import Run
from highwaynet.experiments.pool import Pool
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.lock import is_locked
from highwaynet.training.interruption import InterruptedRunError, Interruption

LOOK = 0.3
"""Seconds between two looks at the processes."""


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
        # A group of its own: Ctrl-C reaches the parent alone, which passes it on.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "highwaynet.experiments.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        self.run: Run | None = None
        self.path = Path()

    def begin(self, run: Run, path: Path) -> None:
        """Give it something to do."""
        self.run, self.path = run, path
        job = {"spec": run.spec.to_toml(), "path": str(path.resolve())}
        with suppress(BrokenPipeError):  # it died; `look` will say so
            if self._process.stdin:
                self._process.stdin.write(json.dumps(job).encode() + b"\n")
                self._process.stdin.flush()

    def look(self) -> None:
        """Find out whether its run is over; raises HighwayError where the run failed or the process died."""
        if self.run is None or self._process.stdout is None or not select.select([self._process.stdout], [], [], 0)[0]:
            return
        answer = self._process.stdout.readline()
        reason = json.loads(answer)["error"] if answer else f"its process was killed (code {self._process.wait()})"
        if reason and not is_locked(self.path):  # else another process was faster, and is waited for
            raise HighwayError(f"the run {self.run.label} ({self.path}) failed: {reason}")
        self.run = None

    def dismiss(self) -> None:
        """Ask it to save and end."""
        with suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()

    def wait(self) -> None:
        """Until it has ended."""
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()


def run_all(runs: list[Run], pool: Pool, workers: int, show: Show) -> None:
    """Bring all runs to their end, so many at a time; those that another process is busy with are waited for.

    Raises:
        InterruptedRunError: If Ctrl-C or SIGTERM came; what was trained is saved.
        HighwayError: If a run fails; those beside it are asked to stop.
    """
    team: list[_Worker] = []
    with Interruption() as stop:
        stop.armed = True
        try:
            while waiting := [run for run in runs if not pool.is_done(run)]:
                if stop.requested:
                    raise InterruptedRunError("interrupted; what was trained is saved", stop.requested)
                for worker in team:
                    worker.look()
                _begin(waiting, team, pool, workers)
                show(_standing(runs, waiting, team))
                time.sleep(LOOK)
        finally:
            for worker in team:
                worker.dismiss()
            for worker in team:
                worker.wait()
    show(Standing(len(runs), len(runs), ()))


def _begin(waiting: list[Run], team: list[_Worker], pool: Pool, workers: int) -> None:
    """Give runs to workers without one; a spec that two labels share is run once, and one that another process has is left to it."""
    for run in list(waiting):
        path = pool.path_of(run)
        if path in [worker.path for worker in team if worker.run] or (path.is_dir() and is_locked(path)):
            continue
        free = next((worker for worker in team if worker.run is None), None)
        if free is None and len(team) >= workers:
            return
        if free is None:
            free = _Worker()
            team.append(free)
        free.begin(run, path)


def _standing(runs: list[Run], waiting: list[Run], team: list[_Worker]) -> Standing:
    busy = [(worker.run, worker.path) for worker in team if worker.run]
    running = tuple((run.label, epochs_done(path), run.spec.training.epochs) for run, path in busy)
    return Standing(len(runs) - len(waiting), len(runs), running)


def epochs_done(path: Path) -> int:
    """How many epochs of a run are there."""
    with suppress(HighwayError):
        return len(RunDirectory(path).read_history())
    return 0
