"""Existing runs that claims can use: a run with the same spec is not made twice."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from highwaynet.base.errors import InputError
from highwaynet.experiments.claims import Run
from highwaynet.experiments.keys import key_of
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import SPEC

RUNS = "runs"
"""The folder with the runs of all claims."""


class Pool:
    """All runs below some folders.

    Args:
        folder: Folder for new runs.
        others: Folders with existing runs to use.
    """

    def __init__(self, folder: Path, others: Iterable[Path] = ()) -> None:
        self._folder = folder
        self._own = dict(_readable(folder))
        self._known = dict(_usable(others))

    def path_of(self, run: Run) -> Path:
        """Return where a run is, or will be; its name describes it, and the runs of all claims share one folder."""
        key = key_of(run.spec)
        if known := self._known.get(key) or self._own.get(key):
            return known
        return self._folder / f"{run.spec.network.name}-{run.spec.network.depth}-{run.spec.data.title.lower().replace(' ', '-')}-{key[:10]}"

    def placed(self, run: Run) -> Run:
        """Return the run with the path of its teacher instead of the teacher's key."""
        if run.teacher is None or run.spec.teacher is None:
            return run
        teacher = run.spec.teacher.model_copy(update={"run": str(self.path_of(run.teacher).resolve())})
        return replace(run, spec=run.spec.model_copy(update={"teacher": teacher}))

    def is_done(self, run: Run) -> bool:
        """Whether a run has finished or diverged."""
        return has_ended(self.path_of(run))

    def is_from_elsewhere(self, run: Run) -> bool:
        """Whether a run is in one of the other folders."""
        return key_of(run.spec) in self._known


def has_ended(path: Path) -> bool:
    """Whether the run at this path has finished or diverged."""
    run = RunDirectory(path)
    return (path / SPEC).is_file() and (run.finished or run.has_diverged)


def _usable(folders: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the runs below the folders that have finished or diverged, with their keys."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"--reuse {folder}: no such folder; name one with runs")
        for key, path in _readable(folder):
            with suppress(InputError):  # its events cannot be read
                if has_ended(path):
                    yield key, path


def _readable(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield all runs below the folder, with their keys."""
    for path in sorted(folder.rglob(SPEC)):
        with suppress(InputError):  # a spec of another version, or not a run
            run = RunDirectory.open(path.parent)
            yield key_of(run.read_spec()), run.path
