"""What becomes of the columns of a table, in words. Does not import torch."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from shlex import quote

import numpy as np

from highwaynet.data.cells import NUMBER, shown
from highwaynet.data.columns import ColumnKind, Reason, kind_of
from highwaynet.data.dates import DateForm
from highwaynet.data.names import Task
from highwaynet.data.table_files import Column, Table
from highwaynet.data.tables import ColumnRule, TableEncoder

MOST_NAMES = 10
"""A line names this many columns."""
FEW_TEXTS = 0.1
"""Categories that are texts only up to this share were probably meant as numbers."""
WHY: dict[Reason, str] = {
    "identifier": "identifies rows",
    "free text": "is free text",
    "constant": "is the same in all training rows",
    "no values": "has no values in the training rows",
    "copy of the target": "determines the target exactly, as a copy does",
    "unclear date": "has dates like 24-12-31, in which the place of the year is not clear (four digits make it clear)",
    "several units": "has numbers with several currencies or units (convert them to one)",
}
WHY_SEVERAL: dict[Reason, str] = {
    "identifier": "identify rows",
    "free text": "are free text",
    "constant": "are the same in all training rows",
    "no values": "have no values in the training rows",
    "copy of the target": "determine the target exactly, as copies do",
    "unclear date": "have dates like 24-12-31, in which the place of the year is not clear (four digits make it clear)",
    "several units": "have numbers with several currencies or units (convert them to one)",
}
FORMS: dict[DateForm, str] = {
    "year first": "days since 1970",
    "day first": "days since 1970, read as day/month/year",
    "month first": "days since 1970, read as month/day/year",
    "month": "days from 1970 to the first of each month",
    "time": "fractions of a day",
}


@dataclass(frozen=True)
class ColumnReport:
    """One column of a table: what it is and what becomes of it."""

    name: str
    kind: ColumnKind
    gaps: int
    """Rows without a value."""
    distinct: int
    """Different values."""
    features: int
    """Number of features that come from it."""
    becomes: str
    """What becomes of it, in words."""


def notes_of(encoder: TableEncoder) -> tuple[str, ...]:
    """Return a line for each rule that left out columns, for each way to read dates and numbers, and for columns with a few texts."""
    lines = []
    for reason in WHY:
        names = [column.name for column in encoder.left_out if column.reason == reason]
        if names:
            keep = "" if reason == "no values" else f"; --use {quote(','.join(names[:MOST_NAMES]))} keeps {_it(names)}"
            lines.append(f"left out {_columns(names)}, which {(WHY if len(names) == 1 else WHY_SEVERAL)[reason]}{keep}")
    for form, meaning in FORMS.items():
        for assumed in (False, True):
            names = [rule.name for rule in encoder.rules if rule.kind == "date" and (rule.form, rule.assumed) == (form, assumed)]
            if names:
                what, doubt = ("time", "") if form == "time" else ("date", " (no day after the 12th decides it)" if assumed else "")
                plural = f"is a {what}" if len(names) == 1 else f"are {what}s"
                lines.append(f"{_columns(names)} {plural}, used as {meaning}{doubt}")
    lines += _number_notes(encoder)
    for rule in encoder.rules:
        texts = [text for text in rule.categories if not NUMBER.fullmatch(text)] if rule.kind == "category" else []
        if rule.kind == "category" and 0 < len(texts) <= FEW_TEXTS * len(rule.categories):
            lines.append(f"column {shown(rule.name)} has texts like {shown(texts[0])} among numbers, so that it is used as categories")
    return (*lines, *encoder.remarks)


def _number_notes(encoder: TableEncoder) -> list[str]:
    lines, rules = [], [rule for rule in encoder.rules if rule.kind == "number"]
    for words in dict.fromkeys(rule.written.words for rule in rules if rule.written is not None):
        names = [rule.name for rule in rules if rule.written is not None and rule.written.words == words]
        lines.append(f"{_columns(names)} {'is' if len(names) == 1 else 'are'} read as numbers: {words}")
    stray = [rule for rule in encoder.rules if rule.kind != "category" and rule.strays]
    for rule in stray[:MOST_NAMES]:
        count, texts = sum(rule.strays.values()), ", ".join(map(shown, list(rule.strays)[:3]))
        what = f"training cell that is no {rule.kind} counts" if count == 1 else f"training cells that are no {rule.kind}s count"
        lines.append(f"column {shown(rule.name)}: {count:,} {what} as {'a gap' if count == 1 else 'gaps'} ({texts})")
    if len(stray) > MOST_NAMES:
        lines.append(f"{len(stray) - MOST_NAMES:,} more columns have texts that count as gaps; highway data describe lists them")
    return lines


def _columns(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return f"{'column' if len(names) == 1 else 'columns'} {', '.join(map(shown, names[:MOST_NAMES]))}{more}"


def _it(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def summary_of(encoder: TableEncoder) -> str:
    """Say how many columns of each kind are used: 3 number and 2 category columns.

    Dates are mentioned only if there are any.
    """
    counts = {kind: sum(rule.kind == kind for rule in encoder.rules) for kind in ("number", "date", "category")}
    parts = [f"{count} {kind}" for kind, count in counts.items() if count or kind != "date"]
    return f"{', '.join(parts[:-1])} and {parts[-1]} columns"


def report_of(table: Table, encoder: TableEncoder, target: str, task: Task, ignored: Collection[str]) -> list[ColumnReport]:
    """Describe the columns of a whole table, in its order; gaps and distinct values are counted in all rows."""
    rules = {rule.name: rule for rule in encoder.rules}
    left_out = {column.name: column for column in encoder.left_out}
    found = []
    for column in table.columns:
        name, count = column.name, 0
        kind: ColumnKind = column.kind
        if name == target:
            kind, becomes = "number" if task == "regression" else column.kind, f"the target: {task}"
        elif name in ignored:
            kind, becomes = kind_of(column), "left out: ignored"
        elif name in left_out:
            kind, becomes = left_out[name].kind, f"left out: {left_out[name].reason}"
        else:
            rule = rules[name]
            kind, count = rule.kind, len(rule.features)
            becomes = "1 feature" if count == 1 else f"{count:,} features"
            if rule.kind == "number" and rule.written is not None:
                becomes += f"; {rule.written.words}"
            if rule.kind != "category":
                becomes += f"; texts as gaps: {', '.join(map(shown, list(rule.strays)[:3]))}" if rule.strays else ""
        gaps, distinct = _counts(column, rules.get(name))
        found.append(ColumnReport(name, kind, gaps, distinct, count, becomes))
    return found


def _counts(column: Column, rule: ColumnRule | None) -> tuple[int, int]:
    missing = column.missing()
    if rule is not None and rule.kind != "category" and column.kind == "category":
        known = {text: rule.number_in(text, commas=column.commas) for text in set(column.values[~missing])}
        gaps = {text for text, number in known.items() if number is None or math.isnan(number)}
        missing = missing | np.array([text in gaps for text in column.values], dtype=np.bool_)
    elif rule is not None and rule.kind == "category":
        missing = rule.missing(column)
    return int(missing.sum()), len(set(column.values[~missing].tolist()))
