"""What the columns of a table are: identifiers, dates, free text, constants and copies of the target, decided by training rows only."""

import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwaynet import DataSpec, InputError, NetworkSpec, RunSpec, TrainingSpec, load, load_dataset
from highwaynet.data.columns import recognise
from highwaynet.data.dates import EPOCH, DateForm, are_unclear_dates, days_in, form_of
from highwaynet.data.delimiters import delimiter_of
from highwaynet.data.table_files import read_table, table_of
from highwaynet.data.tables import TableEncoder
from highwaynet.training.loop import train

RNG = np.random.default_rng(0)
ROWS = 40
CLASSES = np.arange(ROWS) % 2
CLASSES[:3] = 1


def seen(values: Any, name: str = "c", targets: Any = None, use: tuple[str, ...] = (), rows: int = ROWS) -> tuple[str, str | None]:
    """Kind and reason of one column of a table of forty rows."""
    task = "classification" if targets is None else "regression"
    targets = CLASSES[: len(values)] if targets is None else np.asarray(targets, dtype=np.float64)
    (found,) = recognise(table_of({name: values}), targets, task, rows=rows, use=use)
    return found.kind, found.reason


# Dates


@pytest.mark.parametrize(
    ("text", "form", "days"),
    [
        ("1970-01-01", "year first", 0),
        ("2024-12-31", "year first", 20088),
        ("2024/12/31", "day first", 20088),
        ("2024-12-31T12:00", "month first", 20088.5),
        ("2024-12-31 18:00:00.000000000", "year first", 20088.75),
        ("2024-12-31 06:00:00+06:00", "year first", 20088),
        ("2024-12-31T00:00:00Z", "year first", 20088),
        ("2024-12-31 00:00:00 UTC", "year first", 20088),
        ("2024-12-30T18:00:00-0600", "year first", 20088),
        ("31/12/2024", "day first", 20088),
        ("12/31/2024", "month first", 20088),
        ("31.12.2024", "day first", 20088),
        ("31-12-2024 06:00", "day first", 20088.25),
        ("12/31/2024 12:00 PM", "month first", 20088.5),
        ("12/31/2024, 12:00 am", "month first", 20088),
        ("1969-12-31", "year first", -1),
        ("06:00", "time", 0.25),
        ("6:00:36 PM", "time", 0.75 + 36 / 86400),
        ("31/12/2024", "month first", None),
        ("31/12/2024", "year first", None),
        ("2024-02-30", "year first", None),
        ("2024-12-31 24:00", "year first", None),
        ("2024-12-31 13:00 PM", "year first", None),
        ("2024-12/31", "year first", None),
        ("0000-01-01", "year first", None),
        ("12:60", "time", None),
        ("2024-12-31", "time", None),
        ("20241231", "year first", None),
        ("31/12/24", "day first", 20088),
        ("12/31/99", "month first", 10956),
        ("31.12.68", "day first", 36159),
        ("1.2.69", "day first", -334),
        ("31-12-24", "day first", None),
        ("31/12/2", "day first", None),
        ("2024-12", "month", 20058),
        ("12/2024", "month", 20058),
        ("2024-13", "month", None),
        ("0000-01", "month", None),
        ("2024-12", "year first", None),
        ("2024-12-31", "month", None),
        ("٢٠٢٤-12-31", "year first", None),
    ],
)
def test_days_since_1970(text: str, form: DateForm, days: float | None) -> None:
    assert days_in(text, form) == (None if days is None else pytest.approx(days))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)))
def test_every_moment_is_read_as_it_is_written(moment: datetime) -> None:
    expected = moment.toordinal() - EPOCH + (moment - datetime.combine(moment.date(), datetime.min.time())).total_seconds() / 86400
    assert days_in(str(moment), "year first") == pytest.approx(expected, abs=1e-9)
    assert days_in(moment.isoformat(), "day first") == pytest.approx(expected, abs=1e-9)
    assert days_in(moment.strftime("%d.%m.%Y"), "day first") == moment.toordinal() - EPOCH
    assert days_in(moment.strftime("%m/%d/%Y"), "month first") == moment.toordinal() - EPOCH


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(st.sampled_from("0123456789-/.: TZ+APMm"), max_size=25))
def test_any_text_is_a_date_or_none(text: str) -> None:
    for form in ("year first", "day first", "month first", "time"):
        found = days_in(text, form)
        assert found is None or np.isfinite(found)


def test_the_order_of_day_and_month_follows_from_the_whole_column() -> None:
    assert form_of(["2024-12-31", None, "2024-01-01 10:00"]) == ("year first", False)
    assert form_of(["01/02/2024", "31/12/2024"]) == ("day first", False)
    assert form_of(["01/02/2024", "12/31/2024"]) == ("month first", False)
    assert form_of(["01/02/2024", None, "03/04/2024"]) == ("month first", True)
    assert form_of(["01.02.2024", "03.04.2024"]) == ("day first", True)
    assert form_of(["01-02-2024"]) == ("day first", True)
    assert form_of(["10:00", "11:30"]) == ("time", False)
    for texts in (["31/12/2024", "12/31/2024"], ["10:00", "2024-12-31"], ["2024-12-31", "soon"], [None], []):
        assert form_of(texts) is None


# Kinds


def test_identifiers() -> None:
    left_out = ("identifier", "identifier")
    assert seen([f"u{n:04}" for n in range(ROWS)]) == left_out
    assert seen([f"Anna{n} Smith" for n in range(ROWS)]) == left_out
    assert seen([f"u{n % 37}" for n in range(ROWS)]) == left_out  # 37 of 40 differ
    assert seen([f"u{n % 36}" for n in range(ROWS)]) == ("category", None)
    assert seen([f"u{n}" for n in range(19)]) == ("category", None)  # too few rows to tell
    assert seen([f"u{n}" for n in range(20)]) == left_out
    assert seen(RNG.permutation(ROWS) + 7) == left_out
    assert seen(RNG.permutation(ROWS) * 2) == ("number", None)
    assert seen(RNG.permutation(ROWS) * 2, rows=79) == left_out  # the training rows of 79
    for name in ("id", "customer_id", "PassengerId", "userID", "uuid", "key", "Row", "invoice number", "id_client"):
        assert seen(RNG.permutation(ROWS) * 1000, name) == left_out, name
    for name in ("humidity", "width", "income", "notes", "population", "1", "ü"):
        assert seen(RNG.permutation(ROWS) * 1000, name) == ("number", None), name
    assert seen(np.arange(ROWS) % 20, "id") == ("number", None)
    long = [str(2**60 + 50 * n) for n in range(ROWS)]  # as floats, many of them are equal
    assert seen(long, "id") == left_out


def test_measurements_are_not_identifiers() -> None:
    assert seen(RNG.normal(size=ROWS)) == ("number", None)
    assert seen(RNG.normal(size=ROWS), "id") == ("number", None)
    assert seen(RNG.permutation(ROWS) * 50.0) == ("number", None)
    assert seen([*(f"{value:.4f}" for value in RNG.normal(size=ROWS - 1)), "unknown"]) == ("number", None)
    assert seen([*(f"{value:.4f}" for value in RNG.normal(size=ROWS - 4)), *["low", "high"] * 2]) == ("category", None)


def test_free_text_constants_and_categories() -> None:
    assert seen([f"the customer said {n} words or so" for n in range(ROWS)]) == ("text", "free text")
    assert seen(["the customer said nothing"] * 20 + ["the customer did not come"] * 20) == ("category", None)
    assert seen(["a"] * ROWS) == ("constant", "constant")
    assert seen(np.full(ROWS, 0.1)) == ("constant", "constant")
    assert seen(["a"] * 39 + [None]) == ("category", None)  # whether it is missing may say something
    assert seen([None] * ROWS) == ("constant", "no values")
    assert seen([None] * ROWS, use=("c",)) == ("constant", "no values")
    assert seen(["a", "b", "c", "d"] * 10) == ("category", None)


def test_dates_come_before_identifiers() -> None:
    assert seen([str(date(2024, 1, 1) + timedelta(days=n)) for n in range(ROWS)]) == ("date", None)
    assert seen(np.datetime64("2024-01-01") + np.arange(ROWS)) == ("date", None)
    assert seen([datetime(2024, 1, 1, n % 24) for n in range(ROWS)]) == ("date", None)
    assert seen(["2024-01-01"] * ROWS) == ("constant", "constant")


def test_copies_of_the_target() -> None:
    copy = "copy of the target"
    assert seen(np.where(CLASSES, "yes", "no").tolist()) == ("category", copy)
    assert seen(CLASSES * 5) == ("number", copy)
    assert seen([None, *np.where(CLASSES, "yes", "no").tolist()[1:]]) == ("category", copy)
    almost = np.where(CLASSES, "yes", "no").tolist()
    assert seen(["no", *almost[1:]]) == ("category", None)
    assert seen(["a" if one else "bc"[n % 4 // 2] for n, one in enumerate(CLASSES)]) == ("category", None)  # finer than the target
    assert seen(almost[:19]) == ("category", None)  # chance
    numbers = RNG.normal(size=ROWS)
    assert seen(numbers * 2.2046 - 5, targets=numbers) == ("number", copy)
    assert seen(np.round(numbers, 3), targets=numbers) == ("number", None)
    assert seen(numbers**3, targets=numbers) == ("number", None)
    assert seen([f"{n % 5} stars" for n in range(ROWS)], targets=np.arange(ROWS) % 5 * 1.5) == ("category", copy)
    days = [str(date(2024, 1, 1) + timedelta(days=n**2)) for n in range(ROWS)]
    assert seen(days, targets=np.arange(ROWS) ** 2 * 3) == ("date", copy)


def test_columns_to_use() -> None:
    for values, kind in (
        ([f"u{n:04}" for n in range(ROWS)], "category"),
        (np.arange(ROWS), "number"),
        ([f"the customer said {n} words or so" for n in range(ROWS)], "category"),
        (["a"] * ROWS, "category"),
        (CLASSES * 5, "number"),
        ([str(date(2024, 1, 1) + timedelta(days=n)) for n in range(ROWS)], "date"),
    ):
        assert seen(values, use=("c",)) == (kind, None)


def test_an_encoder_with_dates_and_columns_left_out_by_hand() -> None:
    columns = {"when": ["01/01/1970", "31/01/1970", None] * 10, "id": [f"u{n}" for n in range(30)]}
    table = table_of(columns)
    encoder = TableEncoder.fit(table, recognise(table, CLASSES[:30], "classification", rows=30))
    assert encoder.to_json() == {
        "columns": [{"kind": "date", "name": "when", "form": "day first", "assumed": False, "mean": 15.0, "std": 15.0, "gaps": True}],
        "left_out": [{"name": "id", "kind": "identifier", "reason": "identifier"}],
    }
    assert TableEncoder.from_json(json.loads(json.dumps(encoder.to_json()))) == encoder
    assert encoder.feature_names == ("when", "when is missing")
    assert encoder.encode(table).tolist()[:3] == [[-1, 0], [1, 0], [0, 1]]
    assert encoder.encode(table_of({"when": ["1970-03-02", ""]})).tolist() == [[3, 0], [0, 1]]  # without the identifier
    with pytest.raises(InputError, match=r"column 'when', row 1: '12/31/1970' where the training data had dates, day first; correct it"):
        encoder.encode(table_of({"when": ["12/31/1970"]}))
    with pytest.raises(InputError, match=r"row 2: '7' where the training data had dates"):
        encoder.encode(table_of({"when": [None, 7.0]}))


# From files


def written(path: Path, columns: dict[str, list[Any]], sign: str = ",") -> Path:
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([sign.join(columns), *(sign.join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.mark.parametrize("sign", [",", ";"])
def test_a_text_in_a_test_row_does_not_change_the_training(tmp_path: Path, sign: str) -> None:
    values = [f"{value:.3f}".replace(".", "." if sign == "," else ",") for value in RNG.normal(size=100)]
    days = [str(date(2024, 1, 1) + timedelta(days=n)) for n in range(100)]
    columns: dict[str, list[Any]] = {"n": values, "when": days, "y": ["a", "b"] * 50}
    spec = DataSpec(name=str(written(tmp_path / "data.csv", columns, sign)), target="y")
    first = load_dataset(spec)
    commas = ["column 'n' is read as numbers: decimal commas"] if sign == ";" else []
    assert first.preparation.record.notes == ("column 'when' is a date, used as days since 1970", *commas)
    test = int(first.test.rows[0])
    values[test], days[test] = "unknown", "soon"
    written(tmp_path / "data.csv", columns, sign)
    again = load_dataset(spec)
    assert again.preparation.record.encoder == first.preparation.record.encoder
    assert again.preparation.record.notes[1 + len(commas) :] == (
        f"column 'n': 1 cell outside the training rows is not a number (first 'unknown' in row {test + 1}), and counts as missing",
        f"column 'when': 1 cell outside the training rows is not a date (first 'soon' in row {test + 1}), and counts as missing",
    )
    assert again.test.inputs[test].tolist() == [0, 0]
    rest = [row for row in range(100) if row != test]
    assert again.train.inputs[rest].equal(first.train.inputs[rest])
    assert load_dataset(spec, again.preparation).test.inputs.equal(again.test.inputs)
    for row in first.train.rows[:5].tolist():
        values[row] = "high"  # now the training rows say that it is no number column
    written(tmp_path / "data.csv", columns, sign)
    notes = load_dataset(spec).preparation.record.notes
    assert "column 'n' has texts like 'high' among numbers, so that it is used as categories" in notes or sign == ";"


def test_decisions_come_from_training_rows_only(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {"n": RNG.normal(size=100).round(3).tolist(), "same": ["x"] * 100, "y": ["a", "b"] * 50}
    spec = DataSpec(name=str(written(tmp_path / "data.csv", columns)), target="y")
    first = load_dataset(spec)
    assert first.preparation.record.encoder["left_out"] == [{"name": "same", "kind": "constant", "reason": "constant"}]
    columns["same"][int(first.test.rows[0])] = "other"
    written(tmp_path / "data.csv", columns)
    assert load_dataset(spec).preparation.record.encoder == first.preparation.record.encoder


def test_an_old_encoder_still_reads_its_table(tmp_path: Path) -> None:
    """A run from before dates and identifiers were recognised keeps its features."""
    columns: dict[str, list[Any]] = {"when": ["2024-01-01", "2024-01-02"] * 20, "same": [5] * 40, "y": ["a", "b", "b", "a"] * 10}
    table = read_table(written(tmp_path / "data.csv", columns)).without("y")
    old = {
        "columns": [
            {"kind": "category", "name": "when", "categories": ["2024-01-01", "2024-01-02"], "gaps": False},
            {"kind": "number", "name": "same", "mean": 5.0, "std": 1.0, "gaps": False},
        ]
    }
    encoder = TableEncoder.from_json(old)
    assert encoder.encode(table)[:2].tolist() == [[1, 0, 0], [0, 1, 0]]
    assert encoder.to_json() == old


@pytest.mark.parametrize(
    ("text", "header", "sign"),
    [
        ("a,b\n1,2\n", True, ","),
        ("a|b\n1|2\n", True, "|"),
        ("a b\n1 2\n", True, " "),
        ("  a   b\n 1.5  2\n", True, " "),
        ("two words\n1\n", True, "\t"),
        ("1,5;2,5;3,5\n1;2;3\n", False, ";"),
        ("1,5\t2\n1\t2,5\n", False, "\t"),
        ("Toy,Fun|Kids\nHeat,Crime\n", False, ","),
        ("1|2\n3|4\n", False, "|"),
        ('"a;b",1\nc,2\n', False, ","),
        ("1 2\n3 4\n", False, " "),
        ("", False, "\t"),
    ],
)
def test_delimiters(text: str, header: bool, sign: str) -> None:
    assert delimiter_of(text.encode(), header=header) == sign


def test_spaces_and_bars_and_files_of_pandas(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    for text in ("a   b  c\n  1  x  2.5 \n 10 y  3\n", "a|b|c\n1|x|2.5\n10|y|3\n", "a;b;c\n1;x;2,5\n10;y;3\n"):
        path.write_text(text)
        table = read_table(path)
        assert [column.name for column in table.columns] == ["a", "b", "c"]
        assert table.column("a").values.tolist() == [1, 10]
        assert table.column("b").values.tolist() == ["x", "y"]
        assert table.column("c").retyped().values.tolist() == [2.5, 3]
    path.write_text(",a\n0,5\n1,6\n")
    assert [column.name for column in read_table(path).columns] == ["index", "a"]


def test_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("3,x,0.5\n2,?,0.25\n")
    table = read_table(path, header=False)
    assert (table.rows, [column.name for column in table.columns]) == (2, ["column-1", "column-2", "column-3"])
    assert table.column("column-2").values.tolist() == ["x", None]
    path.write_text("3,x,0.5\n2,0.25\n")
    with pytest.raises(InputError, match="row 2: 2 fields, but the first line has 3"):
        read_table(path, header=False)


def test_dates_of_parquet(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    days = [date(2024, 1, 1) + timedelta(days=n * n) for n in range(ROWS)]
    moments = [datetime.combine(day, datetime.min.time()) + timedelta(hours=6) for day in days]
    columns = {
        "day": arrow.array(days),
        "moment": arrow.array(moments, arrow.timestamp("us")),
        "there": arrow.array(moments, arrow.timestamp("ns", tz="UTC")),
        "time": arrow.array([moment.time() for moment in moments]),
        "y": ["a", "b"] * 20,
    }
    parquet.write_table(arrow.table(columns), tmp_path / "data.parquet")
    encoder = load_dataset(DataSpec(name=str(tmp_path / "data.parquet"), target="y")).preparation.record.encoder
    assert [(rule["name"], rule["kind"], rule["form"]) for rule in encoder["columns"]] == [
        ("day", "date", "year first"),
        ("moment", "date", "year first"),
        ("there", "date", "year first"),
    ]
    assert encoder["columns"][1]["mean"] == pytest.approx(encoder["columns"][0]["mean"] + 0.25)
    assert encoder["columns"][2]["mean"] == pytest.approx(encoder["columns"][0]["mean"] + 0.25)
    assert encoder["left_out"] == [{"name": "time", "kind": "constant", "reason": "constant"}]


def test_dates_of_frames(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2024-01-01", periods=ROWS, freq="36h")
    columns: dict[str, Any] = {"a": RNG.normal(size=ROWS), "when": days, "y": np.where(CLASSES, "yes", "no")}
    frame = pandas.DataFrame(columns)
    record = load_dataset(data=(frame, "y")).preparation.record
    rule = record.encoder["columns"][1]
    assert (rule["name"], rule["kind"], rule["form"], rule["assumed"]) == ("when", "date", "year first", False)
    frame["when"] = days.tz_localize("Europe/Berlin")
    shifted = load_dataset(data=(frame, "y")).preparation.record.encoder["columns"][1]
    assert rule["mean"] - shifted["mean"] == pytest.approx(1 / 24, abs=1e-2)  # summer time comes in March
    frame["when"] = days
    spec = RunSpec(network=NetworkSpec(depth=3, width=8), training=TrainingSpec(epochs=1, batch_size=16))
    model = load(train(spec, tmp_path / "run", data=(frame, "y")))
    new = frame.drop(columns="y")
    assert model.predict(new).tolist() == model.predict({"a": columns["a"], "when": [str(day) for day in days]}).tolist()


def test_data_in_memory_with_settings() -> None:
    columns = {"id": [f"u{n}" for n in range(ROWS)], "a": RNG.normal(size=ROWS), "b": RNG.normal(size=ROWS), "y": CLASSES}
    record = load_dataset(DataSpec(ignore=["a"]), data=(columns, "y")).preparation.record
    assert [rule["name"] for rule in record.encoder["columns"]] == ["b"]
    record = load_dataset(DataSpec(ignore=["a"], use=["id"]), data=(columns, "y")).preparation.record
    assert record.input_shape == (record.train + 1,)
    for spec, data, sentence in (
        (DataSpec(header=False), (columns, "y"), r"data\.header: this is for \.csv files"),
        (DataSpec(ignore=["a"]), (np.zeros((40, 2)), CLASSES), r"data\.ignore: this is for tables, and the data are arrays"),
        (DataSpec(use=["a"]), (np.zeros((40, 2)), CLASSES), r"data\.use: this is for tables"),
    ):
        with pytest.raises(InputError, match=sentence):
            load_dataset(spec, data=data)


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["23/01/01", "23/01/15", "24/12/28"], None),
        (["23.01.01", "23.01.15", "24.12.28"], None),
        (["01/01/23", "15/01/23", "28/12/24"], ("day first", False)),
        (["12/31/24", "01/05/24"], ("month first", False)),
    ],
)
def test_years_of_two_digits_may_come_first(cells: list[str], form: tuple[str, bool] | None) -> None:
    assert form_of(cells) == form
    assert form is not None or are_unclear_dates(cells)


@pytest.mark.parametrize(
    "values",
    [
        [12.345],
        [12.345, 7],
        [Decimal("12.345")],
        [np.float64(12.345), None],
        [0.0],
        np.array([12.345, 7], dtype=object),
        [12.345, np.int64(3)],
    ],
    ids=repr,
)
def test_numbers_in_memory_are_not_read_as_written_ones(values: Any) -> None:
    column = table_of({"price": values}).columns[0]
    assert (column.kind, column.texts) == ("number", None)
    np.testing.assert_array_equal(column.values, np.array(values, dtype=np.float64))


def test_words_for_gaps_among_categories(tmp_path: Path) -> None:
    cells = ["red", "n/a", "none", "N/a", "NONE", "-", "", "red"]
    table = table_of({"c": cells})
    encoder = TableEncoder.fit(table)
    assert encoder.feature_names == ("c = -", "c = red", "c is missing")
    assert encoder.encode(table)[:, 2].tolist() == [0, 1, 1, 1, 1, 0, 1, 0]
    new = table_of({"c": ["none", "red"]})
    before = TableEncoder.from_json({"columns": [{"kind": "category", "name": "c", "categories": ["none", "red"], "gaps": True}]})
    assert before.encode(new).tolist() == [[1, 0, 0], [0, 1, 0]], "a run made before has it as a category"
    assert TableEncoder.fit(table_of({"c": ["none", "n/a"]})).feature_names == ("c = n/a", "c = none"), "nothing else is there"
    data = written(tmp_path / "data.csv", {"c": ["a", "b", "b", "a"] * 10, "y": ["none", "some"] * 20})
    assert load_dataset(DataSpec(name=str(data), target="y")).preparation.record.class_names == ("none", "some")


def test_several_currencies(tmp_path: Path) -> None:
    amounts = [f"{'$€'[row % 2]}{row}.{row % 7}" for row in range(100)]
    data = written(tmp_path / "data.csv", {"amount": amounts, "x": ["a", "b", "b"] * 33 + ["a"], "y": ["no", "yes"] * 50})
    notes = load_dataset(DataSpec(name=str(data), target="y")).preparation.record.notes
    why = "has numbers with several currencies or units (convert them to one)"
    assert notes == (f"left out column 'amount', which {why}; --use amount keeps it",)


def test_a_target_whose_values_all_differ(tmp_path: Path) -> None:
    data = written(tmp_path / "data.csv", {"x": ["a", "b"] * 20, "comment": [f"note {row}" for row in range(40)]})
    with pytest.raises(InputError, match=r"the target 'comment' has 40 different values in 40 rows: choose another column$"):
        load_dataset(DataSpec(name=str(data), target="comment"))
