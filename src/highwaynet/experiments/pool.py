"""Runs that are there already, whoever made them: a run with the same spec is not made twice."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from highwaynet.base.errors import InputError
from highwaynet.base.files import sha256
from highwaynet.base.specs import Mark, marked
from highwaynet.experiments.claims import Run
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import SPEC, RunSpec
from highwaynet.runs.training_spec import TrainingSpec

RUNS = "runs"
"""The folder of all claims' runs."""
INDIFFERENT = marked(TrainingSpec, Mark.INDIFFERENT)
"""Training settings that do not change what a run computes."""


def key_of(spec: RunSpec) -> str:
    """The same for runs that compute the same; settings that are added later do not change it, as long as they keep their default."""
    values = spec.model_dump(mode="json", exclude_defaults=True)
    # Where a run goes back to, its checkpoints decide.
    indifferent = INDIFFERENT - ({"checkpoint"} if spec.training.on_divergence == "rewind" else set())
    values["training"] = {name: value for name, value in values.get("training", {}).items() if name not in indifferent}
    return sha256(json.dumps(values, sort_keys=True).encode())


class Pool:
    """All runs below some folders.

    Args:
        folder: Where new runs go.
        others: Folders in which runs may lie that can be used as they are.
    """

    def __init__(self, folder: Path, others: Iterable[Path] = ()) -> None:
        self._folder = folder
        self._own = dict(_readable(folder))
        self._known = dict(_usable(others))

    def path_of(self, run: Run) -> Path:
        """Where a run is, or will be: its name tells what it is, and the runs of all claims share one folder."""
        key = key_of(run.spec)
        if known := self._known.get(key) or self._own.get(key):
            return known
        return self._folder / f"{run.spec.network.name}-{run.spec.network.depth}-{run.spec.data.title.lower().replace(' ', '-')}-{key[:10]}"

    def is_done(self, run: Run) -> bool:
        """Whether a run ended, well or not."""
        return has_ended(self.path_of(run))

    def is_from_elsewhere(self, run: Run) -> bool:
        """Whether a run was made for another purpose."""
        return key_of(run.spec) in self._known


def has_ended(path: Path) -> bool:
    """Whether the run there is finished, or diverged."""
    run = RunDirectory(path)
    return (path / SPEC).is_file() and (run.finished or run.has_diverged)


def _usable(folders: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """The runs below the folders that ended, by their keys."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"--reuse {folder}: no such folder")
        for key, path in _readable(folder):
            with suppress(InputError):  # its events cannot be read
                if has_ended(path):
                    yield key, path


def _readable(folder: Path) -> Iterator[tuple[str, Path]]:
    """All runs below the folder, by their keys."""
    for path in sorted(folder.rglob(SPEC)):
        with suppress(InputError):  # a spec of another version, or no run at all
            run = RunDirectory.open(path.parent)
            yield key_of(run.read_spec()), run.path
