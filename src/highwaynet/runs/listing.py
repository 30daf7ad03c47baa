"""Lists the runs below a folder, with the state of each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from highwaynet.base.errors import InputError
from highwaynet.base.specs import Spec
from highwaynet.networks.description import describe_plan
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.history import epoch_in
from highwaynet.runs.lock import is_locked
from highwaynet.runs.run_records import EpochRecord
from highwaynet.runs.spec import SPEC

State = Literal["finished", "running", "interrupted", "diverged", "stopped", "damaged"]
DEEPEST = 4
"""How many levels of folders are searched."""
SHRUNK = "shrink.json"
"""A folder with this file is a result of `highway shrink`: of its runs, only the network that is left is listed."""


class RunSummary(Spec):
    """A run and its state."""

    run: str
    """Its folder."""
    state: State
    """finished; running in some process; interrupted by Ctrl-C or SIGTERM; diverged; stopped by anything else; damaged."""
    network: str = ""
    """Name of the network, with its depth."""
    data: str = ""
    """Name of the data."""
    seed: int = 0
    """Its seed."""
    epochs: int = 0
    """Number of epochs in its settings."""
    last: EpochRecord | None = None
    """The last finished epoch."""
    answer: EpochRecord | None = None
    """The epoch whose weights are used by other commands; None if the run has not finished."""
    seconds: float = 0.0
    """Time of its finished epochs."""
    problem: str | None = None
    """The error, if the run is damaged."""


def find_runs(folder: Path) -> list[RunSummary]:
    """Find the runs at and below a folder, sorted by path; raises InputError if it is not a folder."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; `highway train` creates runs")
    return [summarise(path) for path in sorted(_run_folders(folder, DEEPEST))]


def _run_folders(folder: Path, deepest: int) -> Iterator[Path]:
    if (folder / SPEC).is_file():
        yield folder
    elif (folder / SHRUNK).is_file():
        yield from _run_folders(folder / "network", 0)
    elif deepest:
        for inner in folder.iterdir():
            if inner.is_dir() and not inner.is_symlink() and not inner.name.startswith("."):
                yield from _run_folders(inner, deepest - 1)


def summarise(path: Path) -> RunSummary:
    """Summarise one run; if it is damaged, the summary says so, and no error is raised."""
    run = RunDirectory.open(path)
    try:
        spec = run.read_spec()
        history = run.read_history() if run.has_history or run.finished else []
        layers = describe_plan(run.load_plan()).layers if run.has_plan else spec.network.depth
        depth = "" if spec.network.preset.traits.has_variants and layers == spec.network.depth else f" {layers}"
        return RunSummary(
            run=str(path),
            state=_state(run),
            network=spec.network.label + depth,
            data=spec.data.name if spec.data.built_in else Path(spec.data.name).name,
            seed=spec.seed,
            epochs=spec.training.epochs,
            last=history[-1] if history else None,
            answer=epoch_in(history, _answering_epoch(run), path),
            seconds=run.read_seconds(),
        )
    except InputError as error:
        return RunSummary(run=str(path), state="damaged", problem=str(error))


def _answering_epoch(run: RunDirectory) -> int:
    """Return the epoch whose weights are the run's answer; 0 if it has not finished."""
    return run.checkpoints.record(run.resolve(run.answer)).epoch if run.finished else 0


def _state(run: RunDirectory) -> State:
    if is_locked(run.path):
        return "running"
    if run.finished:
        return "finished"
    if run.has_diverged:
        return "diverged"
    return "interrupted" if "".join(run.read_events()[-1:]).startswith("interrupted") else "stopped"
