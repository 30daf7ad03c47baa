"""Columns from which the target follows nearly always; strong features that are none of them."""

import numpy as np
import pytest

from highwaynet.data.columns import recognise, remarks_on
from highwaynet.data.copies import tells_nearly
from highwaynet.data.table_files import table_of

RNG = np.random.default_rng(0)
ROWS = 2000
CLASSES = RNG.integers(0, 3, ROWS)
NUMBERS = RNG.lognormal(3, 1, ROWS)
NONE = np.zeros(ROWS, np.bool_)


def share(values: np.ndarray, targets: np.ndarray = CLASSES, missing: np.ndarray = NONE) -> float | None:
    ordered = values.dtype.kind == "f"
    return tells_nearly(values, missing, targets, "regression" if targets.dtype.kind == "f" else "classification", ordered=ordered)


def test_classes_follow_from_categories() -> None:
    spellings = np.array([["no", "No", "n"], ["yes", "Yes", "y"], ["?", "maybe", "m"]], dtype=object)
    texts = spellings[CLASSES, RNG.integers(0, 3, ROWS)]
    assert share(texts) == 1
    texts[:2] = spellings[(CLASSES[:2] + 1) % 3, 0]
    assert share(texts) == pytest.approx(1 - 2 / ROWS)
    texts[:3] = spellings[(CLASSES[:3] + 1) % 3, 0]
    assert share(texts) is None, "below 99.9 %"


def test_classes_follow_from_numbers() -> None:
    scores = np.array([10.0, -5.0, 3.0])[CLASSES] + RNG.uniform(-1, 1, ROWS)  # in another order than the classes
    assert share(scores) == 1
    wrong = np.flatnonzero(CLASSES == 0)
    scores[wrong[:2]] = 3.0
    assert share(scores) == pytest.approx(1 - 2 / ROWS)
    assert share(scores + RNG.normal(0, 2, ROWS)) is None, "a strong feature"


def test_classes_follow_from_gaps() -> None:
    missing = CLASSES == 1
    two = (CLASSES == 1).astype(np.int64)
    values = RNG.normal(size=ROWS)
    assert share(np.where(missing, np.nan, values), two, missing) == 1
    assert share(np.where(missing, np.nan, values), CLASSES, missing) is None, "it does not tell the other two"


@pytest.mark.parametrize(("rows", "filled"), [(288, 90), (144, 60), (100, 15)])
@pytest.mark.parametrize("texts", [False, True])
def test_gaps_count_as_rows(rows: int, filled: int, texts: bool) -> None:
    classes = (np.arange(rows) < filled).astype(np.int64)
    words = [f"day {row % 7}" if found else None for row, found in enumerate(classes)]
    late = words if texts else [float(row * row) if found else None for row, found in enumerate(classes)]
    columns = {"late": late, "x": RNG.normal(size=rows)}
    found = recognise(table_of(columns), classes, "classification", rows=rows)
    assert [seen.tells for seen in found] == [1, None]
    below = recognise(table_of(columns).select(np.arange(rows - 99, rows)), classes[-99:], "classification", rows=99)
    assert [seen.tells for seen in below] == [None, None], "fewer than 100 rows"


def test_what_occurs_once_tells_nothing() -> None:
    names = np.array([f"u{row}" for row in range(ROWS)], dtype=object)
    assert share(names) is None
    assert share(names, NUMBERS) is None


def test_a_rare_class_must_be_recognised() -> None:
    rare = np.zeros(ROWS, np.int64)
    rare[:2] = 1  # guessing is right for 99.9 %
    assert share(RNG.normal(size=ROWS), rare) is None
    assert share(np.array(["a", "b"], dtype=object)[RNG.integers(0, 2, ROWS)], rare) is None


def test_numbers_follow_from_numbers() -> None:
    assert share(np.log(NUMBERS), NUMBERS) == pytest.approx(1)
    assert share(-np.round(NUMBERS, 1), NUMBERS) == pytest.approx(1, abs=1e-3)
    strong = NUMBERS * np.exp(RNG.normal(0, 0.1, ROWS))
    assert np.corrcoef(np.log(strong), np.log(NUMBERS))[0, 1] > 0.99
    assert share(strong, NUMBERS) is None, "a strong feature"
    assert share(np.zeros(ROWS), NUMBERS) is None


def test_numbers_follow_from_categories() -> None:
    means = RNG.normal(size=30) * 100
    groups = RNG.integers(0, 30, ROWS)
    texts = np.array([f"g{group}" for group in groups], dtype=object)
    assert share(texts, means[groups] + RNG.normal(0, 0.5, ROWS)) == pytest.approx(1, abs=1e-3)
    assert share(texts, means[groups] + RNG.normal(0, 20, ROWS)) is None


def test_few_rows_tell_nothing() -> None:
    scores = CLASSES + RNG.uniform(0, 0.5, ROWS)
    assert share(scores[:99], CLASSES[:99], NONE[:99]) is None
    assert share(scores[:100], CLASSES[:100], NONE[:100]) == 1


def test_the_sentence() -> None:
    columns = {"score": CLASSES + RNG.uniform(0, 0.5, ROWS), "x": RNG.normal(size=ROWS)}
    found = recognise(table_of(columns), CLASSES, "classification", rows=ROWS)
    assert [seen.reason for seen in found] == [None, None], "both are used"
    assert remarks_on(found) == (
        "the target follows from column 'score' alone (to 100 %): if you will not know it when you predict, "
        "leave it out with --ignore score",
    )
    assert remarks_on(found[:1]) == (), "a single column is not to be left out"
    assert remarks_on(recognise(table_of(columns), CLASSES, "classification", rows=ROWS, use=["score"])) == (), "the user wants it"
