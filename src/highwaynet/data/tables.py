"""Tables as training data: the column to predict, and the others as features for a network. Does not import torch.

Messages count rows from 1, without the header.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import Field, ValidationError, field_validator

from highwaynet.base.errors import InputError
from highwaynet.base.specs import Spec
from highwaynet.data.cells import GAP_CATEGORIES, NUMBER, number_in, shown, too_large, written_form
from highwaynet.data.columns import LEAST_ROWS, NEARLY_ALL, ColumnKind, Reason, Recognised, remarks_on
from highwaynet.data.dates import DateForm, days_in
from highwaynet.data.names import Task
from highwaynet.data.number_forms import NumberForm, is_gap_word
from highwaynet.data.table_files import Column, Table, read_table

__all__ = ["Column", "Table", "TableEncoder", "TargetColumn", "read_table", "split_target"]

MOST_CATEGORIES = 1000
MOST_ENCODED = 1_000_000_000


@dataclass(frozen=True)
class TargetColumn:
    """The column to predict."""

    name: str
    task: Task
    class_names: tuple[str, ...]
    """In the order of their numbers; empty for regression."""
    values: NDArray[Any]
    """(rows,): int64 class numbers from 0, or float64 numbers."""
    words: str = ""
    """How its cells are read as numbers, in words that follow its name, if not as plain ones."""


def split_target(table: Table, target: str, task: Task | None) -> tuple[Table, TargetColumn]:
    """Split a table into features and target; raises InputError if the target does not exist, has gaps or does not suit the task.

    Without a task, categories and few different integers (at most 20, and fewer than half the rows) are classes.
    """
    column, rest = table.column(target), table.without(target)
    where = f"{table.source}: the target {shown(target)}"
    if task != "classification":
        column = _as_numbers(column, task, where)
    if (gaps := column.missing()).any():
        raise InputError(f"{where} is missing in {gaps.sum():,} of {table.rows:,} rows, first in row {gaps.argmax() + 1}; remove them")
    if task == "classification" or (task is None and (column.kind == "category" or _few_whole_numbers(column.values))):
        names, numbers = _classes(column)
        if len(names) < 2:
            raise InputError(f"{where} is {shown(names[0])} in all rows: at least two classes are needed")
        if task is None and table.rows >= LEAST_ROWS and len(names) > NEARLY_ALL * table.rows:
            raise InputError(f"{where} has {len(names):,} different values in {table.rows:,} rows: choose another column")
        return rest, TargetColumn(target, "classification", names, numbers)
    if column.kind == "category":
        text = next((text for text in column.values if number_in(text) is None), column.values[0])
        raise InputError(f"{where} has texts like {shown(text)}, which are not numbers: choose the task classification")
    if (large := np.abs(column.values) > np.finfo(np.float32).max).any():
        raise InputError(f"{where} is too large in row {large.argmax() + 1} ({column.values[large.argmax()]:g}): give it in another unit")
    return rest, TargetColumn(target, "regression", (), column.values, f", read as numbers: {column.form.words}" if column.form else "")


def _as_numbers(column: Column, task: Task | None, where: str) -> Column:
    """Return the target as numbers if it is written like those (`numbers_of`), and is not rather classes.

    Raises:
        InputError: If it has many numbers, and a few texts, which may be mistakes.
    """
    read = column.retyped()
    if (read.form is None and not read.strays) or (task is None and _few_whole_numbers(read.values[~np.isnan(read.values)])):
        return column
    if read.strays:
        row = column.written().index(next(iter(read.strays))) + 1
        count = sum(read.strays.values())
        what = f"{count:,} {'text' if count == 1 else 'texts'} among numbers, first {shown(column.written()[row - 1] or '')} in row {row}"
        raise InputError(f"{where} has {what}: correct or remove these rows, or choose the task classification")
    return read


def _few_whole_numbers(values: NDArray[np.float64]) -> bool:
    distinct = np.unique(values)
    return len(distinct) <= 20 and 2 * len(distinct) < len(values) and bool((distinct == np.floor(distinct)).all())


def _classes(column: Column) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the class names in order, and the class number of each row."""
    texts = column.values if column.kind == "category" else [written_form(value) for value in column.values]
    names = sorted(set(texts))
    if all(map(NUMBER.fullmatch, names)):
        names.sort(key=float)
    numbers = {name: number for number, name in enumerate(names)}
    return tuple(names), np.array([numbers[text] for text in texts], dtype=np.int64)  # (rows,)


class _NumberRule(Spec):
    kind: Literal["number"] = "number"
    name: str
    mean: float
    std: Annotated[float, Field(gt=0)]
    gaps: bool
    written: NumberForm | None = None
    """How cells are read, if not as plain numbers."""
    strays: dict[str, int] = Field(default_factory=dict)
    """Texts that count as gaps, with the number of training cells that have each."""

    @property
    def features(self) -> list[str]:
        return [self.name] + [f"{self.name} is missing"] * self.gaps

    def number_in(self, text: str, *, commas: bool) -> float | None:
        """Return the number in a cell, NaN if it counts as a gap, None if it is none."""
        if text in self.strays:
            return math.nan
        number = number_in(text, commas=commas) if self.written is None else self.written.number_in(text, commas=commas)
        return math.nan if number is None and is_gap_word(text) else number


class _CategoryRule(Spec):
    kind: Literal["category"] = "category"
    name: str
    categories: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_CATEGORIES)]
    gaps: bool

    @field_validator("categories")
    @classmethod
    def _in_order(cls, categories: tuple[str, ...]) -> tuple[str, ...]:
        if list(categories) != sorted(set(categories)):
            raise ValueError("the categories should be sorted and unique")
        return categories

    @property
    def features(self) -> list[str]:
        return [f"{self.name} = {category}" for category in self.categories] + [f"{self.name} is missing"] * self.gaps

    def missing(self, column: Column) -> NDArray[np.bool_]:
        """Return a mask (rows,) of the gaps; runs made before may have none, or n/a, as a category."""
        words = GAP_CATEGORIES.difference(self.categories) if column.kind == "category" else ()
        return column.missing() | np.array([value in words for value in column.values], dtype=np.bool_)


class _DateRule(Spec):
    kind: Literal["date"] = "date"
    name: str
    form: DateForm
    assumed: bool
    mean: float
    std: Annotated[float, Field(gt=0)]
    gaps: bool
    strays: dict[str, int] = Field(default_factory=dict)
    """As for numbers."""

    @property
    def features(self) -> list[str]:
        return [self.name] + [f"{self.name} is missing"] * self.gaps

    def number_in(self, text: str, *, commas: bool) -> float | None:
        """Return the days in a cell, NaN if it counts as a gap, None if it is no date; `commas` does not matter."""
        days = days_in(text, self.form)
        return math.nan if days is None and is_gap_word(text) else days


ColumnRule = _NumberRule | _CategoryRule | _DateRule


class LeftOut(Spec):
    """A column that no feature comes from."""

    name: str
    kind: ColumnKind
    reason: Reason


class _Rules(Spec):
    columns: Annotated[tuple[Annotated[ColumnRule, Field(discriminator="kind")], ...], Field(min_length=1)]
    left_out: tuple[LeftOut, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableEncoder:
    """Converts the columns of a table to features for a network, by rules that are learned from the training rows.

    A number column becomes one feature: (value − mean) / standard deviation of the training rows, 0 if the value is missing. A constant
    column is only centred. A date becomes a number, the days since 1970. A category column becomes one feature for each category of the
    training rows, in sorted order: 1 in rows of this category, otherwise 0; rows of other categories have only zeros. If the training
    rows have gaps in a column, a feature `NAME is missing` follows: 1 in gaps, otherwise 0. The features of a row depend only on that
    row: if a column has another kind than in training, its cells are used as they are written.
    """

    rules: tuple[ColumnRule, ...]
    left_out: tuple[LeftOut, ...] = ()
    remarks: tuple[str, ...] = ()
    """Sentences about columns that may mislead."""

    @classmethod
    def fit(cls, train: Table, found: Sequence[Recognised] | None = None, weights: NDArray[np.float64] | None = None) -> "TableEncoder":
        """Learn the rules from training rows without the target.

        Args:
            train: The training rows.
            found: What each of their columns is, from `recognise`; by default numbers, or else categories, and all of them are used.
            weights: How much each row counts in means and standard deviations; by default all count alike.

        Raises:
            InputError: If no column is left, or one has over 1000 categories or values that are too large.
        """
        if not train.columns:
            raise InputError(f"{train.source} has no columns to predict from")
        columns = [column.retyped() for column in train.columns]
        if found is None:
            found = [Recognised(column.name, column.kind, "no values" if column.missing().all() else None) for column in columns]
        used = [(column, seen) for column, seen in zip(columns, found, strict=True) if seen.reason is None]
        rules = [_fitted(column, seen, train.source, weights) for column, seen in used]
        left_out = tuple(LeftOut(name=seen.name, kind=seen.kind, reason=seen.reason) for seen in found if seen.reason is not None)
        if not rules:
            why = ", ".join(f"{shown(column.name)} ({column.reason})" for column in left_out[:5]) + (", …" if len(left_out) > 5 else "")
            raise InputError(
                f"{train.source}: no column is left to predict from, without {why}; name columns to use with data.use or --use"
            )
        return cls(tuple(rules), left_out, remarks_on(found))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each feature."""
        return tuple(name for rule in self.rules for name in rule.features)

    def encode(
        self, table: Table, *, lenient: bool = False, bad: dict[int, str] | None = None, dtype: DTypeLike = np.float32
    ) -> NDArray[Any]:
        """Return features (rows, features); ignores columns that training did not have, or did not use.

        Args:
            table: The rows.
            lenient: Whether cells that are no numbers or dates, in columns that were in training, count as missing.
            bad: Gets a sentence for each row, counted from 0, that cannot be encoded; by default, the first one raises InputError.
            dtype: Type of the features, float32 or float64.

        Raises:
            InputError: If a column is missing or, unless `lenient`, has texts where the training data had numbers or dates.
        """
        if (size := table.rows * len(self.feature_names)) > MOST_ENCODED:
            raise too_large(table.source, f"{size:,} numbers after encoding", MOST_ENCODED)
        features = np.zeros((table.rows, len(self.feature_names)), dtype)
        start, columns = 0, {column.name: column for column in table.columns}
        for rule in self.rules:
            if (column := columns.get(rule.name)) is None:
                raise InputError(f"{table.source} has no column {shown(rule.name)}, which the training data had: add it")
            if isinstance(rule, _CategoryRule):
                rows, places = _known(rule, column)
                features[rows, start + places] = 1
                missing = rule.missing(column)
            else:
                values, wrong = _numbers(rule, column)
                features[:, start], missing = _standardised(rule, values), np.isnan(values)
                wrong = (wrong & (not lenient)) | np.isinf(values) | np.isinf(features[:, start])
                for row in np.flatnonzero(wrong).tolist():
                    sentence = _unexpected(
                        rule, column, row, values[row], f"{table.source}, column {shown(rule.name)}, row {table.number(row)}"
                    )
                    if bad is None:
                        raise InputError(f"{sentence}; correct it or leave it empty")
                    bad.setdefault(row, sentence)
            start += len(rule.features)
            if rule.gaps:
                features[:, start - 1] = missing
        return features

    def unreadable(self, table: Table) -> list[str]:
        """Return a sentence for each column in which `encode` with `lenient` counts cells as missing."""
        found = []
        for rule in self.rules:
            column = table.column(rule.name)
            if isinstance(rule, _CategoryRule) or (column.kind == "number" and rule.kind == "number" and rule.written is None):
                continue
            _, wrong = _numbers(rule, column)
            words = [text is not None and text not in rule.strays and is_gap_word(text) for text in column.written()]
            if count := int((wrong := wrong | np.array(words, dtype=np.bool_)).sum()):
                first = f"first {shown(column.written()[wrong.argmax()] or '')} in row {wrong.argmax() + 1}"
                what = f"is not a {rule.kind}" if count == 1 else f"are not {rule.kind}s"
                found.append(
                    f"column {shown(rule.name)}: {count:,} {'cell' if count == 1 else 'cells'} outside the training rows {what} "
                    f"({first}), and {'counts' if count == 1 else 'count'} as missing"
                )
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the rules as values for JSON, which keeps floats exactly."""
        unused = {name for name in ("left_out", "remarks") if not getattr(self, name)}
        rules = _Rules(columns=self.rules, left_out=self.left_out, remarks=self.remarks).model_dump(mode="json", exclude=unused)
        rules["columns"] = [{name: value for name, value in rule.items() if value not in (None, {})} for rule in rules["columns"]]
        return rules

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TableEncoder":
        """Make the encoder from the values of `to_json`; raises InputError if they are damaged."""
        damaged = "the description of the table's columns is damaged ({}): train again"
        try:
            stored = _Rules.model_validate_json(json.dumps(values))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InputError(damaged.format(" ".join(f"{place}: {first['msg']}".split()))) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(damaged.format("not valid JSON values")) from error
        names = [column.name for column in (*stored.columns, *stored.left_out)]
        if len(set(names)) < len(names):
            raise InputError(damaged.format("two columns have the same name"))
        return cls(stored.columns, stored.left_out, stored.remarks)


def _fitted(column: Column, seen: Recognised, source: str, weights: NDArray[np.float64] | None) -> ColumnRule:
    where, there = f"{source}: the column {shown(column.name)}", ~column.missing()
    present, strays = column.values[there], column.strays
    if column.kind == "category" and seen.form is None:
        categories = sorted(set(present) - GAP_CATEGORIES or set(present))
        if len(categories) > MOST_CATEGORIES:
            odd = next((text for text in categories if not NUMBER.fullmatch(text)), categories[0])
            advice = f"leave it out with --ignore {quote(column.name)}, or correct it if it should be numbers only"
            raise InputError(f"{where} has {len(categories):,} categories like {shown(odd)}, the limit is {MOST_CATEGORIES:,}: {advice}")
        return _CategoryRule(name=column.name, categories=tuple(categories), gaps=not there.all() or len(categories) < len(set(present)))
    if seen.form is not None:
        strays = dict(Counter(text for text in present if is_gap_word(text)))
        days = np.array([np.nan if text in strays else days_in(text, seen.form) for text in present], dtype=np.float64)
        there[there], present = ~np.isnan(days), days[~np.isnan(days)]
    gaps = not there.all()
    with np.errstate(over="ignore", invalid="ignore"):
        if weights is None:
            mean, std = float(present.mean()), float(present.std()) or 1.0
        else:
            counts = weights[there]
            mean = float(np.average(present, weights=counts))
            std = math.sqrt(np.average((present - mean) ** 2, weights=counts)) or 1.0
    if present.min() == present.max():  # with rounding, the deviation of equal values may not be 0
        mean, std = float(present[0]), 1.0
    if not math.isfinite(std):
        raise InputError(f"{where} has values too large to standardise ({np.abs(present).max():g}): give it in another unit")
    if seen.form is not None:
        return _DateRule(name=column.name, form=seen.form, assumed=seen.assumed, mean=mean, std=std, gaps=gaps, strays=strays)
    return _NumberRule(name=column.name, mean=mean, std=std, gaps=gaps, written=column.form, strays=strays)


def _numbers(rule: _NumberRule | _DateRule, column: Column) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the values of a column (rows,), NaN for gaps and for cells that are no numbers or dates, and a mask of the latter."""
    cells = None if isinstance(rule, _NumberRule) and column.kind == "number" else column.written()
    if isinstance(rule, _NumberRule) and rule.written is not None and column.texts is not None:
        cells = column.texts.tolist()  # what is a plain number for a file may be another one by the rule: 1.234
    if cells is None:
        return column.values, np.zeros(len(column.values), np.bool_)
    known = {text: rule.number_in(text, commas=column.commas) for text in set(cells) if text is not None}
    unusable = {text for text, number in known.items() if number is None or math.isinf(number)}
    values = np.array([np.nan if text is None or text in unusable else known[text] for text in cells], dtype=np.float64)
    return values, np.array([text in unusable for text in cells], dtype=np.bool_)


def _unexpected(rule: _NumberRule | _DateRule, column: Column, row: int, value: float, where: str) -> str:
    """Return the sentence about a cell that cannot be used."""
    cell = column.written()[row] or ""
    if math.isinf(value) or (rule.kind == "number" and math.isinf(number_in(cell) or 0)):
        return f"{where}: the number is infinite"
    if not math.isnan(value):
        return f"{where}: {value:g} is too far from the training data"
    form = f", {rule.form}" if isinstance(rule, _DateRule) and rule.form != "time" else ""
    form = f" ({rule.written.words})" if isinstance(rule, _NumberRule) and rule.written is not None else form
    return f"{where}: {shown(cell)} where the training data had {rule.kind}s{form}"


def _standardised(rule: _NumberRule | _DateRule, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return standardised values, infinite if float32 cannot hold them."""
    with np.errstate(over="ignore", invalid="ignore"):  # invalid: a signalling NaN, which a Parquet file can have
        scaled: NDArray[np.float64] = np.where(np.isnan(values), 0.0, (values - rule.mean) / rule.std)
        scaled[np.isinf(scaled.astype(np.float32))] = np.inf
    return scaled


def _known(rule: _CategoryRule, column: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows whose category occurs in the training data, and the index of that category."""
    places = {category: place for place, category in enumerate(rule.categories)}
    cells = column.written()
    found: dict[str | None, int] = {None: -1}
    for text in set(cells) - {None}:
        place = places.get(text or "", -1)
        if place < 0 and (number := number_in(text)) is not None:  # if a column has gaps, pandas writes the code 1 as 1.0
            place = places.get(written_form(number) or "", -1)
        found[text] = place
    every = np.array([found[text] for text in cells], dtype=np.int64)  # (rows,)
    rows = np.flatnonzero(every >= 0)
    return rows, every[rows]
