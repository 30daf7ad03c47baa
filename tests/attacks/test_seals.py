"""Edited numbers are noticed: histories and records are sealed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from highwaynet import DataSpec, InputError, RunSpec, train
from highwaynet.base.arrays import CHECKSUM, pack
from highwaynet.base.files import sha256
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.listing import summarise
from highwaynet.runs.seals import SEALS
from highwaynet.runs.teacher_spec import TeacherSpec
from highwaynet.training.watcher import Watcher
from support import Highway, Runs, small_spec

BEFORE = Path(__file__).parents[1] / "runs" / "before"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = small_spec()
    spec = RunSpec(network=spec.network, training=spec.training, data=DataSpec(validation=0.2))
    return train(spec, tmp_path_factory.mktemp("sealed") / "run").path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> RunDirectory:
    return RunDirectory.open(Path(shutil.copytree(trained, tmp_path / "run")))


def test_an_intact_run_is_verified(run: RunDirectory, highway: Highway) -> None:
    assert highway("inspect", run.path).returncode == 0
    done = highway("verify", run.path)
    assert done.returncode == 0, done.stderr
    assert "everything is as it was written\n" in done.stdout
    answer = json.loads(highway("verify", run.path, "--json").stdout)
    states = {check["what"]: check["state"] for check in answer["checks"]}
    assert set(states.values()) == {"right"}
    assert {"history.jsonl", "timing.jsonl", "environment.json", "spec.toml", "plan.json", "data.json", "checkpoints/final"} <= set(states)
    assert {"analysis/gates.json", "analysis/gates.npz", "validation score"} <= set(states)


def test_an_intact_first_stage_with_hints_is_verified(trained: Path, tmp_path: Path, highway: Highway) -> None:
    spec = small_spec().model_copy(update={"teacher": TeacherSpec(run=str(trained), hints="1:1", stage="hints")})
    done = highway("verify", train(spec, tmp_path / "hints").path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "has distances, and no score" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("history.jsonl", '"train_accuracy":0.', '"train_accuracy":0.9'),
        ("timing.jsonl", '"seconds":', '"seconds":1'),
        ("environment.json", '"cores": ', '"cores": 1'),
        (SEALS, '"length": ', '"length": 1'),
    ],
)
def test_edited_numbers_are_refused(name: str, old: str, new: str, run: RunDirectory, highway: Highway) -> None:
    edit(run.path / name, old, new)
    found = summarise(run.path)
    assert found.state == ("damaged" if name != "environment.json" else "finished")
    done = highway("verify", run.path)
    assert done.returncode == 2
    assert "is not as it was written: " in done.stderr
    if name != "environment.json":
        with pytest.raises(InputError, match="was changed after it was written"):
            run.read_history() and run.read_seconds()


def test_lines_cannot_be_added_to_a_finished_history(run: RunDirectory) -> None:
    with (run.path / "history.jsonl").open("a") as stream:
        stream.write((run.path / "history.jsonl").read_text().splitlines()[-1].replace('"epoch":2', '"epoch":3') + "\n")
    with pytest.raises(InputError):
        run.read_history()


def test_an_edited_record_is_computed_again(run: RunDirectory, highway: Highway) -> None:
    right = json.loads(highway("evaluate", run.path, "--json").stdout)
    (path,) = (run.path / "analysis").glob("mistakes*.json")
    edit(path, '"accuracy": 0.', '"accuracy": 0.000')
    assert json.loads(highway("evaluate", run.path, "--json").stdout) == right
    path.unlink()
    assert json.loads(highway("evaluate", run.path, "--json").stdout) == right


def test_runs_of_earlier_versions_are_unsealed_and_load(tmp_path: Path, highway: Highway) -> None:
    shutil.copytree(BEFORE / "dense", tmp_path / "old")
    run = RunDirectory.open(tmp_path / "old")
    assert len(run.read_history()) > 0
    assert set(run.seal_states().values()) == {"unsealed"}
    done = highway("verify", tmp_path / "old")
    assert done.returncode == 0, done.stderr
    assert "unsealed" in done.stdout


def test_a_history_that_was_edited_while_the_run_slept_is_not_continued(tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    class Stops(Watcher):
        def epoch(self, record: object, timing: object) -> None:
            if record.epoch == 2:  # type: ignore[attr-defined]
                raise StopError

    base = small_spec()
    spec = RunSpec(network=base.network, training={"epochs": 4, "batch_size": 64, "learning_rate": 0.1, "checkpoint": "1 epochs"})
    with pytest.raises(StopError):
        train(spec, tmp_path / "run", watcher=Stops())
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    train(spec, tmp_path / "run", resume=True)
    assert set(RunDirectory.open(tmp_path / "run").seal_states().values()) == {"sealed"}
    edit(tmp_path / "copy" / "history.jsonl", '"train_accuracy":0.', '"train_accuracy":0.9')
    with pytest.raises(InputError, match="was changed after it was written"):
        train(spec, tmp_path / "copy", resume=True)


def test_lost_best_weights_are_noticed(tmp_path: Path, highway: Highway) -> None:
    base = small_spec()
    training = {"epochs": 6, "batch_size": 64, "learning_rate": 1.5, "momentum": 0.9, "on_divergence": "ignore"}
    spec = RunSpec(network=base.network, training=training, data=DataSpec(validation=0.2))
    run = train(spec, tmp_path / "run")
    (best,) = run.checkpoints.names("best")
    assert run.checkpoints.record(best).step < run.checkpoints.record("final").step, "the last epoch is not the best"
    for suffix in ("json", "safetensors"):
        (run.checkpoints.folder / f"{best}.{suffix}").unlink()
        for command in ("evaluate", "verify", "export"):
            done = highway(command, run.path)
            assert done.returncode == 2, done.stdout
            assert done.stderr.count("highway: ") == 1
    assert highway("evaluate", run.path, "--checkpoint", "final").returncode == 0


@pytest.mark.parametrize("damage", [b"not a zip file", b"", b"PK\x03\x04" + bytes(50)])
def test_arrays_that_are_not_arrays(damage: bytes, finished_run: Runs, highway: Highway) -> None:
    run = finished_run("fc-highway")
    assert highway("inspect", run.path).returncode == 0
    (run.path / "analysis" / SEALS).unlink()  # as somebody would who recomputes checksums
    path = run.path / "analysis" / "gates.json"
    path.with_suffix(".npz").write_bytes(damage)
    path.write_text(json.dumps(json.loads(path.read_text()) | {CHECKSUM: sha256(damage)}))
    done = highway("inspect", run.path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 3), (49, 1), (1, 1, 1)])
def test_arrays_of_a_wrong_shape_are_computed_again(shape: tuple[int, ...], finished_run: Runs) -> None:
    from highwaynet import inspect
    from highwaynet.analysis.analysis_records import GatesRecord
    from highwaynet.runs.record_files import load_record

    run = finished_run("fc-highway")
    right = inspect(run).gates()
    folder = run.path / "analysis"
    (path,) = folder.glob("gates*.json")
    with np.load(path.with_suffix(".npz")) as file:
        arrays = {name: file[name] for name in file.files}
    for name in arrays:
        wrong = pack(arrays | {name: np.zeros(shape, np.float32)})
        path.with_suffix(".npz").write_bytes(wrong)
        path.write_text(json.dumps(json.loads(path.read_text()) | {CHECKSUM: sha256(wrong)}))
        (folder / SEALS).unlink(missing_ok=True)
        assert load_record(folder, path.stem, GatesRecord) is None
    assert inspect(RunDirectory.open(run.path)).gates() == right
