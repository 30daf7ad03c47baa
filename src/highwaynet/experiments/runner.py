"""Making many runs in parallel, in processes with one thread each; unfinished runs are resumed."""

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
from highwaynet.experiments.choice import Choice
from highwaynet.experiments.claims import Run
from highwaynet.experiments.pool import Pool, has_ended
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.lock import is_locked
from highwaynet.runs.spec import RunSpec
from highwaynet.runs.stages import first_stage, hints_path
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.workers import dismiss, start_worker, tell, why_it_ended

LOOK = 0.3
"""Seconds between two checks of the processes."""
ATTEMPTS = 2
"""A run that has failed this many times is given up. One failure may be bad luck: a killed process, or a simultaneous start."""

Places = list[tuple[Run, Path]]
"""Runs with their directories."""


class Failures:
    """Counts the failures of runs."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._counts: Counter[Path] = Counter()
        self.final: dict[Path, str] = {}
        """Runs that are given up, and why."""

    def add(self, label: str, path: Path, reason: str) -> None:
        """Count a failure of a run; give it up after `ATTEMPTS`."""
        self._counts[path] += 1
        if self._counts[path] >= ATTEMPTS:
            self.give_up(label, path, reason)

    def give_up(self, label: str, path: Path, reason: str) -> None:
        """Do not try a run again, and say so."""
        way_out = f"continues it, or starts it again if you remove {path}" if path.exists() else "starts it again"
        self.final[path] = f"the run {label} failed: {reason}; the same command {way_out}"
        self._note(f"the run {label} failed: {reason}")


@dataclass(frozen=True)
class Standing:
    """Progress of the runs."""

    done: int
    runs: int
    running: tuple[tuple[str, int, int], ...]
    """Label, finished epochs, and total epochs of each run in progress; with hints, those of both stages."""


def _nothing(sentence: str) -> None:
    pass


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
        """Let the worker train a run."""
        self.run, self.path = run, path
        tell(self._process, {"spec": run.spec.to_toml(), "path": str(path.resolve())})

    def look(self) -> str | None:
        """Return the error of its run, empty if it succeeded; None while it is in progress."""
        if self.run is None or self._process.stdout is None or not select.select([self._process.stdout], [], [], 0)[0]:
            return None
        if answer := self._process.stdout.readline():
            return str(json.loads(answer)["error"])
        self.dead = True
        self._words.seek(0)
        return f"its process died ({why_it_ended(self._process.wait(), self._words.read())})"

    def dismiss(self) -> None:
        """Ask the worker to save and end."""
        dismiss(self._process)

    def wait(self) -> None:
        """Wait until the worker has ended."""
        self._process.wait()
        self._words.close()
        if self._process.stdout:
            self._process.stdout.close()


def run_all(
    runs: list[Run], pool: Pool, workers: int, show: Show, *, choice: Choice | None = None, note: Callable[[str], None] = _nothing
) -> None:
    """Finish all runs, `workers` at a time; wait for runs that another process is training.

    Args:
        runs: The runs.
        pool: Where they are.
        workers: How many runs are made at a time.
        show: Called regularly, with the progress.
        choice: Which of the runs are made, which the others decide; by default all.
        note: Called with a sentence when a run is given up.

    Raises:
        InterruptedRunError: On Ctrl-C or SIGTERM; what was trained is saved.
        HighwayError: If a run failed; raised after all others are done.
    """
    team: list[_Worker] = []
    failures, choice = Failures(note), choice or Choice([], lambda run: None)
    planned: Places = [(pool.placed(run), pool.path_of(run)) for run in runs]
    waiting, paths = planned, {run.label: path for run, path in planned}
    with Interruption() as stop:
        stop.armed = True
        try:
            while waiting := [(run, path) for run, path in waiting if not _is_over(run, path, paths, failures, choice)]:
                if stop.requested:
                    raise InterruptedRunError("interrupted; what was trained is saved", stop.requested)
                _begin([(run, path) for run, path in waiting if choice.made(run)], team, workers)
                show(_standing(planned, waiting, team, failures, choice))
                time.sleep(LOOK)
                for worker in list(team):
                    _look(worker, team, failures)
        finally:
            for worker in team:
                worker.dismiss()
            for worker in team:
                worker.wait()
    show(_standing(planned, [], [], failures, choice))
    if failed := len(failures.final):
        beside = f" ({failed - 1} more failed)" if failed > 1 else ""
        raise HighwayError(next(iter(failures.final.values())) + beside)


def _is_over(run: Run, path: Path, paths: dict[str, Path], failures: Failures, choice: Choice) -> bool:
    """Whether a run has ended, is given up, or is not made."""
    if _is_undecided(run, paths, failures, choice):
        return True
    try:
        if choice.made(run) is False:
            return True
        if run.spec.teacher is not None and Path(run.spec.teacher.run) in failures.final and not has_ended(path):
            failures.give_up(run.label, path, "that of its teacher failed")
        return path in failures.final or has_ended(path)
    except InputError as error:
        failures.give_up(run.label, path, str(error))
        return True


def _is_undecided(run: Run, paths: dict[str, Path], failures: Failures, choice: Choice) -> bool:
    """Whether it will not be known if this run is made, because one that decides it failed."""
    return any(paths.get(entry.label) in failures.final for entry in choice.entries(run))


def _look(worker: _Worker, team: list[_Worker], failures: Failures) -> None:
    """Check whether a worker's run is over, and count it if it failed."""
    reason = worker.look()
    if reason is None:
        return
    run, worker.run = worker.run, None
    if worker.dead:
        team.remove(worker)
        worker.dismiss()
        worker.wait()
    # If it has ended or is locked, another process was faster, and its run is used.
    if run and not has_ended(worker.path) and not is_locked(worker.path):
        failures.add(run.label, worker.path, reason or "it did not end")


def _begin(waiting: Places, team: list[_Worker], workers: int) -> None:
    """Give runs to idle workers. A spec shared by two labels is run once, and runs that another process is training are skipped.

    A run with a teacher waits until the teacher has been trained.
    """
    for run, path in waiting:
        if run.spec.teacher is not None and not has_ended(Path(run.spec.teacher.run)):
            continue
        if path in [worker.path for worker in team if worker.run] or (path.is_dir() and is_locked(path)):
            continue
        free = next((worker for worker in team if worker.run is None), None)
        if free is None and len(team) >= workers:
            return
        if free is None:
            free = _Worker()
            team.append(free)
        free.begin(run, path)


def _standing(planned: Places, waiting: Places, team: list[_Worker], failures: Failures, choice: Choice) -> Standing:
    paths = {run.label: path for run, path in planned}
    failed = sum(path in failures.final for _, path in planned)
    planned, waiting = (
        [
            (run, path)
            for run, path in places
            if path not in failures.final and choice.counts(run) and not _is_undecided(run, paths, failures, choice)
        ]
        for places in (planned, waiting)
    )
    busy = [(worker.run, worker.path) for worker in team if worker.run]
    running = tuple((run.label, epochs_done(path), run.spec.training.epochs + hint_epochs(run.spec)) for run, path in busy)
    return Standing(len(planned) - len(waiting), len(planned) + failed, running)


def epochs_done(path: Path) -> int:
    """Return the number of epochs that a run has finished, also in its first stage; damaged histories count as empty."""
    done = 0
    for place in (hints_path(path), path):
        with suppress(HighwayError):
            done += RunDirectory(place).epochs_written
    return done


def hint_epochs(spec: RunSpec) -> int:
    """The epochs of the first stage of a run with hints; 0 for other runs."""
    return int(first_stage(spec)["epochs"]) if spec.teacher is not None and spec.teacher.in_two_stages else 0
