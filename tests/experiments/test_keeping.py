"""Claims that continue from what their folder holds of earlier runs, without weights."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.fakes import claim_files
from experiments.test_reproduce import CLAIM, Silent, train_here
from highwaynet.base.errors import InputError
from highwaynet.experiments import keeping
from highwaynet.experiments import reproduce as module
from highwaynet.experiments.claim_records import load_plan
from highwaynet.experiments.claims import Run, Scale
from highwaynet.experiments.kept_runs import ARCHIVE, UNFINISHED, read_archive, write_runs
from highwaynet.experiments.pool import Pool
from highwaynet.experiments.race import RACE_DENSE
from highwaynet.experiments.reproduce import Job, prepare, reproduce
from highwaynet.experiments.runner import Standing
from highwaynet.runs.spec import with_training
from highwaynet.training.interruption import InterruptedRunError


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that were trained, by label; runs are trained in this process."""
    labels: list[str] = []

    def run_all(runs: list[Run], pool: Pool, workers: int, show: Callable[[Standing], None], **_: Any) -> None:
        for run in runs:
            if not pool.is_done(run):
                labels.append(run.label)
                train_here([run], pool, workers, show)
            show(Standing(len(labels), len(runs), ()))

    monkeypatch.setattr(module, "run_all", run_all)
    monkeypatch.setattr(module, "frozen_commit", lambda: "c0ffee")
    return labels


@pytest.fixture
def made(tmp_path: Path, trained: list[str]) -> Path:
    """A folder in which the claim was reproduced, without the runs."""
    out = tmp_path / "made"
    reproduce(prepare(CLAIM, "laptop", None, out, []), 1, Silent())
    assert trained == ["tame-1", "wild"]
    trained.clear()
    shutil.rmtree(out / "runs")
    return out


def test_a_claim_whose_runs_are_kept_is_judged_without_them(made: Path, trained: list[str]) -> None:
    before = claim_files(made / "toy")
    (made / "toy" / "record.json").unlink()
    job = prepare(CLAIM, "laptop", None, made, [])
    assert job.left == []
    record = reproduce(job, 1, Silent())
    assert trained == []
    assert claim_files(made / "toy") == before
    assert record.rules[0].fresh, "the plan, with its commit, was there before the runs"


def test_only_runs_that_are_missing_are_made(made: Path, trained: list[str]) -> None:
    before, runs = claim_files(made / "toy"), read_archive(made / "toy" / ARCHIVE)
    write_runs(made / "toy", {"tame-1": runs["tame-1"]})
    job = prepare(CLAIM, "laptop", None, made, [])
    assert [run.label for run, _ in job.left] == ["wild"]
    record = reproduce(job, 1, Silent())
    assert trained == ["wild"]
    assert claim_files(made / "toy") == before
    assert record.made_before == 0


@pytest.mark.parametrize("wrong", ["another run", "without a record", "damaged"])
def test_kept_runs_that_do_not_do_are_made_again(wrong: str, made: Path, trained: list[str]) -> None:
    folder = made / "toy"
    before, runs = claim_files(folder), read_archive(folder / ARCHIVE)
    if wrong == "another run":
        runs["tame-1"] = runs["wild"]
    elif wrong == "without a record":
        runs["tame-1"].files = {name: content for name, content in runs["tame-1"].files.items() if "flow" not in name}
    write_runs(folder, runs)
    if wrong == "damaged":
        (folder / ARCHIVE).write_bytes((folder / ARCHIVE).read_bytes()[:-30])
    reproduce(prepare(CLAIM, "laptop", None, made, []), 1, Silent())
    assert trained == (["tame-1", "wild"] if wrong == "damaged" else ["tame-1"])
    assert claim_files(folder) == before


def test_runs_are_kept_while_others_are_made(tmp_path: Path, trained: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "EVERY", 0.0)
    job = prepare(CLAIM, "laptop", None, tmp_path, [])
    seen: list[list[str]] = []

    class Stopped(Silent):
        def show(self, standing: Standing) -> None:
            seen.append(sorted(read_archive(job.folder / UNFINISHED)))
            if standing.done == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(job, 1, Stopped())
    assert seen == [[], ["tame-1"]], "the first one, while the second one was made"
    shutil.rmtree(tmp_path / "runs")
    trained.clear()
    plan = load_plan(job.folder)
    record = reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())
    assert trained == ["wild"]
    assert record.rules[0].fresh
    assert load_plan(job.folder) == plan


def test_nothing_is_kept_in_between_if_a_claim_is_quick(tmp_path: Path, trained: list[str]) -> None:
    job = prepare(CLAIM, "laptop", None, tmp_path, [])

    class Stopped(Silent):
        def show(self, standing: Standing) -> None:
            assert [path.name for path in job.folder.iterdir()] == ["plan.json"]

    reproduce(job, 1, Stopped())
    assert (job.folder / ARCHIVE).exists()


def no_space(path: Path, runs: Any) -> None:
    raise InputError(f"cannot write {path}: No space left on device")


def test_an_interruption_keeps_what_has_ended(tmp_path: Path, trained: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    job = prepare(CLAIM, "laptop", None, tmp_path, [])

    class Stopped(Silent):
        def show(self, standing: Standing) -> None:
            raise InterruptedRunError("interrupted", 130)

    with monkeypatch.context() as full:
        full.setattr(keeping, "write_archive", no_space)
        with pytest.raises(InterruptedRunError, match=r"^interrupted$"):
            reproduce(job, 1, Stopped())
    with pytest.raises(InterruptedRunError, match=r"^interrupted$"):
        reproduce(job, 1, Stopped())
    assert sorted(read_archive(job.folder / UNFINISHED)) == ["tame-1"]
    shutil.rmtree(tmp_path / "runs")
    trained.clear()
    reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())
    assert trained == ["wild"]


def test_the_runs_of_an_earlier_record_stay_until_there_is_a_new_one(
    made: Path, trained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "EVERY", 0.0)
    folder = made / "toy"
    before = (folder / ARCHIVE).read_bytes()

    class Stopped(Silent):
        def show(self, standing: Standing) -> None:
            if standing.done == 2:
                raise KeyboardInterrupt

    def other(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
        tame, wild = CLAIM.plan(scale, seeds)
        changed = (with_training(tame.spec, learning_rate=0.123), with_training(wild.spec, learning_rate=2e5))
        return tuple(Run(run.label, spec, run.analyses) for run, spec in zip((tame, wild), changed, strict=True))

    claim = dataclasses.replace(CLAIM, plan=other)
    with pytest.raises(KeyboardInterrupt):
        reproduce(prepare(claim, "laptop", None, made, []), 1, Stopped())
    assert (folder / ARCHIVE).read_bytes() == before
    assert sorted(read_archive(folder / UNFINISHED)) == ["tame-1"]
    reproduce(prepare(claim, "laptop", None, made, []), 1, Silent())
    assert sorted(read_archive(folder / ARCHIVE)) == ["tame-1", "wild"]
    assert (folder / ARCHIVE).read_bytes() != before
    assert not (folder / UNFINISHED).exists()


def test_a_teacher_is_needed_as_long_as_its_students_are(tmp_path: Path) -> None:
    runs = RACE_DENSE.plan("smoke", 1)
    job = Job(RACE_DENSE, "smoke", runs, tmp_path, Pool(tmp_path / "runs"))
    kept: dict[str, Any] = {run.label: None for run in runs}
    job.__dict__["kept"] = {label: None for label in kept if not label.startswith("hinted")}
    assert [run.label.partition("-")[0] for run in job.needed] == ["teacher", "hinted", "hinted"]
    job.__dict__["kept"] = {label: None for label in kept if not label.startswith("plain")}
    assert [run.label.partition("-")[0] for run in job.needed] == ["plain", "plain"]
    job.__dict__["kept"] = kept
    assert job.needed == []
