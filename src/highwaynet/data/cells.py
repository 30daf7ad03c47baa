"""Cells of tables: which are missing, and which are numbers. Does not import torch."""

import math
import re
from collections.abc import Sequence
from itertools import product

from highwaynet.base.errors import InputError

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"})
GAP_CATEGORIES = frozenset("".join(signs) for word in ("n/a", "none") for signs in product(*zip(word, word.upper(), strict=True)))
"""Texts that are gaps in a category column, in small and capital letters; a target may have them as classes."""
BOOLEANS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
# Stricter than float(), which also accepts 1_000 and nan. Each part matches in one way only, so that matching takes linear time.
DECIMAL_COMMA = re.compile(r"[+-]?\d+(?:,\d+)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?)", re.ASCII | re.IGNORECASE)
_PLAIN = frozenset("0123456789.+-eE")


def cell(written: str) -> str | None:
    """Return the text of a cell without the white space around it, None if it is missing; true and false have one form."""
    text = written.strip()
    return None if text in MISSING else BOOLEANS.get(text, text)


def plain_numbers(texts: Sequence[str]) -> list[float] | None:
    """Return the numbers in cells if all have one and consist of digits, points, signs and exponents; None otherwise.

    This is what `number_in` gives for each, but much faster.

    >>> plain_numbers(["1", "-2.5e3"]), plain_numbers(["1", ""]), plain_numbers(["1_000"]), plain_numbers(["inf"])
    ([1.0, -2500.0], None, None, None)
    """
    if not _PLAIN.issuperset("".join(texts)):
        return None
    try:
        return list(map(float, texts))
    except ValueError:  # an empty cell, or signs in another order
        return None


def number_in(text: str | None, *, commas: bool = False) -> float | None:
    """Return the number in a cell: NaN if it is missing, None if it is not a number; with `commas`, it may have a decimal comma."""
    if text is None:
        return math.nan
    if commas and DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    return float(text) if NUMBER.fullmatch(text) else None


def written_form(number: float) -> str | None:
    """Format a number as in a cell: 1, not 1.0; None for NaN."""
    if math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() and abs(number) < 1e16 else repr(float(number))


def shown(text: str) -> str:
    """Quote a text for a message, shortened to 60 characters."""
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


def too_large(source: object, size: str, limit: int) -> InputError:
    """Return the error for a table that exceeds a limit."""
    return InputError(f"{source} is too large: {size}, the limit is {limit:,}; use fewer rows or columns")
