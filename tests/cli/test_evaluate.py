"""`highway evaluate` as people type it: numbers next to guessing, and class by class."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import highwaynet
from highwaynet.base.text import percent
from highwaynet.runs.directory import RunDirectory
from support import Highway

QUICK = ("--depth", 4, "--width", 10, "--epochs", 2, "--threads", 1)


def test_classes(finished_run: Callable[..., RunDirectory], highway: Highway) -> None:
    run = finished_run()
    score, record = highwaynet.evaluate(run), highwaynet.inspect(run).mistakes()
    result = highway("evaluate", run.path, fresh=True)
    assert result.returncode == 0, result.stderr
    first, guess, balanced, *table = result.stdout.splitlines()
    assert first == f"test: {score} (359 samples)", "scripts read this line"
    assert re.fullmatch(r"test: loss [0-9.e-]+, accuracy [0-9.]+\s% \(359 samples\)", first)
    assert guess == f"always guessing the most frequent training class ({record.majority}): accuracy {percent(36 / 359)}"
    assert balanced.startswith(f"balanced accuracy {percent(record.balanced_accuracy or 0)}; expected calibration error ")
    assert balanced.endswith("(15 equally wide bins)")
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in table if line.startswith("│")]
    assert [row[0] for row in rows] == list("0123456789")
    worst = next(row for row in record.classes if row.name == rows[3][0])
    assert rows[3][2:] == [percent(worst.recall or 0), "37"]


def test_one_of_a_thing(tmp_path: Path, highway: Highway) -> None:
    (tmp_path / "set.csv").write_text("a,y\n" + "".join(f"{row * 37 % 50},{row % 7 * 3.5}\n" for row in range(120)))
    parts = ("--depth", 4, "--epochs", 1, "--set", "data.test=0.01", "--out", "run")
    trained = highway("train", "--data", "set.csv", "--target", "y", *parts)
    assert trained.returncode == 0, trained.stderr
    assert "rows in a step, 1 epoch at most (--epochs)" in trained.stdout + trained.stderr
    assert " (1 sample)\n" in highway("evaluate", "run").stdout
    (tmp_path / "picture.png").write_bytes(b"")
    refused = highway("predict", "run", "picture.png")
    assert (refused.returncode, "the run was trained on a table, not on images" in refused.stderr) == (2, True), refused.stderr
    told = highway("train", "--help").stdout
    assert "--resize 32x48" in " ".join(told.replace("│", " ").split())


def test_everything_as_json(finished_run: Callable[..., RunDirectory], highway: Highway) -> None:
    run = finished_run()
    answer = json.loads(highway("evaluate", run.path, "--split", "validation", "--json").stdout)
    record = highwaynet.inspect(run).mistakes("validation")
    assert (answer["split"], answer["samples"], answer["checkpoint"]) == ("validation", 144, run.answer)
    assert answer["accuracy"] == highwaynet.evaluate(run, "validation").accuracy
    assert np.array(answer["confusion"]).tolist() == record.confusion.tolist()
    assert answer["classes"][7] == record.classes[7].model_dump()
    assert answer["calibration_error"] == record.calibration_error
    assert (len(answer["bin_accuracy"]), len(answer["worst"])) == (15, 12)
    assert set(answer["worst"][0]) == {"row", "name", "true", "predicted", "probability"}
    assert not {"mae", "predictions", "pictures", "fingerprint"} & set(answer)


def test_many_classes_are_cut_to_the_hardest(tmp_path: Path, highway: Highway) -> None:
    classes = np.arange(300) % 25
    np.savez(tmp_path / "many.npz", x=np.eye(25, dtype=np.float32)[classes], y=classes)
    assert highway("train", "--data", "many.npz", *QUICK, "--out", "run").returncode == 0
    result = highway("evaluate", "run")
    assert "the 10 of 25 classes with the lowest recall (--json has all):" in result.stdout
    rows = [line.split("│")[1:-1] for line in result.stdout.splitlines() if line.startswith("│")]
    recalls = [float(row[2].replace("%", "")) for row in rows]
    assert len(rows) == 10
    assert recalls == sorted(recalls)
    assert len(json.loads(highway("evaluate", "run", "--json").stdout)["classes"]) == 25


def test_numbers_in_the_unit_of_the_target(tmp_path: Path, highway: Highway) -> None:
    sizes = np.random.default_rng(0).uniform(30, 200, size=200)
    with (tmp_path / "prices.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["size", "price"])
        writer.writerows([size, round(3000 * size)] for size in sizes)
    assert highway("train", "--data", "prices.csv", "--target", "price", *QUICK, "--out", "run").returncode == 0
    answer = json.loads(highway("evaluate", "run", "--json").stdout)
    result = highway("evaluate", "run")
    first, largest, *table = result.stdout.splitlines()
    assert first.startswith("test: loss ")
    assert f"RMSE {answer['rmse']:,.0f}, R²" in first
    assert "e+0" not in result.stdout
    assert largest == f"largest error of price: {answer['largest_error']:,.0f}"
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in table if line.startswith("│")]
    assert rows[0] == ["this network", f"{answer['rmse']:,.0f}", f"{answer['mae']:,.0f}", f"{answer['r2']:.3f}"]
    assert rows[1][1:3] == [f"{answer['baseline_rmse']:,.0f}", f"{answer['baseline_mae']:,.0f}"]
    prices = np.round(3000 * sizes)
    tested = [one["row"] for one in answer["worst"]]
    assert [one["target"] for one in answer["worst"]] == pytest.approx(prices[tested], rel=1e-6)
    assert [one["name"] for one in answer["worst"]] == [f"row {row + 1}" for row in tested]
    assert not {"confusion", "classes", "balanced_accuracy"} & set(answer)


def test_a_report_of_the_last_weights(tmp_path: Path, highway: Highway) -> None:
    flags = ["--validation", 0.2, "--depth", 4, "--epochs", 3, "--learning-rate", 0.3]
    assert highway("train", *flags, "--out", "run").returncode == 0
    for extra, words in (([], "Each run's answer"), (["--checkpoint", "final"], "The weights “final” of each run")):
        done = highway("report", "run", "--quick", "--json", *extra)
        assert done.returncode == 0, done.stderr
        assert words in (tmp_path / "report.html").read_text()
        stored = json.loads(highway("evaluate", "run", "--json", *extra).stdout)
        assert json.dumps(stored["loss"]) in done.stdout


@pytest.mark.parametrize(("validation", "part", "name"), [(0.2, "validation", "validation"), (0, "train", "training")])
def test_without_a_test_part(validation: float, part: str, name: str, tmp_path: Path, highway: Highway) -> None:
    """The commands that `highway train` names next use the validation data, or else the training data, and say so."""
    random = np.random.default_rng(0)
    rows = [(value, -value, "yes" if value > 0 else "no") for value in random.normal(size=120)]
    with (tmp_path / "set.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("a", "b", "y"), *rows])
    parts = ("--set", "data.test=0", "--set", f"data.validation={validation}")
    trained = highway("train", "--data", "set.csv", "--target", "y", *QUICK, *parts, "--out", "run")
    assert (trained.returncode, "next: highway evaluate run" in trained.stdout) == (0, True), trained.stderr
    said = f"run has no test part (data.test = 0): the {name} data are used\n"
    evaluated = highway("evaluate", "run")
    assert (evaluated.returncode, evaluated.stderr) == (0, said)
    assert evaluated.stdout.startswith(f"{part}: loss ")
    assert json.loads(highway("evaluate", "run", "--json").stdout)["split"] == part
    reported = highway("report", "run", "--quick")
    assert (reported.returncode, said in reported.stderr) == (0, True), reported.stderr
    page = (tmp_path / "report.html").read_text()
    assert f"{name} accuracy, " in page
    assert "test accuracy" not in page
    assert highway("inspect", "run", "--what", "mistakes").returncode == 0
    refused = highway("evaluate", "run", "--split", "test")
    assert (refused.returncode, "has no test part in this run (data.test = 0)" in refused.stderr) == (2, True)
