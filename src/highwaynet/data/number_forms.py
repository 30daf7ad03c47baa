"""Numbers as people write them: 1,234.5 and 1.234,5, $12.50, 12 €, 45 %, (12) for −12. Does not import torch."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from highwaynet.base.specs import Spec
from highwaynet.data.cells import NUMBER, number_in

MOST_STRAYS = 0.05
"""A column is one of numbers if at most this share of its cells are texts; they count as gaps."""
MOST_STRAY_TEXTS = 1000
GAP_WORDS = frozenset(
    {"-", "--", "---", "–", "—", ".", "..", "n/a", "na", "n.a.", "n.a", "#n/a", "nan", "null", "none", "nil", "unknown", "unk", "missing"}
    | {"not available", "not known", "no data", "undefined", "tbd", "#value!", "#ref!", "#div/0!", "#num!", "#name?", "#null!"}
)
"""Texts that stand for a gap in a column of numbers or dates, in small letters; among categories, they are categories."""
UNITS = frozenset(
    {*"$€£¥₹₽₩₺₴₪₫฿₱₦%", "US$", "CA$", "AU$", "A$", "C$", "R$", "kr", "zł", "Kč", "Ft", "Fr"}
    | {"USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "RON", "RUB", "TRY"}
    | {"BRL", "MXN", "ZAR", "KRW", "SGD", "HKD", "ILS", "AED", "THB"}
)
"""Signs and codes of currencies, and the percent sign."""
# White space that separates thousands, and other forms of apostrophe and minus, as one sign each.
_SAME = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'", "−": "-"})
_MARKS = ((".", ","), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"))
"""Decimal sign and thousands separator: the possible pairs, the usual one first."""
PLAIN = (".", "")
_SIGNS = {",": "commas", ".": "points", " ": "spaces", "'": "apostrophes"}
_BODY = re.compile(r"[\d.,][\d.,' ]*(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    whole = rf"(?:[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+|\d+)" if thousands else r"\d+"
    mark = re.escape(decimal)
    return re.compile(rf"(?:{whole}(?:{mark}\d*)?|{mark}\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


_PATTERNS = {marks: _pattern(*marks) for marks in (*_MARKS, (".", ""), (",", ""))}


class NumberForm(Spec):
    """How the cells of a column are read as numbers."""

    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'"] = ""
    """What separates groups of three digits; a space also stands for the non-breaking ones."""
    unit: str = ""
    """What is removed: $, EUR, %, … A cell may lack it."""
    grouped: bool = False
    """Whether training cells have thousands separators."""
    broken: bool = False
    """Whether training cells have a decimal sign."""
    assumed: bool = False
    """Whether the cells could also be read with another decimal sign, and would then be other numbers."""

    def number_in(self, text: str, *, commas: bool = True) -> float | None:
        """Return the number in a cell; None if it is none, or has another unit.

        Without `commas`, because commas separate the cells of its file, 1.234 is a plain number unless training cells had such thousands.

        >>> form = NumberForm(decimal=",", thousands=".", unit="€")
        >>> form.number_in("1.234,5 €"), form.number_in("(€ 12)"), form.number_in("1234.5"), form.number_in("$ 12")
        (1234.5, -12.0, None, None)
        """
        parts = _parts(text)
        if parts is None or parts.unit not in {"", self.unit}:
            return None
        plain = not commas and not self.grouped and not self.unit and "," not in parts.body
        return parts.number(self.decimal, "" if plain else self.thousands)

    @property
    def words(self) -> str:
        """How the cells are read, in words."""
        parts = [f"{self.unit!r} removed"] if self.unit else []
        if self.grouped:
            parts.append(f"{_SIGNS[self.thousands]} separate thousands")
        if self.broken and (self.decimal == "," or self.assumed):
            parts.append(f"decimal {_SIGNS[self.decimal]}")
        doubt = " (assumed, because no cell decides it)" if self.assumed else ""
        return (", ".join(parts) or "(12) is −12") + doubt


@dataclass(frozen=True)
class _Parts:
    """A cell in parts: 1 or −1, what else it has, and its digits."""

    sign: int
    unit: str
    body: str

    def number(self, decimal: str, thousands: str) -> float | None:
        body = self.body
        if _PATTERNS[decimal, thousands].fullmatch(body) is None:
            # 1234.5 is clear among decimal commas, unless points separate thousands.
            return None if thousands == "." or not NUMBER.fullmatch(body) else _finite(self.sign, body)
        plain = body.replace(thousands, "") if thousands else body
        return _finite(self.sign, plain.replace(decimal, "."))


def _finite(sign: int, digits: str) -> float | None:
    number = sign * float(digits)
    return number if math.isfinite(number) else None


def _parts(text: str) -> _Parts | None:
    """Divide a cell; None if it has other letters or signs than a number with a unit."""
    rest, sign = text.translate(_SAME), 1
    if rest.startswith("(") and rest.endswith(")"):
        rest, sign = rest[1:-1].strip(), -1
    unit = ""
    for _ in range(2):  # -$12 and $-12
        if rest[:1] in {"+", "-"} and not (sign < 0 and rest[0] == "-"):
            sign, rest = -sign if rest[0] == "-" else sign, rest[1:].lstrip()
        elif not unit and (found := re.match(r"[^\d.,'+() -]{1,3}", rest)) and found[0] in UNITS:
            unit, rest = found[0], rest[found.end() :].lstrip()
    if not unit and (found := re.search(r"[^\d.,'+() -]{1,3}$", rest)) and found[0] in UNITS:
        unit, rest = found[0], rest[: found.start()].rstrip()
    return _Parts(sign, unit, rest) if _BODY.fullmatch(rest) else None


def have_several_units(texts: Iterable[str]) -> bool:
    """Whether all cells are numbers, but with different units: $12 and €4."""
    units = set[str]()
    for text in texts:
        if not is_gap_word(text):
            if (parts := _parts(text)) is None:
                return False
            units.add(parts.unit)
    return len(units - {""}) > 1


def is_gap_word(text: str) -> bool:
    """Whether a text stands for a gap in a column of numbers or dates."""
    return text.lower() in GAP_WORDS


@dataclass(frozen=True)
class NumberCells:
    """How the cells of a column are numbers."""

    form: NumberForm | None
    """How they are read; None for plain numbers."""
    numbers: dict[str, float]
    """The number in each text."""
    strays: dict[str, int]
    """Texts that count as gaps, and how many cells have each."""


def numbers_of(texts: Iterable[str | None], *, commas: bool) -> NumberCells | None:
    """Find out whether the cells of a column are numbers, and how they are read; None if they are not.

    They are if at most 5 % of them are texts; gaps, and words like unknown, do not count. The form that reads most cells is chosen. If two
    read equally many, commas separate thousands; with `commas` they are decimal signs if a number of four digits has none.

    Args:
        texts: The cells, None for gaps.
        commas: Whether cells may have commas without quotes, because another sign separates the cells of the file.
    """
    counts = Counter(text for text in texts if text is not None)
    words = {text: count for text, count in counts.items() if is_gap_word(text)}
    cells = {text: count for text, count in counts.items() if text not in words}
    most = MOST_STRAYS * sum(cells.values())
    parts, strays, stray = dict[str, _Parts](), dict[str, int](), 0
    for text, count in cells.items():
        if (found := _parts(text)) is not None:
            parts[text] = found
            continue
        strays[text], stray = count, stray + count
        if stray > most:  # free texts are left here after a few cells
            return None
    units = Counter[str]()
    for text, found in parts.items():
        units[found.unit] += counts[text]
    unit = next((name for name, _ in units.most_common() if name), "")
    same = {text: found for text, found in parts.items() if found.unit in {"", unit}}
    read: dict[tuple[str, str], dict[str, float]] = {}
    decimal = commas and any(re.match(r"\d{4}", found.body) for found in same.values())
    for marks in (*([] if unit else [PLAIN]), *([(",", ".")] if decimal else []), *_MARKS):
        read.setdefault(marks, _read(same, *marks))
    best = max(read, key=lambda marks: sum(counts[text] for text in read[marks]))
    numbers = read[best]
    strays |= {text: counts[text] for text in parts if text not in numbers}
    if not numbers or sum(strays.values()) > most or len(strays) > MOST_STRAY_TEXTS:
        return None
    return NumberCells(_form(same, best, read, unit, commas), numbers, strays | words)


def _read(cells: dict[str, _Parts], decimal: str, thousands: str) -> dict[str, float]:
    found = {text: parts.number(decimal, thousands) for text, parts in cells.items()}
    return {text: number for text, number in found.items() if number is not None}


def _form(
    cells: dict[str, _Parts], marks: tuple[str, str], read: dict[tuple[str, str], dict[str, float]], unit: str, commas: bool
) -> NumberForm | None:
    """Return the form of numbers that were read with these signs; None if plain reading gives the same."""
    numbers = read[marks]
    if marks == PLAIN and all(number_in(text) == number for text, number in numbers.items()):
        return None
    decimal, thousands = marks
    grouped = bool(thousands) and any(thousands in cells[text].body for text in numbers)
    broken = any(decimal in cells[text].body for text in numbers)
    if not grouped and not broken:
        decimal, thousands = (",", "") if commas else (".", ",")
    others = [found for found in read.values() if len(found) == len(numbers)]
    assumed = any(found[text] != number for found in others if found.keys() == numbers.keys() for text, number in numbers.items())
    signs = {"decimal": decimal, "thousands": thousands, "unit": unit}
    return NumberForm.model_validate(signs | {"grouped": grouped, "broken": broken, "assumed": assumed})
