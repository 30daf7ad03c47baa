"""Tables: what is read is what was written, damaged files are refused in one sentence, and encoding learns from training rows only."""

import csv
import gzip
import json
import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.data import table_files, tables, text_rows
from highwaynet.data.tables import Column, Table, TableEncoder, read_table, split_target

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PEOPLE = "age,town,member\n30,Bern,true\n,Ulm,false\n50,NA,true\n"


def written(folder: Path, content: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parquet(folder: Path, columns: dict[str, Any], name: str = "data.parquet") -> Path:
    path = folder / name
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
    return path


def plain(table: Table) -> dict[str, tuple[str, list[Any]]]:
    """Kinds and values, None for missing: comparable."""
    return {
        column.name: (column.kind, [None if gap else value for value, gap in zip(column.values.tolist(), column.missing(), strict=True)])
        for column in table.columns
    }


def table_of(**columns: list[Any]) -> Table:
    """A table in memory: columns with a text are categories."""
    made = []
    for name, values in columns.items():
        if any(isinstance(value, str) for value in values):
            made.append(Column(name, "category", np.array(values, dtype=object)))
        else:
            made.append(Column(name, "number", np.array([math.nan if value is None else value for value in values], dtype=np.float64)))
    return Table(tuple(made), len(next(iter(columns.values()))), "data.csv")


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(str(path), path.name)


# Reading text


def test_values_kinds_and_gaps(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, PEOPLE))
    assert (table.rows, table.source) == (3, str(tmp_path / "data.csv"))
    assert plain(table) == {
        "age": ("number", [30.0, None, 50.0]),
        "town": ("category", ["Bern", "Ulm", None]),
        "member": ("category", ["true", "false", "true"]),
    }
    assert table.column("age").values.dtype == np.float64
    assert math.isnan(table.column("age").values[1])
    assert table.column("age").texts.tolist() == ["30", None, "50"]
    assert table.column("town").texts is None


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["data.csv", "data.tsv", "data.csv.gz", "DATA.CSV", "data.tsv.gz"])
def test_every_form_of_a_text_table_is_the_same_table(tmp_path: Path, sign: str, end: str, mark: bytes, name: str) -> None:
    content = mark + PEOPLE.replace(",", sign).replace("\n", end).encode()
    path = written(tmp_path, gzip.compress(content) if name.endswith(".gz") else content, name)
    assert plain(read_table(path)) == plain(read_table(written(tmp_path, PEOPLE, "reference.csv")))


def test_quoted_fields(tmp_path: Path) -> None:
    path = written(tmp_path, 'name;"a;b,c,d,e"\r\n"say ""hi""";1,5\r\n"two\r\nlines";"x;y"\r\n"ü€😀";z\r\n')
    assert plain(read_table(path)) == {
        "name": ("category", ['say "hi"', "two\r\nlines", "ü€😀"]),
        "a;b,c,d,e": ("category", ["1,5", "x;y", "z"]),
    }


def test_space_around_cells_and_empty_lines_do_not_count(tmp_path: Path) -> None:
    path = written(tmp_path, "\n\n a , two\twords ,c\n 1 , ? , x \n\n2,y,x\n\n")
    assert plain(read_table(path)) == {
        "a": ("number", [1.0, 2.0]),
        "two words": ("category", [None, "y"]),
        "c": ("category", ["x", "x"]),
    }


def test_one_column(tmp_path: Path) -> None:
    assert plain(read_table(written(tmp_path, 'a\n1\n""\n3\n'))) == {"a": ("number", [1.0, None, 3.0])}
    assert plain(read_table(written(tmp_path, "a\nx, y\nz\n"))) == {"a": ("category", ["x, y", "z"])}


@pytest.mark.parametrize("gap", ["", " ", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"])
def test_missing(tmp_path: Path, gap: str) -> None:
    table = read_table(written(tmp_path, f"n,c\n1,x\n{gap},{gap}\n"))
    assert plain(table) == {"n": ("number", [1.0, None]), "c": ("category", ["x", None])}


@pytest.mark.parametrize("text", ["0", "-1", "+2", "3.", ".5", "-0.25", "1e3", "1.5E-7", "007", "9007199254740993"])
def test_numbers(tmp_path: Path, text: str) -> None:
    assert plain(read_table(written(tmp_path, f"n,m\n{text},1\n"))) == {"n": ("number", [float(text)]), "m": ("number", [1.0])}


@pytest.mark.parametrize(
    "text", ["1_000", "١", "0x10", "1e", ".", "-", "1,5,2", "5 kg", "NAN", "-nan", "infinite", "1 2", "e5", "2020-01-01"]
)
def test_other_texts_are_categories_also_where_python_would_take_them_for_numbers(tmp_path: Path, text: str) -> None:
    assert plain(read_table(written(tmp_path, f"n;m\n{text};1\n2;1\n")))["n"] == ("category", [text, "2"])


def test_booleans_are_categories_however_they_are_spelt(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a,b\nTrue,1\nFALSE,1\ntrue,1\nFalse,1\nTRUE,1\n"))
    assert plain(table)["a"] == ("category", ["true", "false", "true", "false", "true"])


REFUSED = {
    "empty": ("", "data.csv is empty: it should start with the column names"),
    "empty lines": ("\n\r\n\n", "data.csv is empty: it should start with the column names"),
    "only a mark": ("\ufeff", "data.csv is empty: it should start with the column names"),
    "no rows": ("a,b\n", "data.csv has columns, but no rows"),
    "no header": ("5,0,0.5\n4,0,0.25\n", "data.csv has no header: it starts with numbers ('5', …) instead of column names"),
    "no header, two numbers": (
        "0.5,1.5,x\n1,2,y\n",
        "data.csv has no header: its first line has numbers ('0.5', …) instead of column names",
    ),
    "no header, texts": ("M,5,0.5,7\nF,4,1,9\n", "add a header, or train with --no-header (data.header = false)"),
    "ragged": ("a,b,c,d,e\n" + "1,2,3,4,5\n" * 6 + "1,2,3,4\n", "data.csv, row 7: 4 fields, but the header has 5"),
    "too many fields": ("a,b\n1,2\n1,2,3\n", "data.csv, row 2: 3 fields, but the header has 2"),
    "nameless": ("a,,c\n1,2,3\n", "data.csv: column 2 has no name; give it one, or remove it"),
    "twice": ("a,b,a\n1,2,3\n", "data.csv: 2 columns have the name 'a'; rename or remove them"),
    "twice after trimming": ("a, a\n1,2\n", "data.csv: 2 columns have the name 'a'; rename or remove them"),
    "NUL": ("a,b\n1,\0\n", "data.csv: byte 6 is NUL"),
    "not UTF-8": (b"a,b\nx,caf\xe9\n", "data.csv: it is not UTF-8 text (byte 9)"),
    "not UTF-8, far": (b"\xef\xbb\xbfa,b\n" + b"\xc3\xa9,1\n" * 9000 + b"\xff,1\n", f"it is not UTF-8 text (byte {3 + 4 + 5 * 9000})"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), "data.csv: byte 3 is NUL"),
    "cut character": ("a,b\n1,€".encode()[:-1], "data.csv: it is not UTF-8 text (byte 6)"),
    "open quote": ('a,b\n1,"x\n2,y\n', "data.csv, line 3: unexpected end of data; is a quotation mark wrong?"),
    "text after quote": ('a,b\n1,"x"y\n', "data.csv, line 2: ',' expected after '\"'; is a quotation mark wrong?"),
    "long field": ("a,b\n1," + "x" * (csv.field_size_limit() + 1) + "\n", "data.csv, line 2: field larger than field limit"),
    "infinite": ("a,b\n1,1\n2,-inf\n", "data.csv, row 2: 'b' is infinite; correct it or leave it empty"),
    "beyond floats": ("a,b\n1e999,1\n", "data.csv, row 1: 'a' is infinite; correct it or leave it empty"),
    "columns": (",".join(f"c{number}" for number in range(10_001)), "data.csv is too large: 10,001 columns, the limit is 10,000"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: Path, case: str) -> None:
    content, sentence = REFUSED[case]
    assert sentence in refused(written(tmp_path, content))


def test_infinity_among_texts_is_a_text(tmp_path: Path) -> None:
    assert plain(read_table(written(tmp_path, "a,b\ninf,1\nx,1\n")))["a"] == ("category", ["inf", "x"])


def test_numbers_may_name_columns_in_order(tmp_path: Path) -> None:
    for header in ("2019,2020,2021", "4000.5,3999,400", "0,1,2"):
        assert list(plain(read_table(written(tmp_path, f"{header}\n1,2,3\n")))) == header.split(",")


def test_ten_thousand_columns_are_read(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(10_000)]
    table = read_table(written(tmp_path, ",".join(names) + "\n" + ",".join("7" for _ in names) + "\n"))
    assert [column.name for column in table.columns] == names
    assert table.columns[-1].values.tolist() == [7.0]


def test_limits_of_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, stored = written(tmp_path, "a,b\n" + "1,2\n" * 50), parquet(tmp_path, {"a": [1.5] * 50, "b": ["x"] * 50})
    monkeypatch.setattr(table_files, "MOST_CELLS", 100)
    assert (read_table(text).rows, read_table(stored).rows) == (50, 50)
    monkeypatch.setattr(table_files, "MOST_CELLS", 99)
    assert refused(text) == "data.csv is too large: more than 49 rows of 2 cells, the limit is 99; use fewer rows or columns"
    assert refused(stored) == "data.parquet is too large: 100 cells, the limit is 99; use fewer rows or columns"
    monkeypatch.setattr(text_rows, "MOST_CHARACTERS", 3)
    assert "has a line of more than 3 characters" in refused(text)
    monkeypatch.setattr(table_files, "MOST_BYTES", 203)
    assert refused(text) == "data.csv is too large: 204 bytes, the limit is 203; use fewer rows or columns"
    packed = written(tmp_path, gzip.compress(text.read_bytes()), "data.csv.gz")
    assert "too many bytes after decompression, the limit is 203" in refused(packed)
    assert "data.parquet is too large" in refused(stored)


def test_a_parquet_file_that_is_small_only_because_it_is_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path, {"a": np.arange(5000) % 7 + 0.5, "b": ["x" * 20_000] * 5000})
    monkeypatch.setattr(table_files, "MOST_BYTES", path.stat().st_size)
    assert "bytes after decompression" in refused(path)
    monkeypatch.undo()
    table = read_table(path)  # 100 MB as single texts
    assert len({id(text) for text in table.column("b").values}) == 1


def test_a_file_that_is_none(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.csv") == "cannot read none.csv: no such file or directory"
    (tmp_path / "folder.csv").mkdir()
    assert refused(tmp_path / "folder.csv") == "cannot read folder.csv: it is not a file"
    os.mkfifo(tmp_path / "pipe.csv")  # opening it would wait for ever
    assert refused(tmp_path / "pipe.csv") == "cannot read pipe.csv: it is not a file"
    assert "its name should end in .csv, .tsv, .csv.gz, .tsv.gz or .parquet" in refused(written(tmp_path, "a\n1\n", "data.xlsx"))


def test_damaged_compression(tmp_path: Path) -> None:
    good = gzip.compress(PEOPLE.encode())
    for bad in (good[:-10], good[:5], b"age,town\n1,2\n", good[:20] + bytes([good[20] ^ 255]) + good[21:], good + b"more"):
        assert "its compression is damaged" in refused(written(tmp_path, bad, "data.csv.gz"))


def test_rows_to_predict_for_may_have_columns_without_values(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "n,c,y\n,,?\n"))
    assert table.column("n").missing().all()
    encoder = TableEncoder.fit(table_of(n=[1.0, 3.0], c=["a", "b"]))
    assert encoder.encode(table).tolist() == [[0, 0, 0]]


# Reading Parquet


def test_signalling_nans_are_gaps(tmp_path: Path) -> None:
    """Parquet can store a NaN with which every calculation warns; warnings fail tests here."""
    values = np.array([1.5, 2.5, 3.5, 0.0])
    values.view(np.uint64)[3] = 0x7FF0000000000001
    table = read_table(parquet(tmp_path, {"a": values, "b": ["x", "y", "x", "y"]}))
    encoder = TableEncoder.fit(table)
    quiet = read_table(parquet(tmp_path, {"a": np.array([1.5, 2.5, 3.5, np.nan]), "b": ["x", "y", "x", "y"]}, "quiet.parquet"))
    assert np.array_equal(encoder.encode(table), encoder.encode(quiet))


def test_parquet_equals_csv(tmp_path: Path) -> None:
    random.seed(0)
    columns: dict[str, list[Any]] = {
        "whole": [random.choice([None, -3, 0, 2**40]) for _ in range(200)],
        "real": [random.choice([None, random.gauss(0, 1e5)]) for _ in range(200)],
        "text": [random.choice([None, "a b", "ü,;", 'say "hi"', "two\nlines"]) for _ in range(200)],
        "flag": [random.choice([None, True, False]) for _ in range(200)],
        "code": [random.choice(["01", "2", "3.0"]) for _ in range(200)],
    }
    path = tmp_path / "data.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    from_text, from_parquet = read_table(path), read_table(parquet(tmp_path, columns))
    assert plain(from_text) == plain(from_parquet)
    assert [column.kind for column in from_text.columns] == ["number", "number", "category", "category", "number"]
    assert from_text.column("code").texts.tolist() == from_parquet.column("code").texts.tolist() == columns["code"]
    first, second = TableEncoder.fit(from_text), TableEncoder.fit(from_parquet)
    assert first == second
    assert np.array_equal(first.encode(from_text), first.encode(from_parquet))


def test_parquet_types(tmp_path: Path) -> None:
    columns = {
        "int8": pa.array([1, None, 3], pa.int8()),
        "uint64": pa.array([0, 2**63, None], pa.uint64()),
        "half": pa.array(np.array([0.5, 1, 2], np.float16)),
        "float": pa.array([0.1, None, math.nan], pa.float32()),
        "decimal": pa.array([1, 2, None], pa.int32()).cast(pa.decimal128(12, 2)),
        "string": pa.array(["x", None, "NA"]),
        "digits": pa.array(["1", None, "02"]),
        "large": pa.array([" x ", "y", None], pa.large_string()),
        "dictionary": pa.array(["7", None, "5"]).dictionary_encode(),
        "bool": pa.array([True, None, False]),
        "a": pa.array([1, 2, 3]),
        "a.b": pa.array(["p", "q", "r"]),
        "__index_level_0__": pa.array([5, 6, 7]),
    }
    assert plain(read_table(parquet(tmp_path, columns))) == {
        "int8": ("number", [1.0, None, 3.0]),
        "uint64": ("number", [0.0, 2.0**63, None]),
        "half": ("number", [0.5, 1.0, 2.0]),
        "float": ("number", [float(np.float32(0.1)), None, None]),
        "decimal": ("number", [1.0, 2.0, None]),
        "string": ("category", ["x", None, None]),
        "digits": ("number", [1.0, None, 2.0]),
        "large": ("category", ["x", "y", None]),
        "dictionary": ("category", ["7", None, "5"]),
        "bool": ("category", ["true", None, "false"]),
        "a": ("number", [1.0, 2.0, 3.0]),
        "a.b": ("category", ["p", "q", "r"]),
    }


def test_parquet_in_several_pieces(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    columns = {"n": list(range(1000)), "c": [f"t{number % 37}" for number in range(1000)]}
    pq.write_table(pa.table(columns), path, row_group_size=64)
    assert plain(read_table(path)) == {"n": ("number", columns["n"]), "c": ("category", columns["c"])}


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"long": pa.array([0, 1], pa.duration("us"))}, "the column 'long' has the type duration[us], not number, string, boolean or date"),
        ({"many": pa.array([[1], [2]])}, "the column 'many' has the type list<"),
        ({"raw": pa.array([b"x", b"y"])}, "the column 'raw' has the type binary"),
        ({"parts": pa.array([{"x": 1}, {"x": 2}])}, "the column 'parts' has the type struct<x: int64>"),
        ({"a": [1.0, math.inf]}, "data.parquet, row 2: 'a' is infinite"),
        ({"a": pa.array([], pa.int64())}, "data.parquet has columns, but no rows"),
        ({"a": [1], " ": [2]}, "column 2 has no name"),
        (pa.table([[1], [2]], names=["a", "a"]), "2 columns have the name 'a'"),
        (pa.table({}), "data.parquet is empty"),
    ],
    ids=lambda value: value.split("'")[1] if isinstance(value, str) and "'" in value else "",
)
def test_refused_parquet(tmp_path: Path, columns: Any, sentence: str) -> None:
    assert sentence in refused(parquet(tmp_path, columns))


def test_damaged_parquet(tmp_path: Path) -> None:
    good = parquet(tmp_path, {"a": [1, 2], "b": ["x", "y"]}).read_bytes()
    for bad in (b"", b"PAR1", good[: len(good) // 2], b"a,b\n1,2\n" * 10, good[:-8] + b"\xff\xff\xff\x7fPAR1"):
        assert "data.parquet: it is not a Parquet file, or it is damaged" in refused(written(tmp_path, bad, "data.parquet"))


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path, {"a": [1]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(HighwayError, match=r"pip install 'highwaynet\[tables\]'"):
        read_table(path)
    assert read_table(written(tmp_path, "a\n1\n")).rows == 1


def test_torch_and_pyarrow_are_not_imported(tmp_path: Path) -> None:
    path = written(tmp_path, PEOPLE)
    code = (
        "import sys; from pathlib import Path; from highwaynet.data.tables import read_table; read_table(Path(sys.argv[1]));"
        "sys.exit(bool({'torch', 'pyarrow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == 0


# Tables in memory


def test_select_and_without(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a,b\n01,x\n2,y\n,z\n"))
    chosen = table.select(np.array([2, 0]))
    assert (chosen.rows, plain(chosen)) == (2, {"a": ("number", [None, 1.0]), "b": ("category", ["z", "x"])})
    assert chosen.column("a").texts.tolist() == [None, "01"]
    assert list(plain(table.without("a"))) == ["b"]
    assert table.rows == table.without("a").rows == 3
    with pytest.raises(InputError, match=r"unknown column of .*data\.csv 'c'"):
        table.without("c")


# The target


def target_of(values: list[Any], task: Any = None) -> tuple[str, tuple[str, ...], list[Any], str]:
    rest, target = split_target(table_of(x=[0.5] * len(values), y=values), "y", task)
    assert [column.name for column in rest.columns] == ["x"]
    assert target.name == "y"
    return target.task, target.class_names, target.values.tolist(), str(target.values.dtype)


def test_the_task_follows_from_the_values() -> None:
    assert target_of(["b", "a", "b"]) == ("classification", ("a", "b"), [1, 0, 1], "int64")
    assert target_of([10.0, 2.0] * 3) == ("classification", ("2", "10"), [1, 0] * 3, "int64")
    assert target_of([-1.0, 1.0] * 3)[1] == ("-1", "1")
    assert target_of([1.0, 2.5] * 3) == ("regression", (), [1.0, 2.5] * 3, "float64")
    assert target_of([1.0, 2.0, 1.0, 2.0])[0] == "regression"  # two values are not fewer than half of four rows
    assert target_of([1.0, 2.0, 1.0, 2.0, 1.0])[0] == "classification"
    assert target_of([float(number % 20) for number in range(100)])[0] == "classification"
    assert target_of([float(number % 21) for number in range(100)])[0] == "regression"


def test_the_task_can_be_chosen() -> None:
    assert target_of([1.0, 2.0] * 3, "regression") == ("regression", (), [1.0, 2.0] * 3, "float64")
    assert target_of([2.5, 1.0, -3.0, 1e20], "classification") == ("classification", ("-3", "1", "2.5", "1e+20"), [2, 1, 0, 3], "int64")
    assert target_of(["10", "9", "x"], "classification")[1] == ("10", "9", "x")
    assert target_of(["10", "9", "9"])[1] == ("9", "10")
    assert target_of([0.1], "regression")[2] == [0.1]


def test_a_target_that_does_not_do() -> None:
    table = table_of(height=[1.0, 2.0, 3.0], weight=[1.0, None, None], kind=["a", "b", "a"], same=["a"] * 3, large=[1.0, 1e39, 0.5])
    for name, task, sentence in (
        ("wieght", None, "unknown column of data.csv 'wieght': did you mean 'weight'? Allowed: height, weight, kind, same, large"),
        ("weight", None, "data.csv: the target 'weight' is missing in 2 of 3 rows, first in row 2; remove them"),
        ("kind", "regression", "data.csv: the target 'kind' has texts like 'a', which are not numbers: choose the task"),
        ("same", None, "data.csv: the target 'same' is 'a' in all rows: at least two classes are needed"),
        ("large", "regression", "data.csv: the target 'large' is too large in row 2 (1e+39): give it in another unit"),
    ):
        with pytest.raises(InputError) as caught:
            split_target(table, name, task)  # type: ignore[arg-type]
        assert str(caught.value).startswith(sentence)


# Encoding


def test_features_by_hand() -> None:
    train = table_of(n=[1.0, 3.0, 1.0, 3.0], gappy=[2.0, None, 6.0, None], same=[0.1] * 4, c=["b", "a", "b", "b"], d=["x", None, "y", "x"])
    encoder = TableEncoder.fit(train)
    assert encoder.feature_names == ("n", "gappy", "gappy is missing", "same", "c = a", "c = b", "d = x", "d = y", "d is missing")
    features = encoder.encode(train)
    assert features.dtype == np.float32
    assert features.tolist() == [
        [-1, -1, 0, 0, 0, 1, 1, 0, 0],
        [1, 0, 1, 0, 1, 0, 0, 0, 1],
        [-1, 1, 0, 0, 0, 1, 0, 1, 0],
        [1, 0, 1, 0, 0, 1, 1, 0, 0],
    ]
    # Unknown categories, gaps where training had none, a constant that moves, columns in another order and one too many.
    other = table_of(d=["z", None], c=["new", None], extra=["?", "!"], same=[2.1, None], gappy=[4.0, None], n=[None, 5.0])
    expected = [[0, 0, 0, 2, 0, 0, 0, 0, 0], [3, 0, 1, 0, 0, 0, 0, 0, 1]]
    assert encoder.encode(other) == pytest.approx(np.array(expected, np.float32))


def test_standardisation_equals_numpy_in_float64() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(1e6, 3.0, size=(500, 4))
    table = table_of(**{f"c{place}": values[:, place].tolist() for place in range(4)})
    expected = (values - values.mean(axis=0)) / values.std(axis=0)
    features = TableEncoder.fit(table).encode(table)
    # In float32 from the start, a value of a million would have an error of 0.03.
    assert np.abs(features - expected).max() < 1e-6
    assert features.mean(axis=0) == pytest.approx(0, abs=1e-6)
    assert features.std(axis=0) == pytest.approx(1, abs=1e-6)


def test_equal_values_are_not_divided_by_a_rounding_error() -> None:
    table = table_of(n=[0.1] * 3)
    assert table.column("n").values.std() > 0
    assert TableEncoder.fit(table).encode(table_of(n=[0.1, 1.1])).ravel().tolist() == [0, 1]
    tiny = table_of(n=[0.0, 5e-324])  # the square of this deviation is no float
    assert np.isfinite(TableEncoder.fit(tiny).encode(tiny)).all()


def test_statistics_come_from_training_rows_alone(tmp_path: Path) -> None:
    rows = [f"{number},{'abc'[number % 3]}" for number in range(40)]
    first = read_table(written(tmp_path, "n,c\n" + "\n".join(rows)))
    changed = rows[:30] + ["1e9,new", ",?"] * 5
    second = read_table(written(tmp_path, "n,c\n" + "\n".join(changed)))
    train = np.arange(30)
    one, two = (TableEncoder.fit(table.select(train)) for table in (first, second))
    assert one == two
    assert one.to_json()["columns"][0] == {
        "kind": "number",
        "name": "n",
        "mean": 14.5,
        "std": pytest.approx(math.sqrt((30**2 - 1) / 12)),
        "gaps": False,
    }
    assert np.array_equal(one.encode(first)[:30], two.encode(second)[:30])
    assert not np.array_equal(TableEncoder.fit(first).encode(first)[:30], one.encode(first)[:30])


def test_codes_count_as_they_are_written(tmp_path: Path) -> None:
    encoder = TableEncoder.fit(read_table(written(tmp_path, "c\n1\n01\n2.50\nA\n3\n")))
    assert encoder.feature_names == ("c = 01", "c = 1", "c = 2.50", "c = 3", "c = A")

    def names(path: Path) -> list[str | None]:
        table = read_table(path)
        found = [np.flatnonzero(row).tolist() for row in encoder.encode(table)]
        return [encoder.feature_names[places[0]].removeprefix("c = ") if places else None for places in found]

    codes = written(tmp_path, "c\n1\n01\n2.50\n3\n4\n3.0\n")
    assert read_table(codes).column("c").kind == "number"
    assert names(codes) == ["1", "01", "2.50", "3", None, "3"]
    # The same rows beside a text that makes it a category column: nothing changes.
    mixed = written(tmp_path, "c\n1\n01\n2.50\n3\n4\n3.0\nA\n")
    assert read_table(mixed).column("c").kind == "category"
    assert names(mixed) == ["1", "01", "2.50", "3", None, "3", "A"]
    assert names(parquet(tmp_path, {"c": [1, 3, 4]})) == ["1", "3", None]
    assert names(parquet(tmp_path, {"c": [1.0, 3.0, None]})) == ["1", "3", None]
    assert names(parquet(tmp_path, {"c": ["1", "01"]})) == ["1", "01"]
    chosen = read_table(codes).select(np.array([1, 0]))
    assert [row.argmax() for row in encoder.encode(chosen)] == [0, 1]


def test_booleans_of_both_formats_meet(tmp_path: Path) -> None:
    encoder = TableEncoder.fit(read_table(written(tmp_path, "b,n\nTrue,1\nFalse,2\n")))
    assert encoder.encode(read_table(parquet(tmp_path, {"b": [False, True], "n": [1, 1]})))[:, :2].tolist() == [[1, 0], [0, 1]]


def test_texts_for_numbers(tmp_path: Path) -> None:
    encoder = TableEncoder.fit(table_of(n=[1.0, 3.0]))
    with pytest.raises(InputError, match=r"data\.csv, column 'n', row 3: '5 kg' where the training data had numbers"):
        encoder.encode(read_table(written(tmp_path, "n\n1\n2\n5 kg\nx\n")))
    dictionary = {"n": pa.array(["3", None, "5"]).dictionary_encode()}
    assert encoder.encode(read_table(parquet(tmp_path, dictionary))).ravel().tolist() == [1, 0, 3]
    with pytest.raises(InputError, match="row 2: the number is infinite; correct it"):
        encoder.encode(table_of(n=["1", "-inf"]))


def test_tables_that_cannot_be_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = TableEncoder.fit(table_of(n=[1.0, 3.0], m=[1e-30, 2e-30]))
    with pytest.raises(InputError, match=r"data\.csv has no column 'm', which the training data had"):
        encoder.encode(table_of(n=[1.0]))
    with pytest.raises(InputError, match=r"column 'm', row 2: 1e\+10 is too far from the training data"):
        encoder.encode(table_of(n=[1.0, 1.0], m=[None, 1e10]))
    with pytest.raises(InputError, match=r"column 'm', row 1: 1e\+300"):
        encoder.encode(table_of(n=[1.0], m=[1e300]))
    monkeypatch.setattr(tables, "MOST_ENCODED", 5)
    with pytest.raises(InputError, match="6 numbers after encoding, the limit is 5"):
        encoder.encode(table_of(n=[1.0] * 3, m=[1e-30] * 3))


def test_tables_that_cannot_be_learned_from() -> None:
    texts = [f"id{number}" for number in range(1001)]
    assert len(TableEncoder.fit(table_of(c=texts[:1000])).feature_names) == 1000
    for columns, sentence in (
        ({"c": texts}, "data.csv: the column 'c' has 1,001 categories like 'id0', the limit is 1,000: leave it out with --ignore c, or"),
        ({"c": [*map(str, range(1001)), *["5 kg"] * 100]}, "data.csv: the column 'c' has 1,002 categories like '5 kg'"),
        ({"n": [None, None]}, "data.csv: no column is left to predict from, without 'n' (no values); name columns to use with data.use"),
        ({"n": [-1e308, 1e308, 1e308]}, "data.csv: the column 'n' has values too large to standardise (1e+308): give it in another unit"),
    ):
        with pytest.raises(InputError) as caught:
            TableEncoder.fit(table_of(**columns))
        assert str(caught.value).startswith(sentence)
    with pytest.raises(InputError, match=r"data\.csv has no columns to predict from"):
        TableEncoder.fit(table_of(y=[1.0]).without("y"))


# The encoder as JSON


def some_encoder() -> TableEncoder:
    return TableEncoder.fit(table_of(n=[0.1, 0.2, None], c=["ü", 'a "b"', None], m=[1e-300, 1e150, 1 / 3]))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.floats(-1e150, 1e150), min_size=1, max_size=5), st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=5))
def test_json_gives_the_same_encoder_back(numbers: list[float], texts: list[str]) -> None:
    encoder = TableEncoder.fit(table_of(n=numbers, c=texts))
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    assert again.feature_names == encoder.feature_names


def test_json_by_hand() -> None:
    assert TableEncoder.fit(table_of(n=[1.0, 5.0], c=["x", None])).to_json() == {
        "columns": [
            {"kind": "number", "name": "n", "mean": 3.0, "std": 2.0, "gaps": False},
            {"kind": "category", "name": "c", "categories": ["x"], "gaps": True},
        ]
    }


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        ((), {}, "columns: Field required"),
        ((), [], "should be an object"),
        ((), {1, 2}, "not valid JSON values"),
        (("columns",), [], "columns: "),
        (("columns",), "n", "columns: "),
        (("columns", 0, "std"), 0.0, "columns.0.number.std: Input should be greater than 0"),
        (("columns", 0, "std"), math.nan, "columns.0.number.std"),
        (("columns", 0, "mean"), math.inf, "columns.0.number.mean"),
        (("columns", 0, "mean"), "0.5", "columns.0.number.mean"),
        (("columns", 0, "mean"), None, "columns.0.number.mean"),
        (("columns", 0, "kind"), "category", "columns.0.category.categories: Field required"),
        (("columns", 0, "kind"), "date", "columns.0"),
        (("columns", 0, "gaps"), 2, "columns.0.number.gaps"),
        (("columns", 0, "a\nb"), 2, "columns.0.number.a b: Extra inputs"),
        (("columns", 1, "categories"), [], "columns.1.category.categories"),
        (("columns", 1, "categories"), ["b", "a"], "the categories should be sorted and unique"),
        (("columns", 1, "categories"), ["a", "a"], "the categories should be sorted and unique"),
        (("columns", 1, "categories"), [1, 2], "columns.1.category.categories.0"),
        (("columns", 1, "name"), "n", "two columns have the same name"),
    ],
)
def test_damaged_json(place: tuple[Any, ...], value: Any, reason: str) -> None:
    values: Any = some_encoder().to_json()
    if not place:
        values = value
    else:
        inner = values
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
    with pytest.raises(InputError) as caught:
        TableEncoder.from_json(values)
    assert str(caught.value).startswith("the description of the table's columns is damaged (")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


# Damaged files: a table or a sentence, soon


def read_or_refuse(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    start, table, sentence = time.process_time(), None, ""
    try:
        table = read_table(path)
    except InputError as error:
        sentence = str(error)
    assert "\n" not in sentence
    if table is not None:
        assert table.rows >= 1
        assert all(len(column.values) == table.rows for column in table.columns)
        assert all(np.isfinite(column.values[~column.missing()]).all() for column in table.columns if column.kind == "number")
    assert time.process_time() - start < 60, "it hangs"  # seconds of this process alone, whatever runs beside it


fuzz = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
GOOD = ('\ufeffage;town;"a;b"\r\n30;Bern;1e5\r\n;Ulm;inf\r\n50;NA;"two\r\nlines"\r\n' + "7;ü€😀;-.5\r\n" * 5).encode()


@fuzz
@given(content=st.binary(max_size=400))
def test_random_bytes(tmp_path: Path, content: bytes) -> None:
    read_or_refuse(tmp_path / "data.csv", content)
    read_or_refuse(tmp_path / "data.csv.gz", content)
    read_or_refuse(tmp_path / "data.csv.gz", gzip.compress(content))


@fuzz
@given(content=st.text(st.sampled_from('ab1.-e+;,\t"\r\n ?\ufeff\0é\u2028\x85'), max_size=120))
def test_random_signs_of_tables(tmp_path: Path, content: str) -> None:
    read_or_refuse(tmp_path / "data.csv", content.encode())


@fuzz
@given(end=st.integers(0, len(GOOD)), changes=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=4))
def test_truncations_and_flips(tmp_path: Path, end: int, changes: list[tuple[int, int]]) -> None:
    content = bytearray(GOOD)
    for place, value in changes:
        content[place] = value
    read_or_refuse(tmp_path / "data.csv", bytes(content))
    read_or_refuse(tmp_path / "data.csv", bytes(content[:end]))


@fuzz
@given(seed=st.integers(0, 2**32))
def test_flips_in_parquet(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    content = bytearray(parquet(tmp_path, {"a": [1, None, 3], "b": ["x", "y", None], "c": [True, False, None]}).read_bytes())
    for _ in range(rng.randint(1, 4)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    read_or_refuse(tmp_path / "data.parquet", bytes(content))


@pytest.mark.parametrize("cell", ["1" * 130_000 + "x", "1." + "1" * 130_000, '"' + '""' * 60_000 + '"', "e" * 130_000])
def test_long_cells_take_no_time(tmp_path: Path, cell: str) -> None:
    read_or_refuse(tmp_path / "data.csv", f"a,b\n{cell},1\n{cell},2\n".encode())


def test_decimal_commas_of_spreadsheets_are_numbers_where_commas_do_not_separate(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("weight;kind\n2529,53;x\n-1,5;y\n3;x\n;y\n", encoding="utf-8-sig")
    column = read_table(tmp_path / "a.csv").column("weight").retyped()
    assert column.kind == "number"
    np.testing.assert_array_equal(column.values, [2529.53, -1.5, 3.0, np.nan])
    (tmp_path / "b.csv").write_text('weight,kind\n"2529,53",x\n"1,5",y\n')
    np.testing.assert_array_equal(read_table(tmp_path / "b.csv").column("weight").retyped().values, [2529.53, 1.5])
