"""Predicting for files piece by piece: the same answers as for the whole, in memory that does not grow, and bad samples left out."""

import csv
import gzip
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from exporting.made_models import model_of, preset_model, shaken
from exporting.test_tables import ROWS, table_model
from highwaynet import InputError, NetworkSpec, TrainedModel, build_network
from highwaynet.data import new_samples, table_pieces, text_rows
from highwaynet.data.table_files import read_table


def written(path: Path, rows: int, seed: int = 0, sep: str = ",") -> Path:
    """A table with the columns of `ROWS`, cells drawn from them, and two columns that the run does not know."""
    draw = random.Random(seed)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, delimiter=sep)
        writer.writerow(["id", *ROWS, "new"])
        for row in range(rows):
            cells = ["" if (value := draw.choice(values)) is None else value for values in ROWS.values()]
            writer.writerow([f"r{row}", *cells, draw.random()])
    return path


def gathered(model: TrainedModel, *paths: Path, **options: Any) -> tuple[list[str], np.ndarray, list[str]]:
    pieces = list(model.stream(list(paths), **options))
    return (
        [name for piece in pieces for name in piece.names],
        np.concatenate([piece.answers for piece in pieces]),
        [sentence for piece in pieces for sentence in piece.skipped],
    )


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_pieces_of_a_table_equal_the_whole(task: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = table_model(task)
    path = written(tmp_path / f"data{suffix}", 1100, sep="\t" if suffix == ".tsv" else ",")
    if suffix == ".csv.gz":
        path.write_bytes(gzip.compress(path.read_bytes()))
    if suffix == ".parquet":
        text = list(csv.DictReader(path.read_text().splitlines()))
        columns = {name: [row[name] or None for row in text] for name in text[0]}
        columns |= {name: [None if cell is None else float(cell) for cell in columns[name]] for name in ("age", "price (€)")}
        pq.write_table(pa.table(columns), path, row_group_size=300)
    whole = read_table(path)
    monkeypatch.setattr(table_pieces, "ROWS", 256)
    pieces = list(model.stream(path, keep=["id", "town"]))
    assert [len(piece.names) for piece in pieces] == [256, 256, 256, 256, 76]
    np.testing.assert_array_equal(np.concatenate([piece.answers for piece in pieces]), model.predict(whole))
    np.testing.assert_array_equal(model.predict(path), model.predict(whole))
    assert [name for piece in pieces for name in piece.names] == [f"{path}:{row}" for row in range(1, 1101)]
    assert [cell for piece in pieces for cell in piece.kept["id"]] == [f"r{row}" for row in range(1100)]
    assert [cell for piece in pieces for cell in piece.kept["town"]] == whole.column("town").written()


def test_memory_does_not_grow_with_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_pieces, "ROWS", 256)
    monkeypatch.setattr(text_rows, "START_BYTES", 1000)
    model, peaks = table_model(), []
    for rows in (1_000, 5_000):
        path = written(tmp_path / "data.csv", rows)
        next(model.stream(path))
        tracemalloc.start()
        assert sum(len(piece.names) for piece in model.stream(path)) == rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_rows_that_cannot_be_read_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_pieces, "ROWS", 4)
    model = table_model()
    lines = written(tmp_path / "good.csv", 12).read_text().splitlines()
    bad = {3: "1,2,3", 6: lines[6].replace(lines[6].split(",")[1], "old", 1), 9: lines[9].replace(lines[9].split(",")[1], "inf", 1)}
    for row in (6, 9):
        cells = lines[row].split(",")
        cells[1] = {6: "old", 9: "inf"}[row]
        bad[row] = ",".join(cells)
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(bad.get(row, line) for row, line in enumerate(lines)) + "\n")
    names, answers, skipped = gathered(model, path, skip_bad=True)
    kept = [row for row in range(1, 13) if row not in bad]
    assert names == [f"{path}:{row}" for row in kept]
    assert answers.tolist() == model.predict(tmp_path / "good.csv")[[row - 1 for row in kept]].tolist()
    assert skipped == [
        f"{path}, row 3: 3 fields, but the header has 9",
        f"{path}, column 'age', row 6: 'old' where the training data had numbers",
        f"{path}, column 'age', row 9: the number is infinite",
    ]
    for number, sentence in ((3, "row 3: 3 fields, but the header has 9; correct the row"), (6, "row 6: 'old' where")):
        path.write_text("\n".join(bad[row] if row == number else line for row, line in enumerate(lines)) + "\n")
        with pytest.raises(InputError, match=sentence):
            gathered(model, path)


def test_many_rows_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    first, *lines = written(tmp_path / "good.csv", 3).read_text().splitlines()
    path.write_text("\n".join([first, *["1,2"] * 5000, *lines, "1,2"]) + "\n")
    (piece,) = table_model().stream(path, skip_bad=True)
    assert (len(piece.names), piece.skipped_count) == (3, 5001)
    assert piece.skipped == [f"{path}, row {row}: 2 fields, but the header has 9" for row in range(1, 101)]


def test_decimal_commas_do_not_depend_on_the_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_pieces, "ROWS", 1)
    model = table_model(rows={"n": [1.5, 2.5, 4.0], "c": ["1,5", "x", "y"]})
    path = tmp_path / "data.csv"
    path.write_text("n;c\n1,5;1,5\n2.5;x\n4;1,5\n")
    expected = model.predict({"n": np.array([1.5, 2.5, 4.0]), "c": ["1,5", "x", "1,5"]})
    assert gathered(model, path)[1].tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n", "has columns, but no rows: add some"),
        ("", "is empty: it should start with the column names"),
        ("a\n1\n", "has no column 'b', which the training data had: add it$"),
        ("a,B,c\n1,x,2\n", "has no column 'b', which the training data had: add it, or rename 'B' to it"),
        ("a,b\nold,x\n", "column 'a', row 1: 'old' where the training data had numbers; correct it or leave it empty"),
    ],
)
def test_tables_that_do_not_fit(text: str, sentence: str, tmp_path: Path) -> None:
    model = table_model(rows={"a": [1.0, 2.0, 3.0], "b": ["x", "y", "x"]})
    (tmp_path / "new.csv").write_text(text)
    with pytest.raises(InputError, match=sentence):
        gathered(model, tmp_path / "new.csv")


def features_model() -> TrainedModel:
    network = build_network(NetworkSpec(name="fc-highway", depth=4, width=10), (5,), 3, generator=torch.Generator().manual_seed(0))
    return model_of(shaken(network), kind="features")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_arrays(dtype: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_samples, "CHUNK_BYTES", 2**13)
    model = features_model()
    rows = np.random.default_rng(0).normal(scale=3, size=(1000, 5)).astype(dtype)
    np.save(tmp_path / "rows.npy", rows)
    names, answers, _ = gathered(model, tmp_path / "rows.npy")
    assert len(list(model.stream(tmp_path / "rows.npy"))) > 1
    assert names[-1] == f"{tmp_path / 'rows.npy'}:1000"
    assert answers.tolist() == model.predict(rows).tolist()


def test_rows_of_arrays_that_are_not_finite(tmp_path: Path) -> None:
    model, rows = features_model(), np.ones((600, 5))
    rows[[3, 500], 2] = np.nan, 1e300
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(InputError, match=r"not a finite float32 number in row 3 \(counted from 0\)"):
        gathered(model, tmp_path / "rows.npy")
    names, answers, skipped = gathered(model, tmp_path / "rows.npy", skip_bad=True)
    assert len(names) == len(answers) == 598
    assert skipped == [f"{tmp_path / 'rows.npy'}, row {row}: a value is not a finite number" for row in (4, 501)]


def test_images_folders_and_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_samples, "SAMPLES", 4)
    monkeypatch.chdir(tmp_path)
    model, random_ = preset_model("fc-highway"), np.random.default_rng(0)
    pixels = random_.integers(0, 256, (10, 28, 28), dtype=np.uint8)
    Path("new").mkdir()
    for number, picture in enumerate(pixels):
        Image.fromarray(picture).save(f"new/{number}.png")
    expected = model.predict(pixels[:, None]).tolist()
    assert gathered(model, Path("new"))[1].tolist() == expected
    Path("list.txt").write_text("new/3.png\n\nnew/1.png\nnew\n")
    names, answers, _ = gathered(model, Path("list.txt"))
    assert names[:2] == ["new/3.png", "new/1.png"]
    assert answers.tolist() == [expected[3], expected[1], *expected]
    Path("new/4.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"new/4.png is not a PNG, JPEG or WebP image that can be read: replace it, or skip"):
        gathered(model, Path("new"))
    names, answers, skipped = gathered(model, Path("new"), skip_bad=True)
    assert answers.tolist() == expected[:4] + expected[5:]
    assert skipped == ["new/4.png is not a PNG, JPEG or WebP image that can be read"]
    Path("list.txt").write_text("new/3.png\nnowhere.png\n")
    with pytest.raises(InputError, match=r"list.txt, line 2: nowhere.png: no such file or folder"):
        gathered(model, Path("list.txt"))
    Path("list.txt").write_text("\n")
    with pytest.raises(InputError, match=r"list.txt is empty: it should name a file in each line"):
        gathered(model, Path("list.txt"))
