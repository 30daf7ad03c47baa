"""`highway runs`, `--seeds`, `--resume`, `--checkpoint` as people type them."""

import json
import shutil
import statistics
from pathlib import Path

import pytest

from highwaynet.base.text import percent
from highwaynet.training.loop import train
from support import Highway, small_spec

FAST = ["--depth", 4, "--width", 8, "--epochs", 2, "--threads", 1]


def test_the_table_says_how_each_run_stands(tmp_path: Path, highway: Highway) -> None:
    assert "no such folder" in highway("runs").stderr
    train(small_spec(), tmp_path / "runs" / "good")
    train(small_spec(), tmp_path / "runs" / "group" / "damaged")
    (tmp_path / "runs" / "group" / "damaged" / "spec.toml").write_text("depth = ")
    train(small_spec(), tmp_path / "runs" / "killed")
    for path in (tmp_path / "runs" / "killed" / "checkpoints").iterdir():
        path.unlink()
    (tmp_path / "runs" / "killed" / "events.log").write_text("2026-01-01T00:00:00+00:00 started: something\n")
    for width in (60, 80, 200):
        assert "good" in highway("runs", COLUMNS=str(width)).stdout
        assert ("fc-highway 6" in highway("runs", COLUMNS=str(width)).stdout) == (width == 200)
    result = highway("runs", fresh=True)
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert next(line for line in lines if "good" in line).split("│")[2:4] == [" finished ", "   2/2 "]
    assert "stopped" in next(line for line in lines if "killed" in line)
    assert "damaged" in next(line for line in lines if "group/damaged" in line)
    assert "damaged: runs/group/damaged/spec.toml is not valid TOML" in result.stdout
    assert "to resume a run that did not finish: highway train RUN --resume" in result.stdout
    listed = {run["run"]: run for run in json.loads(highway("runs", "--json").stdout)}
    good = listed["runs/good"]
    assert (good["state"], good["network"], good["data"], good["seed"], good["epochs"]) == ("finished", "fc-highway 6", "digits", 0, 2)
    assert good["last"]["epoch"] == 2
    assert good["seconds"] > 0
    (tmp_path / "empty").mkdir()
    assert "no runs in empty" in highway("runs", "empty").stdout


def test_each_column_means_one_thing(tmp_path: Path, highway: Highway) -> None:
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i % 17},{i % 17 + i / 1000}\n" for i in range(100)))
    for name, more in {"classes": [], "all": ["--validation", 0], "numbers": ["--data", "t.csv", "--target", "y"]}.items():
        assert highway("train", *FAST, *more, "--out", f"runs/{name}").returncode == 0
    listed = {Path(run["run"]).name: run["last"] for run in json.loads(highway("runs", "--json").stdout)}

    def cells(*folder: str, columns: int) -> list[list[str]]:
        lines = highway("runs", *folder, COLUMNS=str(columns)).stdout.splitlines()
        return [[cell.strip() for cell in line.replace("┃", "│").split("│")[1:-1]] for line in lines if line[0] in "┃│"]

    above, below, *rows = cells(columns=120)
    headings = [" ".join(words).strip() for words in zip(above, below, strict=True)]
    assert headings[3:-1] == [f"{part} {metric}" for metric in ("loss", "accuracy", "RMSE", "R²") for part in ("train", "val.")]
    table = {row[0]: dict(zip(headings, row, strict=True)) for row in rows}
    assert table["classes"]["train accuracy"] == percent(listed["classes"]["train_accuracy"])
    assert table["classes"]["val. accuracy"] == percent(listed["classes"]["validation_accuracy"])
    assert table["classes"]["val. R²"] == ""
    assert table["all"]["train accuracy"] == percent(listed["all"]["train_accuracy"])
    assert table["all"]["val. accuracy"] == table["all"]["val. loss"] == ""
    assert table["numbers"]["val. R²"] == f"{listed['numbers']['validation_r2']:.3f}"
    assert table["numbers"]["train RMSE"] == f"{listed['numbers']['train_rmse']:.4g}"
    assert table["numbers"]["train accuracy"] == ""
    assert cells("runs/all", columns=60)[1] == ["run", "state", "epoch", "accuracy"], "columns without a value are left out"


def test_several_seeds_are_trained_and_summed_up(tmp_path: Path, highway: Highway) -> None:
    result = highway("train", *FAST, "--seeds", 3, "--seed", 5, "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    folder = tmp_path / answer["run"]
    assert folder.name == "fc-highway-4-digits-3seeds"
    assert [run["seed"] for run in answer["runs"]] == [5, 6, 7]
    accuracies = [100 * run["score"]["accuracy"] for run in answer["runs"]]
    mean, spread = statistics.fmean(accuracies), statistics.stdev(accuracies)
    assert answer["summary"] == f"test accuracy: best {max(accuracies):.2f} (mean {mean:.2f} ± {spread:.2f}) %, over 3 seeds"
    for run in answer["runs"]:
        score = json.loads(highway("evaluate", folder / run["run"], "--json").stdout)
        assert score["accuracy"] == run["score"]["accuracy"]
        assert f"seed = {run['seed']}\n" in (folder / run["run"] / "spec.toml").read_text()
    # Interrupted: what is there is not trained again.
    shutil.rmtree(folder / "seed7")
    kept = (folder / "seed6" / "timing.jsonl").read_bytes()
    again = highway("train", *FAST, "--seeds", 3, "--seed", 5, "--resume")
    assert again.returncode == 0, again.stderr
    assert answer["summary"] in again.stdout
    assert (folder / "seed6" / "timing.jsonl").read_bytes() == kept
    assert "runs/fc-highway-4-digits-3seeds" in again.stdout


def test_the_weights_of_the_best_epoch_can_be_asked(tmp_path: Path, highway: Highway) -> None:
    flags = ["--depth", 4, "--epochs", 6, "--learning-rate", 3, "--set", "training.decay=1.0", "--on-divergence", "ignore", "--threads", 1]
    assert highway("train", *flags, "--out", "run").returncode == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    losses = [line["validation_loss"] for line in lines]
    best = json.loads(highway("evaluate", "run", "--checkpoint", "best", "--split", "validation", "--json").stdout)
    assert best["checkpoint"] == "best"
    assert best["loss"] == pytest.approx(min(losses), rel=1e-6)
    final = json.loads(highway("evaluate", "run", "--split", "validation", "--json").stdout)
    assert final["loss"] == pytest.approx(losses[-1], rel=1e-6)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--checkpoint", "5"], "training.checkpoint = '5': write a number and steps, epochs or minutes"),
        (["--checkpoint", "soon"], "training.checkpoint = 'soon': write a number and steps, epochs or minutes"),
        (["--device", "gpu"], "training.device = 'gpu': should be cpu, cuda"),
        (["--device", "cuda:77"], "training.device = 'cuda:77': torch finds"),
        (["--precision", "float8"], "training.precision = 'float8': should be 'float32', 'float64', 'bfloat16' or 'float16'"),
        (["--on-divergence", "pray"], "training.on_divergence = 'pray': should be 'stop', 'rewind' or 'ignore'"),
        (["--clip-norm", "-1"], "training.clip_norm = -1: should be greater than 0"),
        (["--patience", "0"], "training.patience = 0: should be greater than or equal to 1"),
        (["--set", "training.keep=0"], "training.keep = 0: should be greater than or equal to 1"),
        (["--resume", "--overwrite"], "--overwrite and --resume: choose one of them"),
        (["--seeds", "0"], "--seeds"),
        (
            ["--set", "network.dropout=[0.1]"],
            "network.dropout = [0.1]: fc-highway needs 2 numbers, one for each place",
        ),
    ],
)
def test_wrong_values_are_refused_in_a_sentence(flags: list[str], sentence: str, tmp_path: Path, highway: Highway) -> None:
    result = highway("train", *flags)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "runs").exists()


def test_resuming_as_people_type_it(tmp_path: Path, highway: Highway) -> None:
    assert highway("train", *FAST, "--out", "run", "--resume").returncode == 0  # nothing there yet: begins
    result = highway("train", "run", "--resume")
    assert result.returncode == 0
    assert "highway: run is finished: there is nothing to continue" in result.stderr
    assert "--resume: there is no run at runs/fc-highway-4-digits-seed0" in highway("train", *FAST, "--resume").stderr
    result = highway("train", *FAST, "--seeds", 2, "--out", "run", "--overwrite")
    assert "run is a run: name another folder for several seeds" in result.stderr
    result = highway("train", "run", "--resume", "--epochs", 5)
    assert result.returncode == 2
    assert "training.epochs = 5: run was started with 2; omit it to resume" in result.stderr
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").write_text("mine")
    result = highway("train", *FAST, "--out", "folder", "--resume")
    assert result.returncode == 2
    assert "folder is not a run directory" in result.stderr
    assert (tmp_path / "folder" / "mine.txt").read_text() == "mine"
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / ".spec.toml.123.tmp").write_text("schema_ver")  # killed at its very first file
    assert "half already exists" in highway("train", *FAST, "--out", "half").stderr
    assert highway("train", *FAST, "--out", "half", "--resume").returncode == 0
    assert not (tmp_path / "half" / ".spec.toml.123.tmp").exists()
