"""Numbers as people write them: how they are recognised in the training rows, and read later."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwaynet import DataSpec, load_dataset
from highwaynet.base.errors import InputError
from highwaynet.data.columns import recognise
from highwaynet.data.number_forms import NumberForm, numbers_of
from highwaynet.data.table_files import Column
from highwaynet.data.tables import Table, TableEncoder, read_table, split_target

CLASSES = np.array([0, 1] * 20)


@pytest.mark.parametrize(
    ("cells", "numbers", "words"),
    [
        (["1,234", "2,345,678"], [1234, 2345678], "commas separate thousands"),
        (["1,234.5", "12"], [1234.5, 12], "commas separate thousands"),
        (["1.234,5", "12"], [1234.5, 12], "points separate thousands, decimal commas"),
        (["1.234.567", "12"], [1234567, 12], "points separate thousands"),
        (["1 234", "12"], [1234, 12], "spaces separate thousands"),
        (["1\u00a0234,5", "1\u202f234"], [1234.5, 1234], "spaces separate thousands, decimal commas"),
        (["1'234.50", "1’234"], [1234.5, 1234], "apostrophes separate thousands"),
        (["0,5", "1,25"], [0.5, 1.25], "decimal commas"),
        (["$12.50", "$3", "4"], [12.5, 3, 4], "'$' removed"),
        (["12 €", "3,50€"], [12, 3.5], "'€' removed, decimal commas"),
        (["EUR 1,500.25", "EUR 12"], [1500.25, 12], "'EUR' removed, commas separate thousands"),
        (["45 %", "3.5%"], [45, 3.5], "'%' removed"),
        (["-$5", "$-6", "$ 7", "+$8", "($9)"], [-5, -6, 7, 8, -9], "'$' removed"),
        (["(12)", "5", "−3", "- 4"], [-12, 5, -3, -4], "(12) is −12"),
        (["1,234", "5,678"], [1234, 5678], "commas separate thousands (assumed, because no cell decides it)"),
    ],
)
def test_forms(cells: list[str], numbers: list[float], words: str) -> None:
    found = numbers_of([*cells, None], commas=False)
    assert found is not None
    assert found.form is not None
    assert ([found.numbers[cell] for cell in cells], found.form.words, found.strays) == (numbers, words, {})
    assert [found.form.number_in(cell) for cell in cells] == numbers, "what was learned reads each cell alone in the same way"


ASSUMED = "(assumed, because no cell decides it)"


@pytest.mark.parametrize(
    ("cells", "numbers", "words"),
    [
        (["7,635", "15,304", "155"], [7635, 15304, 155], f"commas separate thousands {ASSUMED}"),
        (["1,234", "5,678,901"], [1234, 5678901], "commas separate thousands"),
        (["1,234", "5678"], [1.234, 5678], f"decimal commas {ASSUMED}"),
        (["1,234", "0,567"], [1.234, 0.567], "decimal commas"),
        (["65,43", "1,234", "7"], [65.43, 1.234, 7], "decimal commas"),
    ],
)
@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_commas_in_files_whose_cells_another_sign_separates(
    cells: list[str], numbers: list[float], words: str, sign: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f"a{sign}b\n" + "".join(f"{cell}{sign}x\n" for cell in cells))
    column = read_table(path).column("a").retyped()
    assert column.form is not None
    assert (column.values.tolist(), column.form.words) == (numbers, words)
    encoder = TableEncoder.fit(read_table(path).without("b"))
    plain = path.with_name("plain.csv")
    plain.write_text("a,b\n" + "".join(f"{number},x\n" for number in numbers))
    np.testing.assert_array_equal(encoder.encode(read_table(plain)), encoder.encode(read_table(path)), "a plain file has the same numbers")


@pytest.mark.parametrize(
    "cells",
    [
        ["a", "b"],
        ["$1", "€2"],
        ["079 123 456", "080 111 222"],
        ["2024-12-31"],
        ["1.2.3"],
        ["12:30"],
        ["5 kg"],
        ["inf"],
        ["1,23,4"],
        ["$"],
        [],
    ],
)
def test_cells_that_are_not_numbers(cells: list[str]) -> None:
    assert numbers_of(cells, commas=False) is None


def test_a_few_texts_count_as_gaps() -> None:
    numbers = [str(number) for number in range(95)]
    found = numbers_of([*numbers, "a", "b", "b", "5 kg", "$3 or so"], commas=False)
    assert found is not None
    assert (found.form, found.strays) == (None, {"a": 1, "b": 2, "5 kg": 1, "$3 or so": 1})
    assert numbers_of([*numbers[1:], "a", "b", "b", "5 kg", "$3 or so"], commas=False) is None, "more than 5 %"
    many = numbers_of(["7", "8.5", *["unknown", "-", "N/A", "Missing"] * 50], commas=False)
    assert many is not None, "such words are gaps, however many there are"
    assert many.strays == {"unknown": 50, "-": 50, "N/A": 50, "Missing": 50}


def test_a_cell_of_another_form_is_not_a_number() -> None:
    form = NumberForm(decimal=",", thousands=".", unit="€")
    assert [form.number_in(text) for text in ("1.234", "1234,5", "12 €", "$ 12", "1234.5", "1,234.5", "")] == [
        *(1234, 1234.5, 12),
        *[None] * 4,
    ]
    assert NumberForm(decimal=",", unit="%").number_in("12.5 %") == 12.5, "without thousands, a point is clear"


@given(st.text(max_size=12))
def test_any_text_is_a_finite_number_or_none(text: str) -> None:
    for form in (NumberForm(), NumberForm(decimal=",", thousands=".", unit="€"), NumberForm(thousands=" ", unit="%")):
        number = form.number_in(text)
        assert number is None or np.isfinite(number)
    found = numbers_of([text] * 3, commas=False)
    assert found is None or found.strays or len(found.numbers) == 1


@given(st.floats(-1e12, 1e12).map(lambda number: round(number, 2)), st.sampled_from([(".", ","), (",", "."), (".", " "), (",", "'")]))
def test_written_numbers_are_read_back(number: float, marks: tuple[str, str]) -> None:
    decimal, thousands = marks
    text = f"{number:,.2f}".translate(str.maketrans({",": thousands, ".": decimal}))
    form = NumberForm.model_validate({"decimal": decimal, "thousands": thousands, "unit": "$"})
    assert form.number_in(text) == form.number_in(f"$ {text}") == number


# Encoding


def table_of(**columns: list[str | None]) -> Table:
    made = tuple(Column(name, "category", np.array(cells, dtype=object)) for name, cells in columns.items())
    return Table(made, len(made[0].values), "data.csv")


def encoder_of(**columns: list[str | None]) -> TableEncoder:
    table = table_of(**columns)
    return TableEncoder.fit(table, recognise(table, CLASSES[: table.rows], "classification", rows=table.rows))


def test_the_rule_is_stored_and_each_row_is_read_alone() -> None:
    prices: list[str | None] = [f"{1000 + 37 * n:,.2f} €".translate(str.maketrans(",.", ".,")) for n in range(40)]
    encoder = encoder_of(price=prices, age=[*map(str, range(18, 90, 2)), "41", "43", "oops", "-"])
    assert encoder.to_json()["columns"][0]["written"] == {
        "decimal": ",",
        "thousands": ".",
        "unit": "€",
        "grouped": True,
        "broken": True,
        "assumed": False,
    }
    assert encoder.to_json()["columns"][1]["strays"] == {"oops": 1, "-": 1}
    again = TableEncoder.from_json(encoder.to_json())
    assert again == encoder
    rule = encoder.rules[0]
    assert (rule.mean, rule.std) == pytest.approx((1000 + 37 * 19.5, 37 * np.arange(40).std()))  # type: ignore[union-attr]

    def encoded(price: str | None, age: str | None) -> list[float]:
        return [float(value) for value in again.encode(table_of(price=[price], age=[age]))[0]]

    assert encoded("1.037,00 €", "oops")[1:] == [0, 1], "a gap"
    assert encoded("1.037,00 €", "unknown")[1:] == [0, 1], "a word for a gap that training did not have"
    plain = Table((Column("price", "number", np.array([1037.0])), Column("age", "number", np.array([np.nan]))), 1, "frame")
    assert again.encode(plain).tolist() == [encoded("1.037,00 €", None)], "numbers of a data frame are what they are"
    read = Table((Column("price", "number", np.array([1.037]), np.array(["1.037"], dtype=object)), plain.columns[1]), 1, "new.csv")
    assert again.encode(read).tolist() == [encoded("1.037,00 €", None)], "a cell means the same, whatever the others of its file are"
    for price, age, sentence in (
        (
            "1037.5",
            "20",
            "column 'price', row 1: '1037.5' where the training data had numbers ('€' removed, points separate thousands, decimal",
        ),
        ("1.037,00 €", "old", "column 'age', row 1: 'old' where the training data had numbers; correct it"),
    ):
        with pytest.raises(InputError, match=re.escape(sentence)):
            encoded(price, age)


def test_the_kind_is_decided_by_training_rows(tmp_path: Path) -> None:
    values = [f"${number:,.2f}" for number in np.random.default_rng(0).lognormal(7, 1, 200)]
    path = tmp_path / "data.csv"

    def write() -> None:
        path.write_text("x,y\n" + "".join(f'"{value}",{"ab"[row % 2]}\n' for row, value in enumerate(values)))

    write()
    spec = DataSpec(name=str(path), target="y")
    first = load_dataset(spec)
    assert first.preparation.record.notes == ("column 'x' is read as numbers: '$' removed, commas separate thousands",)
    for row in first.test.rows.tolist():
        values[row] = "much"
    write()
    again = load_dataset(spec)
    assert again.preparation.record.encoder == first.preparation.record.encoder
    assert again.preparation.record.notes[1].startswith("column 'x': 40 cells outside the training rows are not numbers (first 'much'")


def test_units_are_not_identifiers() -> None:
    encoder = encoder_of(cost=[f"{n} EUR" for n in range(40)], number=[f"n{n % 7}" for n in range(40)])
    assert [rule.kind for rule in encoder.rules] == ["number", "category"]


# Targets


def test_targets() -> None:
    prices: list[str | None] = [f"${900 + 7 * n:,}" for n in range(40)]
    _, target = split_target(table_of(x=prices, y=prices), "y", None)
    assert (target.task, target.values.tolist()) == ("regression", [900 + 7 * n for n in range(40)])
    assert target.words == ", read as numbers: '$' removed, commas separate thousands (assumed, because no cell decides it)"
    _, few = split_target(table_of(x=prices, y=["10 %", "20 %"] * 20), "y", None)
    assert (few.task, few.class_names) == ("classification", ("10 %", "20 %"))
    _, asked = split_target(table_of(x=prices, y=["10 %", "20 %"] * 20), "y", "regression")
    assert asked.values.tolist() == [10, 20] * 20
    wrong: list[str | None] = [*prices[:20], "ask", *prices[21:]]
    sentence = "data.csv: the target 'y' has 1 text among numbers, first 'ask' in row 21: correct or remove these rows, or choose the task"
    with pytest.raises(InputError, match=re.escape(sentence)):
        split_target(table_of(x=prices, y=wrong), "y", None)
    assert len(split_target(table_of(x=prices, y=wrong), "y", "classification")[1].class_names) == 40
