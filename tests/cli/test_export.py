"""`highway export` and the output of `highway predict`, through the real command."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow.parquet as pq
import pytest

from highwaynet import RunDirectory, load
from highwaynet.data.digits import read_digits
from support import Highway

ROOT = Path(__file__).parents[2]


def test_export_and_use(highway: Highway, finished_run: Callable[..., RunDirectory], tmp_path: Path) -> None:
    run = finished_run("fc-highway")
    result = highway("export", run.path, "--out", "digits.onnx", fresh=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert "digits.onnx: 0.01 MB, onnx" in result.stdout
    assert "input pixels: uint8 (batch, 1, 8, 8), from 0 to 16" in result.stdout
    assert re.search(r"checked: its answers differ from those of the network by at most \de-0[6-9]", result.stdout)
    pixels = read_digits().inputs[:20]
    label, probabilities = onnxruntime.InferenceSession(tmp_path / "digits.onnx").run(None, {"pixels": pixels})
    model = load(run)
    np.testing.assert_allclose(probabilities, model.predict_proba(pixels), atol=1e-6)
    assert label.tolist() == model.predict(pixels).tolist()
    told = json.loads(highway("export", run.path, "--out", "digits.safetensors", "--to", "safetensors", "--json").stdout)
    assert (told["path"], told["to"], told["run"]) == ("digits.safetensors", "safetensors", run.name)
    assert told["fingerprint"] == run.fingerprint()
    assert highway("export", run.path).returncode == 0
    assert run.path.with_name(f"{run.name}.onnx").is_file()


def test_exports_that_are_refused(highway: Highway, finished_run: Callable[..., RunDirectory], tmp_path: Path) -> None:
    run = finished_run("fc-highway").path
    (tmp_path / "folder").mkdir()
    for arguments, sentence in (
        (["nowhere"], "nowhere: no such run directory"),
        ([run, "--out", "folder"], "cannot write folder: it is a folder; name a file"),
        ([run, "--out", "none/file.onnx"], "cannot write none/file.onnx: there is no folder none; create it first"),
        ([run, "--out", "/proc/file.onnx"], "cannot write /proc/file.onnx: "),
        ([run, "--to", "onxx"], "'onxx' is not one of 'onnx', 'torch', 'safetensors'"),
        ([run, "--checkpoint", "average"], "has no checkpoint 'average'"),
    ):
        refused = highway("export", *arguments)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), refused.stderr
        assert sentence in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    np.save(tmp_path / "rows.npy", read_digits().inputs[:50])
    return tmp_path / "rows.npy"


def test_predictions_go_to_files(highway: Highway, finished_run: Callable[..., RunDirectory], rows: Path, tmp_path: Path) -> None:
    run = finished_run("fc-highway").path
    answers = json.loads(highway("predict", run, "rows.npy", "--json").stdout)["predictions"]
    text = highway("predict", run, "rows.npy", "--csv").stdout
    for name in ("out.csv", "out.json", "out.jsonl", "out.parquet"):
        result = highway("predict", run, "rows.npy", "--out", name)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", f"{name}: 50 predictions\n")
    assert (tmp_path / "out.csv").read_text() == text
    assert json.loads((tmp_path / "out.json").read_text())["predictions"] == answers
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == answers
    table = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["input"], row["class"], row["probability"]) for row in table] == [
        (answer["input"], answer["class"], answer["probability"]) for answer in answers
    ]
    assert list(table[0]) == next(csv.reader(text.splitlines()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.json", "out.jsonl", "out.parquet", "rows.npy"]


def test_names_that_are_not_utf8(highway: Highway, finished_run: Callable[..., RunDirectory], rows: Path, tmp_path: Path) -> None:
    try:
        rows.rename(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.npy"))
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    run = finished_run("fc-highway").path
    for name in ("out.csv", "out.json", "out.jsonl", "out.parquet"):
        result = highway("predict", run, os.fsdecode(b"\xff.npy"), "--out", name)
        assert (result.returncode, result.stderr) == (0, f"{name}: 50 predictions\n")
    named = [f"\\udcff.npy:{row}" for row in range(1, 51)]
    assert [one["input"] for one in json.loads((tmp_path / "out.json").read_text())["predictions"]] == named
    assert [row["input"] for row in pq.read_table(tmp_path / "out.parquet").to_pylist()] == named
    shown = highway("predict", run, os.fsdecode(b"\xff.npy"), "--json")
    assert [one["input"] for one in json.loads(shown.stdout)["predictions"]] == named


def test_bad_rows_are_skipped_and_counted(highway: Highway, finished_run: Callable[..., RunDirectory], rows: Path, tmp_path: Path) -> None:
    run, pixels = finished_run("fc-highway").path, np.load(rows).astype(np.float32)
    pixels[[1, 48]] = np.nan
    np.save(rows, pixels)
    refused = highway("predict", run, "rows.npy", "--out", "out.csv")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "not a finite float32 number in row 1 (counted from 0)" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]
    result = highway("predict", run, "rows.npy", "--out", "out.csv", "--skip-bad")
    assert result.returncode == 0
    assert result.stderr.splitlines() == [
        "skipped: rows.npy, row 2: a value is not a finite number",
        "skipped: rows.npy, row 49: a value is not a finite number",
        "out.csv: 48 predictions",
        "skipped 2 of 50 samples, which cannot be read",
    ]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 49
    np.save(rows, np.full_like(pixels, np.nan))
    refused = highway("predict", run, "rows.npy", "--out", "out.csv", "--skip-bad")
    assert refused.returncode == 2
    assert "none of the 50 samples could be read: nothing was predicted" in refused.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 49  # the earlier one


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--out", "out.txt"], "--out out.txt: the name should end in .csv, .json, .jsonl, .parquet"),
        (["--out", "none/out.csv"], "cannot write none/out.csv: there is no folder none; create it first"),
        (["--out", "out.csv", "--json"], "--json and --out: choose one of them"),
        (["--csv", "--json"], "--json and --csv: choose one of them"),
    ],
)
def test_wrong_outputs(
    arguments: list[str], sentence: str, highway: Highway, finished_run: Callable[..., RunDirectory], rows: Path
) -> None:
    refused = highway("predict", finished_run("fc-highway").path, "rows.npy", *arguments)
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", f"highway: {sentence}\n")


def test_the_ten_lines_of_the_documents(highway: Highway, finished_run: Callable[..., RunDirectory], tmp_path: Path) -> None:
    """The first code in docs/EXPORT.md uses nothing but numpy and ONNX Runtime; here, as if nothing else were installed."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs/EXPORT.md").read_text(), re.DOTALL)
    assert code is not None
    assert len(code[1].splitlines()) <= 10
    assert highway("export", finished_run("fc-highway").path, "--out", "digits.onnx").returncode == 0
    np.save(tmp_path / "pixels.npy", read_digits().inputs[:20])
    alone = "import sys\nfor name in ('torch', 'highwaynet', 'onnx', 'PIL'): sys.modules[name] = None\n" + code[1]
    result = subprocess.run([sys.executable, "-c", alone], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 2


def test_the_lines_of_the_documents_for_a_table(highway: Highway, tmp_path: Path) -> None:
    """The second code in docs/EXPORT.md, for a table with categories, gaps and white space around texts."""
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs/EXPORT.md").read_text(), re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line]) <= 10
    rows = "".join(f"{place * 37 % 50},{('Ulm', 'Bonn', '', 'Köln')[place % 4]},{'yes' if place % 4 else 'no'}\n" for place in range(120))
    (tmp_path / "people.csv").write_text("age,town,answer\n" + rows)
    trained = highway("train", "--data", "people.csv", "--target", "answer", "--epochs", 20, "--out", "people")
    assert trained.returncode == 0, trained.stderr
    assert highway("export", "people").returncode == 0
    (tmp_path / "new.csv").write_text("town,age\nUlm,3\n  Ulm ,3\n,4\nBonn,\n Köln,40\nParis,7\nUlm,20\n")
    expected = highway("predict", "people", "new.csv", "--csv").stdout.splitlines()[1:]
    alone = "import sys\nfor name in ('torch', 'highwaynet', 'onnx', 'PIL', 'pandas'): sys.modules[name] = None\n" + code
    result = subprocess.run([sys.executable, "-c", alone], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert re.findall("yes|no", result.stdout) == [line.split(",")[1] for line in expected]
    assert {"yes", "no"} <= set(re.findall("yes|no", result.stdout))
