"""What the columns of a table are, by rules that look at the training rows only. Does not import torch."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from highwaynet.data.cells import GAP_CATEGORIES, NUMBER, shown
from highwaynet.data.copies import is_copy, tells_nearly
from highwaynet.data.dates import DateForm, are_unclear_dates, days_in, form_of
from highwaynet.data.names import Task
from highwaynet.data.number_forms import have_several_units, is_gap_word
from highwaynet.data.table_files import Column, Table

ColumnKind = Literal["number", "category", "date", "identifier", "text", "constant"]
Reason = Literal["identifier", "free text", "constant", "no values", "copy of the target", "unclear date", "several units"]
"""Why a column is left out."""

LEAST_ROWS = 20
"""With fewer values, a column is neither an identifier nor free text nor a copy: values may differ, or agree, by chance."""
NEARLY_ALL = 0.9
MOST_WORDS = 3
"""Texts that are nearly all different are identifiers up to this number of words (the median), and free text beyond it."""
ID_WORDS = frozenset({"id", "uuid", "guid", "index", "idx", "row", "rowid", "key"})
NUMBER_WORDS = frozenset({"number", "num", "no", "nr"})


@dataclass(frozen=True)
class Recognised:
    """What a column of the training rows is."""

    name: str
    kind: ColumnKind
    reason: Reason | None = None
    """Why it is left out; None if it is used."""
    form: DateForm | None = None
    """How its dates are read."""
    assumed: bool = False
    """Whether the order of day and month had to be assumed."""
    tells: float | None = None
    """How well the target follows from it by a simple rule, if nearly always (`tells_nearly`)."""


def recognise(train: Table, targets: NDArray[Any], task: Task, *, rows: int, use: Collection[str] = ()) -> tuple[Recognised, ...]:
    """Say what each column is.

    Args:
        train: The training rows, without the target.
        targets: Their targets (rows,).
        task: What is to be predicted.
        rows: Number of rows of the whole table, from which the training rows were drawn.
        use: Columns to use although a rule would leave them out.
    """
    found = []
    for column in (column.retyped() for column in train.columns):
        seen = _seen(column, rows)
        if column.name not in use:
            found.append(_without_copies(seen, column, targets, task) if seen.reason is None else seen)
        elif seen.reason == "no values":
            found.append(seen)
        else:
            found.append(replace(seen, kind=column.kind if seen.form is None else "date", reason=None))
    return tuple(found)


def remarks_on(found: Collection[Recognised]) -> tuple[str, ...]:
    """Return a sentence for each column that is used and tells the target nearly always."""
    lines, used = [], [seen for seen in found if seen.reason is None]
    for seen in used if len(used) > 1 else ():
        if seen.tells is not None:
            share = f"{100 * min(seen.tells, 0.9999):.2f}".rstrip("0").rstrip(".") if seen.tells < 1 else "100"
            lines.append(
                f"the target follows from column {shown(seen.name)} alone (to {share} %): if you will not know it when you predict, "
                f"leave it out with --ignore {quote(seen.name)}"
            )
    return tuple(lines)


def kind_of(column: Column) -> ColumnKind:
    """Return the kind of a column, from all its rows."""
    return _seen(column.retyped(), len(column.values)).kind


def _seen(column: Column, rows: int) -> Recognised:
    name, missing = column.name, column.missing()
    values = column.values[~missing]
    if not len(values):
        return Recognised(name, "constant", "no values")
    distinct = len(set(values.tolist()))
    if distinct == 1 and not missing.any():  # with gaps, whether there is a value may say something
        return Recognised(name, "constant", "constant")
    if column.kind == "number":
        return Recognised(name, "identifier", "identifier") if _numbers_rows(column, rows) else Recognised(name, "number")
    dates = form_of(text for text in values if not is_gap_word(text))
    if dates is not None:
        return Recognised(name, "date", None, *dates)
    if len(values) >= LEAST_ROWS and not column.fixed and are_unclear_dates(text for text in values if not is_gap_word(text)):
        return Recognised(name, "date", "unclear date")
    return _seen_texts(column, values, distinct)


def _seen_texts(column: Column, values: NDArray[Any], distinct: int) -> Recognised:
    name = column.name
    # Measurements among which a text has slipped are no identifiers, although nearly all of them differ.
    measured = sum(NUMBER.fullmatch(text) is not None and not text.lstrip("+-").isdigit() for text in values)
    if column.fixed or len(values) < LEAST_ROWS or distinct <= NEARLY_ALL * len(values) or 2 * measured > len(values):
        return Recognised(name, "category")
    if have_several_units(values):
        return Recognised(name, "number", "several units")
    if np.median([len(text.split()) for text in values]) > MOST_WORDS:
        return Recognised(name, "text", "free text")
    return Recognised(name, "identifier", "identifier")


def _numbers_rows(column: Column, rows: int) -> bool:
    """Whether whole numbers identify rows.

    They do if all differ and lie as close together as numbers from 1 to the number of rows, or if the name says so and nearly all differ.
    """
    values = column.values[~column.missing()]
    if len(values) < LEAST_ROWS or not (values == np.floor(values)).all() or (column.form and column.form.unit):
        return False
    distinct = len({text for text in column.written() if text is not None})  # the digits of long numbers are more exact than floats
    if distinct == len(values) and values.max() - values.min() < rows:
        return True
    return distinct > NEARLY_ALL * len(values) and _named_like_identifier(column.name)


def _named_like_identifier(name: str) -> bool:
    """Whether a name looks like that of an identifier.

    >>> [_named_like_identifier(name) for name in ("customer_id", "PassengerId", "UUID", "invoice no", "width", "humidity")]
    [True, True, True, True, False, False]
    """
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    return bool(words) and (words[0] in ID_WORDS or words[-1] in ID_WORDS | NUMBER_WORDS)


def _without_copies(seen: Recognised, column: Column, targets: NDArray[Any], task: Task) -> Recognised:
    """Leave the column out if it is a copy of the target; note it if the target follows from it nearly always."""
    missing = column.missing()
    values, ordered = column.values, seen.kind in {"number", "date"}
    if seen.form is not None:
        missing = missing | np.array([text is not None and is_gap_word(text) for text in values])
        values = np.array([np.nan if gap else days_in(text, seen.form) for text, gap in zip(values, missing, strict=True)], np.float64)
    elif seen.kind == "category":
        missing = missing | np.array([text in GAP_CATEGORIES for text in values], dtype=np.bool_)
    there = ~missing
    if there.sum() >= LEAST_ROWS and is_copy(values[there], targets[there], task, ordered=ordered):
        return Recognised(seen.name, seen.kind, "copy of the target", seen.form)
    return replace(seen, tells=tells_nearly(values, missing, targets, task, ordered=ordered))
