"""What `highway predict` writes: several targets, and texts that spreadsheet programs take for formulas."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from cli.test_table_columns import QUICK, clean, written
from highwaynet import HighwayRegressor, export, load
from support import Highway

FORMULA = '=HYPERLINK("http://x.example","ok")'


def several(path: Path, names: list[str] | None = None) -> pd.DataFrame:
    """Save a run that predicts three numbers, and return its inputs."""
    random = np.random.default_rng(0)
    x = pd.DataFrame(random.normal(size=(60, 2)), columns=["a", "b"]).assign(c=["x", "y", "z"] * 20)
    y = np.column_stack([x["a"] * 100, x["b"], x["a"] - x["b"]])
    made = HighwayRegressor(depth=3, width=8, epochs=5, random_state=0)
    made.fit(x, pd.DataFrame(y, columns=names) if names else y).save(path)
    return x


@pytest.mark.parametrize("names", [None, ["price", "size", "=age"]], ids=["without names", "with names"])
def test_several_targets(names: list[str] | None, tmp_path: Path, highway: Highway) -> None:
    several(tmp_path / "run", names).head(5).to_csv(tmp_path / "new.csv", index=False)
    expected = load(tmp_path / "run").predict(tmp_path / "new.csv")
    called = names or ["target 1", "target 2", "target 3"]
    answers = json.loads(highway("predict", "run", "new.csv", "--json").stdout)
    assert answers["targets"] == called
    assert [list(answer["prediction"]) for answer in answers["predictions"]] == [called] * 5
    np.testing.assert_array_equal([list(answer["prediction"].values()) for answer in answers["predictions"]], expected)
    rows = list(csv.DictReader(io.StringIO(highway("predict", "run", "new.csv", "--csv", "--keep", "c").stdout)))
    assert list(rows[0]) == ["input", "c", *(f"prediction of {name}" for name in called)]
    np.testing.assert_array_equal([[float(cell) for cell in list(row.values())[2:]] for row in rows], expected)
    assert highway("predict", "run", "new.csv", "--out", "out.parquet").returncode == 0
    stored = pq.read_table(tmp_path / "out.parquet")
    np.testing.assert_array_equal(np.column_stack([stored[f"prediction of {name}"].to_numpy() for name in called]), expected)
    assert highway("predict", "run", "new.csv", "--out", "out.jsonl").returncode == 0
    lines = [json.loads(line)["prediction"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == [answer["prediction"] for answer in answers["predictions"]]
    shown = highway("predict", "run", "new.csv").stdout
    assert all(name in shown for name in called)
    assert f"{expected[0, 0]:.6g}" in shown


@pytest.mark.parametrize("to", ["onnx", "torch"])
def test_shapes_of_several_targets_in_exported_files(to: Any, tmp_path: Path) -> None:
    several(tmp_path / "run", ["price", "size", "age"])
    about = export(tmp_path / "run", tmp_path / "file", to).about
    assert about["outputs"] == {"prediction": "float64 (batch, 3): price, size, age"}
    assert about["targets"] == ("price", "size", "age")


def cells_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_formulas_become_texts_unless_a_program_reads_them(tmp_path: Path, highway: Highway) -> None:
    columns = clean(60)
    columns["y"] = [{"yes": FORMULA, "no": "-no"}[label] for label in columns["y"]]
    columns["@note"] = [FORMULA, "+41 79 1", "-5", "plain", "\tx", "-2,5", *["@a", "＝1"] * 27]
    written(tmp_path / "set.csv", columns)
    done = highway("train", "--data", "set.csv", "--target", "y", "--ignore", "@note", *QUICK, "--out", "run")
    assert done.returncode == 0, done.stderr
    written(tmp_path / "-new.csv", columns)
    for arguments in (("--csv",), ("--out", "out.csv")):
        told = highway("predict", "run", "./-new.csv", "--keep", "@note", *arguments)
        assert told.returncode == 0, told.stderr
        header, *rows = cells_of(told.stdout or (tmp_path / "out.csv").read_text())
        assert header == ["input", "'@note", "class", "probability", "probability of -no", f"probability of {FORMULA}"]
        assert [row[1] for row in rows[:8]] == [f"'{FORMULA}", "'+41 79 1", "-5", "plain", "x", "-2,5", "'@a", "'＝1"]
        assert {row[2] for row in rows} <= {f"'{FORMULA}", "'-no"}
        assert rows[0][0] == "'-new.csv:1"
        assert all(cell[0] not in "=+@-" for row in rows for cell in row[:3] if cell not in {"-5", "-2,5"})
    header, *rows = cells_of(highway("predict", "run", "./-new.csv", "--keep", "@note", "--csv", "--raw").stdout)
    assert (header[1], rows[0][0], rows[0][1]) == ("@note", "-new.csv:1", FORMULA)
    assert {row[2] for row in rows} <= {FORMULA, "-no"}
    answers = json.loads(highway("predict", "run", "./-new.csv", "--keep", "@note", "--json").stdout)["predictions"]
    assert answers[0]["kept"] == {"@note": FORMULA}
    refused = highway("predict", "run", "./-new.csv", "--json", "--raw")
    assert (refused.returncode, refused.stderr) == (2, "highway: --raw: only texts in CSV are changed; leave it out, or add --csv\n")


def changed(columns: dict[str, list[Any]], **changes: list[Any] | None) -> dict[str, list[Any]]:
    """The columns with others, without those that are None."""
    return {name: values for name, values in (columns | changes).items() if values is not None}


def test_bad_tables_are_one_sentence(tmp_path: Path, highway: Highway) -> None:
    good = clean(60)
    tables = {
        "empty.csv": {name: [] for name in good},
        "one.csv": changed(good, y=["yes"] * 60),
        "text.csv": changed(good, a=["old", *good["a"][1:]]),
        "missing.csv": changed(good, b=None),
        "renamed.csv": {{"b": "bb"}.get(name, name): values for name, values in good.items()},
    }
    for name, columns in (tables | {"good.csv": good}).items():
        written(tmp_path / name, columns)
    (tmp_path / "nothing.csv").write_text("")
    assert highway("train", "--data", "good.csv", "--target", "y", *QUICK, "--out", "run").returncode == 0
    before = sorted(path.name for path in tmp_path.iterdir())
    train = ("train", "--target", "y", *QUICK, "--out", "new", "--data")
    cases = [
        ((*train, "nothing.csv"), "nothing.csv is empty"),
        ((*train, "empty.csv"), "empty.csv has columns, but no rows: add some"),
        ((*train, "one.csv"), "one.csv: the target 'y' is 'yes' in all rows: at least two classes are needed"),
        (("predict", "run", "empty.csv", "--csv"), "empty.csv has columns, but no rows"),
        (("predict", "run", "nothing.csv", "--csv"), "nothing.csv is empty"),
        (("predict", "run", "text.csv", "--csv"), "text.csv, column 'a', row 1: 'old' where the training data had numbers"),
        (("predict", "run", "missing.csv", "--csv"), "missing.csv has no column 'b', which the training data had: add it"),
        (("predict", "run", "renamed.csv", "--csv"), "has no column 'b', which the training data had: add it, or rename 'bb' to it"),
        (("predict", "run", "good.csv", "--keep", "ages"), "unknown column of good.csv 'ages'"),
        (("export", "run", "--out", "none/file.onnx"), "cannot write none/file.onnx: there is no folder none; create it first"),
        (("export", "run", "--out", "."), "cannot write .: it is a folder; name a file"),
    ]
    for arguments, sentence in cases:
        refused = highway(*arguments)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), (arguments, refused.stderr)
        assert sentence in refused.stderr
        assert "Traceback" not in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_names_of_files_that_are_not_utf8(tmp_path: Path, highway: Highway) -> None:
    several(tmp_path / "run").head(2).to_csv(tmp_path / os.fsdecode(b"caf\xe9.csv"), index=False)
    for form, name in (("--json", "caf\\\\udce9.csv"), ("--csv", "caf\\udce9.csv")):
        told = highway("predict", "run", os.fsdecode(b"caf\xe9.csv"), form)
        assert (told.returncode, name in told.stdout) == (0, True), told.stderr
