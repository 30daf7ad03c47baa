"""Studies of seconds, and a worker in this process."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from highwaynet.search.configurations import check_runs
from highwaynet.search.creation import FORMAT
from highwaynet.search.spec import StudySpec, parse_study
from highwaynet.search.storage import database_of
from highwaynet.search.trials import Trials
from highwaynet.search.worker import Worker
from highwaynet.training.interruption import Interruption

TINY: dict[str, Any] = {
    "name": "tiny",
    "trials": 4,
    "run": {"network": {"depth": 3, "width": 6}, "training": {"epochs": 2, "batch_size": 128}},
    "space": {"training.learning_rate": {"kind": "log-uniform", "low": 0.01, "high": 0.5}},
}


@pytest.fixture
def tiny() -> Callable[..., StudySpec]:
    """A small study with some fields changed."""

    def make(**changes: Any) -> StudySpec:
        spec = StudySpec.model_validate(TINY | changes)
        check_runs(spec)
        return parse_study(spec.to_toml(), Path("study.toml"))

    return make


def opened(spec: StudySpec, folder: Path) -> Trials:
    attributes = {"format": FORMAT, "spec": spec.to_toml(), "spec_sha256": spec.checksum, "data": {}}
    return Trials(spec, database_of(folder), folder, attributes)


@pytest.fixture
def open_study(tmp_path: Path) -> Iterator[Callable[..., Trials]]:
    """A study in its storage, as a parent or worker opens it."""
    made: list[Trials] = []

    def make(spec: StudySpec, folder: Path = tmp_path / "study") -> Trials:
        trials = opened(spec, folder)
        trials.create()
        made.append(trials)
        return trials

    yield make
    for trials in made:
        trials.storage.remove_session()
        trials.storage.engine.dispose()


@pytest.fixture
def run_worker() -> Callable[..., None]:
    """Let one worker do all there is to do."""

    def run(trials: Trials, stop: Interruption | None = None) -> None:
        Worker(trials, stop or Interruption(), 0).work()

    return run
