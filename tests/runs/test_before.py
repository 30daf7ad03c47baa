"""Runs that were made before networks had stored plans (folder before/): they load, predict and go on as they did."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from highwaynet import InputError, RunSpec, evaluate, inspect, load, train
from highwaynet.runs.directory import RunDirectory

BEFORE = Path(__file__).parent / "before"
IMAGE = np.full((1, 1, 8, 8), 7.0)
# What the version that made these runs gave for a grey image, and for a row of the table.
PROBABILITIES = {
    "dense": [0.0430961, 0.0793220, 0.0200050, 0.0180776, 0.1116253, 0.0352591, 0.0282990, 0.5264900, 0.1145641, 0.0232619],
    "conv": [0.0836808, 0.0908106, 0.0958306, 0.1152431, 0.0974699, 0.1225390, 0.1116313, 0.0980967, 0.0893125, 0.0953856],
}
PRICE = 31.84056745


@pytest.mark.parametrize("name", PROBABILITIES)
def test_old_runs_predict_as_they_did(name: str) -> None:
    np.testing.assert_allclose(load(BEFORE / name).predict_proba(IMAGE)[0], PROBABILITIES[name], atol=1e-6)


def test_an_old_table_predicts_as_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"size": ["9.5"], "colour": ["red"], "age": [""]}
    np.testing.assert_allclose(load(BEFORE / "table").predict(row), [PRICE], rtol=1e-5)
    monkeypatch.chdir(BEFORE)  # its spec names prices.csv
    assert evaluate("table").r2 == pytest.approx(0.95, abs=0.05)


@pytest.mark.parametrize("name", ["dense", "conv"])
def test_old_runs_are_evaluated_and_inspected(name: str, tmp_path: Path) -> None:
    shutil.copytree(BEFORE / name, tmp_path / name)
    run = RunDirectory.open(tmp_path / name)
    assert not run.has_plan
    plan = run.load_plan()
    assert plan.name == run.read_spec().network.name
    score = evaluate(run, "validation")
    assert score.loss == pytest.approx(run.read_history()[-1].validation_loss, rel=1e-4)
    assert len(inspect(run).lesions("test", samples=50).closed) == plan.removable


def test_an_old_run_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    shutil.copytree(BEFORE / "interrupted", tmp_path / "run")
    stored = RunDirectory.open(tmp_path / "run").read_spec()
    before = (tmp_path / "run" / "history.jsonl").read_text()
    run = train(stored, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "history.jsonl").read_text().startswith(before)
    history = run.read_history()
    assert [line.epoch for line in history] == [1, 2, 3, 4]
    # As the undisturbed run of that version ended; another machine may round otherwise.
    assert history[-1].train_loss == pytest.approx(0.6973897250947849, rel=1e-3)
    assert history[-1].validation_loss == pytest.approx(0.4813840091228485, rel=1e-3)


def test_an_old_run_is_a_parent(tmp_path: Path) -> None:
    spec = RunSpec.from_run(BEFORE / "dense", without=[2], training={"epochs": 1})
    run = train(spec, tmp_path / "child")
    assert run.load_plan().removable == 3
    assert load(run).network.plan == run.load_plan()


def test_an_edited_old_checkpoint_is_refused(tmp_path: Path) -> None:
    shutil.copytree(BEFORE / "dense", tmp_path / "run")
    sidecar = tmp_path / "run" / "checkpoints" / "final.json"
    sidecar.write_text(sidecar.read_text().replace('"step": 123', '"step": 124'))
    with pytest.raises(InputError, match="its checksum is wrong"):
        load(tmp_path / "run", "final")
