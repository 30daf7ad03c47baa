"""Tables as training data: the column to predict, and the others as features for a network. Does not import torch.

Messages count rows from 1, without the header.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, field_validator

from highwaynet.base.errors import InputError
from highwaynet.base.specs import Spec
from highwaynet.data.names import Task
from highwaynet.data.table_files import NUMBER, Column, Table, number_in, read_table, shown, too_large, written_form

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


def split_target(table: Table, target: str, task: Task | None) -> tuple[Table, TargetColumn]:
    """Split a table into features and target; raises InputError if the target does not exist, has gaps or does not suit the task.

    Without a task, categories and few different integers (at most 20, and fewer than half the rows) are classes.
    """
    column, rest = table.column(target), table.without(target)
    where = f"{table.source}: the target {shown(target)}"
    if (gaps := column.missing()).any():
        raise InputError(f"{where} is missing in {gaps.sum():,} of {table.rows:,} rows, first in row {gaps.argmax() + 1}; remove them")
    if task == "classification" or (task is None and (column.kind == "category" or _few_whole_numbers(column.values))):
        names, numbers = _classes(column)
        if len(names) < 2:
            raise InputError(f"{where} is {shown(names[0])} in all rows: at least two classes are needed")
        return rest, TargetColumn(target, "classification", names, numbers)
    if column.kind == "category":
        text = next((text for text in column.values if number_in(text) is None), column.values[0])
        raise InputError(f"{where} has texts like {shown(text)}, which are not numbers: choose the task classification")
    if (large := np.abs(column.values) > np.finfo(np.float32).max).any():
        raise InputError(f"{where} is too large in row {large.argmax() + 1} ({column.values[large.argmax()]:g}): give it in another unit")
    return rest, TargetColumn(target, "regression", (), column.values)


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

    @property
    def features(self) -> list[str]:
        return [self.name] + [f"{self.name} is missing"] * self.gaps


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


class _Rules(Spec):
    columns: Annotated[tuple[Annotated[_NumberRule | _CategoryRule, Field(discriminator="kind")], ...], Field(min_length=1)]


@dataclass(frozen=True)
class TableEncoder:
    """Converts the columns of a table to features for a network, by rules that are learned from the training rows.

    A number column becomes one feature: (value − mean) / standard deviation of the training rows, 0 if the value is missing. A constant
    column is only centred. A category column becomes one feature for each category of the training rows, in sorted order: 1 in rows of
    this category, otherwise 0; rows of other categories have only zeros. If the training rows have gaps in a column, a feature `NAME is
    missing` follows: 1 in gaps, otherwise 0. The features of a row depend only on that row: if a column has another kind than in
    training, its cells are used as they are written.
    """

    rules: tuple[_NumberRule | _CategoryRule, ...]

    @classmethod
    def fit(cls, table: Table) -> "TableEncoder":
        """Learn the rules from training rows without the target; raises InputError for columns without values or over 1000 categories."""
        if not table.columns:
            raise InputError(f"{table.source} has no columns to predict from")
        return cls(tuple(_fitted(column, table.source) for column in table.columns))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each feature."""
        return tuple(name for rule in self.rules for name in rule.features)

    def encode(self, table: Table) -> NDArray[np.float32]:
        """Return features (rows, features); ignores columns that training did not have.

        Raises:
            InputError: If a column is missing, or has texts where the training data had numbers.
        """
        if (size := table.rows * len(self.feature_names)) > MOST_ENCODED:
            raise too_large(table.source, f"{size:,} numbers after encoding", MOST_ENCODED)
        features = np.zeros((table.rows, len(self.feature_names)), np.float32)
        start, columns = 0, {column.name: column for column in table.columns}
        for rule in self.rules:
            if (column := columns.get(rule.name)) is None:
                raise InputError(f"{table.source} has no column {shown(rule.name)}, which the training data had: add it")
            if isinstance(rule, _NumberRule):
                features[:, start] = _standardised(rule, column, table.source)
            else:
                rows, places = _known(rule, column)
                features[rows, start + places] = 1
            start += len(rule.features)
            if rule.gaps:
                features[:, start - 1] = column.missing()
        return features

    def to_json(self) -> dict[str, Any]:
        """Return the rules as values for JSON, which keeps floats exactly."""
        return _Rules(columns=self.rules).model_dump(mode="json")

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TableEncoder":
        """Make the encoder from the values of `to_json`; raises InputError if they are damaged."""
        damaged = "the description of the table's columns is damaged ({}): train again"
        try:
            rules = _Rules.model_validate_json(json.dumps(values)).columns
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InputError(damaged.format(" ".join(f"{place}: {first['msg']}".split()))) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(damaged.format("not valid JSON values")) from error
        if len({rule.name for rule in rules}) < len(rules):
            raise InputError(damaged.format("two columns have the same name"))
        return cls(rules)


def _fitted(column: Column, source: str) -> _NumberRule | _CategoryRule:
    where, present = f"{source}: the column {shown(column.name)}", column.values[~column.missing()]
    gaps = len(present) < len(column.values)
    if not len(present):
        raise InputError(f"{where} has no values in the training rows: remove it")
    if column.kind == "category":
        categories = sorted(set(present))
        if len(categories) > MOST_CATEGORIES:
            odd = next((text for text in categories if not NUMBER.fullmatch(text)), categories[0])
            advice = "remove it if it identifies rows, correct it if it should be numbers only"
            raise InputError(f"{where} has {len(categories):,} categories like {shown(odd)}, the limit is {MOST_CATEGORIES:,}: {advice}")
        return _CategoryRule(name=column.name, categories=tuple(categories), gaps=gaps)
    if present.min() == present.max():  # with rounding, the deviation of equal values may not be 0
        return _NumberRule(name=column.name, mean=float(present[0]), std=1.0, gaps=gaps)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = float(present.mean()), float(present.std()) or 1.0
    if not math.isfinite(std):
        raise InputError(f"{where} has values too large to standardise ({np.abs(present).max():g}): give it in another unit")
    return _NumberRule(name=column.name, mean=mean, std=std, gaps=gaps)


def _standardised(rule: _NumberRule, column: Column, source: str) -> NDArray[np.float32]:
    where = f"{source}, column {shown(rule.name)}, row"
    values = column.values  # (rows,)
    if column.kind == "category":
        values = np.empty(len(column.values))
        for row, text in enumerate(column.values):
            number = number_in(text)
            if number is None or math.isinf(number):
                raise InputError(f"{where} {row + 1}: {shown(text)} where the training data had numbers; correct it or leave it empty")
            values[row] = number
    with np.errstate(over="ignore"):
        scaled = np.where(np.isnan(values), 0.0, (values - rule.mean) / rule.std).astype(np.float32)
    if (far := np.isinf(scaled)).any():
        raise InputError(
            f"{where} {far.argmax() + 1}: {values[far.argmax()]:g} is too far from the training data; correct it or leave it empty"
        )
    return scaled


def _known(rule: _CategoryRule, column: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows whose category occurs in the training data, and the index of that category."""
    places: dict[str | None, int] = {category: place for place, category in enumerate(rule.categories)}
    texts: Iterable[str | None] = column.values
    if column.kind == "number":
        texts = map(written_form, column.values) if column.texts is None else column.texts
    found = []
    for row, text in enumerate(texts):
        if text is None:
            continue
        place = places.get(text)
        if place is None and (number := number_in(text)) is not None:  # if a column has gaps, pandas writes the code 1 as 1.0
            place = places.get(written_form(number))
        if place is not None:
            found.append((row, place))
    pairs = np.array(found, dtype=np.int64).reshape(-1, 2)  # (rows found, 2)
    return pairs[:, 0], pairs[:, 1]
