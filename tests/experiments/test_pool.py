"""A run with the same spec is not made twice."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwaynet.base.errors import InputError
from highwaynet.experiments.claims import Run
from highwaynet.experiments.keys import key_of
from highwaynet.experiments.pool import Pool, has_ended
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import RunSpec, with_training
from support import small_spec


def test_how_a_run_is_computed_does_not_matter() -> None:
    spec = small_spec()
    for changes in ({"threads": 7}, {"device": "cpu"}, {"keep": 9}, {"checkpoint": "5 steps"}, {"tensorboard": True}, {"recompute": True}):
        assert key_of(with_training(spec, **changes)) == key_of(spec), changes


def test_everything_else_does() -> None:
    spec = small_spec()
    others = [
        spec.model_copy(update={"seed": 1}),
        spec.model_copy(update={"network": spec.network.model_copy(update={"width": 13})}),
        spec.model_copy(update={"data": spec.data.model_copy(update={"split_seed": 1})}),
        *(with_training(spec, **changes) for changes in ({"epochs": 3}, {"learning_rate": 0.2}, {"precision": "float64"}, {"decay": 0.5})),
    ]
    assert len({key_of(one) for one in [spec, *others]}) == len(others) + 1


def test_checkpoints_matter_where_a_run_goes_back_to_them() -> None:
    spec = with_training(small_spec(), on_divergence="rewind")
    assert key_of(with_training(spec, checkpoint="5 steps")) != key_of(spec)


def test_the_same_spec_has_the_same_place_whatever_its_label(tmp_path: Path) -> None:
    pool = Pool(tmp_path / "runs")
    path = pool.path_of(Run("a", small_spec()))
    assert path == pool.path_of(Run("b", with_training(small_spec(), threads=2)))
    assert path.parent == tmp_path / "runs"
    assert path.name.startswith("fc-highway-6-digits-")
    assert not pool.is_done(Run("a", small_spec()))
    assert not (tmp_path / "runs").exists()


def test_runs_of_other_folders_are_used(finished_run: Callable[[], RunDirectory], tmp_path: Path) -> None:
    run = finished_run()
    for name, text in {"broken": "not = [toml", "other": "schema_version = 99\n"}.items():
        (tmp_path / "elsewhere" / name).mkdir(parents=True)
        (tmp_path / "elsewhere" / name / "spec.toml").write_text(text)
    pool = Pool(tmp_path / "runs", [tmp_path / "elsewhere", run.path.parent])
    job = Run("mine", with_training(run.read_spec(), threads=1))
    assert pool.path_of(job) == run.path
    assert pool.is_done(job)
    assert pool.is_from_elsewhere(job)
    other = Run("other", job.spec.model_copy(update={"seed": 5}))
    assert not pool.is_from_elsewhere(other)
    assert pool.path_of(other).parent == tmp_path / "runs"


def test_own_runs_are_known_by_what_they_compute_not_by_their_name(tmp_path: Path) -> None:
    first = Pool(tmp_path).path_of(Run("a", small_spec()))
    written(first, small_spec(), "started")
    first.rename(tmp_path / "called-otherwise")
    pool = Pool(tmp_path)
    assert pool.path_of(Run("a", small_spec())) == tmp_path / "called-otherwise"
    assert not pool.is_done(Run("a", small_spec()))
    assert not pool.is_from_elsewhere(Run("a", small_spec()))


def test_a_setting_that_is_added_later_does_not_change_what_a_run_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its value in earlier files is its default, which is not looked at."""
    spec = small_spec()
    seen: dict[str, Any] = {}
    monkeypatch.setattr("highwaynet.experiments.keys.sha256", lambda content: seen.update(json.loads(content)) or "")
    key_of(spec)
    assert "precision" not in seen["training"]
    assert "precision" in type(spec.training).model_fields


def written(path: Path, spec: RunSpec, event: str) -> RunDirectory:
    run = RunDirectory.create(path, spec, {})
    run.log(event)
    run.unlock()
    return run


def test_runs_that_diverged_are_done_and_those_that_stopped_are_not(tmp_path: Path) -> None:
    diverged = written(tmp_path / "made" / "diverged", small_spec(), "diverged: the loss is no longer finite in epoch 1, step 3")
    stopped = written(tmp_path / "made" / "stopped", small_spec("fc-plain"), "interrupted in epoch 1, step 3, and saved")
    assert has_ended(diverged.path)
    assert not has_ended(stopped.path)
    assert not has_ended(tmp_path / "nothing")
    pool = Pool(tmp_path / "runs", [tmp_path / "made"])
    assert pool.is_from_elsewhere(Run("a", small_spec()))
    assert not pool.is_from_elsewhere(Run("b", small_spec("fc-plain")))


def test_a_run_whose_events_cannot_be_read_keeps_nobody_from_the_others(finished_run: Callable[[], RunDirectory], tmp_path: Path) -> None:
    other = written(tmp_path / "made" / "other", small_spec("fc-plain"), "started")
    (other.path / "events.log").write_bytes(b"\xff\xfe\xff")
    shutil.copytree(finished_run().path, tmp_path / "made" / "good")
    pool = Pool(tmp_path / "runs", [tmp_path / "made"])
    assert pool.is_from_elsewhere(Run("a", small_spec()))
    assert not pool.is_from_elsewhere(Run("b", small_spec("fc-plain")))


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "nothing"):
        with pytest.raises(InputError, match=f"--reuse {tmp_path / name}: no such folder"):
            Pool(tmp_path / "runs", [tmp_path / name])
