"""Dates and times in the cells of a table, as days since 1970. Does not import torch."""

import re
from collections.abc import Collection, Iterable
from datetime import date
from typing import Literal

DateForm = Literal["year first", "day first", "month first", "month", "time"]
"""How the cells of a column are read. Cells that start with the year are read in every form but month and time."""

_TIME = (
    r"(?P<hours>\d{1,2}):(?P<minutes>\d\d)(?::(?P<seconds>\d\d(?:\.\d{1,9})?))?(?: ?(?P<half>[AP]M))?"
    r"(?: ?(?:Z|UTC|GMT|(?P<zone>[+-]\d\d(?::?\d\d)?)))?"
)
_FLAGS = re.ASCII | re.IGNORECASE
YEAR_FIRST = re.compile(rf"(?P<year>\d{{4}})(?P<sign>[-/.])(?P<month>\d\d?)(?P=sign)(?P<day>\d\d?)(?:[T ]{_TIME})?", _FLAGS)
# After two numbers with points or slashes, two digits are a year; 24-12-31 may start with it.
_YEAR = r"(?P<year>\d{4}|(?<=[/.])\d\d)"
YEAR_LAST = re.compile(rf"(?P<one>\d\d?)(?P<sign>[-/.])(?P<two>\d\d?)(?P=sign){_YEAR}(?:,? {_TIME})?", _FLAGS)
MONTH = re.compile(r"(?P<year>\d{4})[-/](?P<month>\d\d?)|(?P<month_first>\d\d?)[-/](?P<year_last>\d{4})", _FLAGS)
UNCLEAR = re.compile(r"(?P<one>\d\d?)(?P<sign>[-/.])(?P<two>\d\d?)(?P=sign)(?P<three>\d\d)", _FLAGS)
TIME = re.compile(_TIME, _FLAGS)
EPOCH = date(1970, 1, 1).toordinal()
LATEST = 68
"""A year of two digits up to this one is in this century, others in the last: 68 is 2068 and 69 is 1969, as in POSIX."""


def days_in(text: str, form: DateForm) -> float | None:
    """Return the days from 1970 to the date in a cell, with the time of day as a fraction; None if it is no date of this form.

    >>> days_in("1970-01-02 06:00", "year first"), days_in("2/1/1970", "day first"), days_in("2/1/1970", "month first")
    (1.25, 1.0, 31.0)
    >>> days_in("3.1.70", "day first"), days_in("1970-02", "month"), days_in("02/1970", "month")
    (2.0, 31, 31)
    """
    if form == "time":
        found = TIME.fullmatch(text)
        return None if found is None else _time_of_day(found)
    if form == "month":
        found = MONTH.fullmatch(text)
        month = 0 if found is None else int(found["month"] or found["month_first"])
        year = 0 if found is None else int(found["year"] or found["year_last"])
        return date(year, month, 1).toordinal() - EPOCH if 1 <= month <= 12 and year else None
    if (found := YEAR_FIRST.fullmatch(text)) is not None:
        year, month, day = (int(found[part]) for part in ("year", "month", "day"))
    elif form != "year first" and (found := YEAR_LAST.fullmatch(text)) is not None:
        year, month, day = _whole_year(found["year"]), int(found["one"]), int(found["two"])
        if form == "day first":
            month, day = day, month
    else:
        return None
    try:
        days = date(year, month, day).toordinal() - EPOCH
    except ValueError:  # there is no 30 February
        return None
    time = _time_of_day(found)
    return None if time is None else days + time


def _whole_year(written: str) -> int:
    """Return the year that two or four digits stand for."""
    return int(written) + (0 if len(written) == 4 else 2000 if int(written) <= LATEST else 1900)


def _time_of_day(found: re.Match[str]) -> float | None:
    """Return the time of a match as a fraction of a day, in UTC if the cell names a time zone; 0 without a time, None if it is wrong."""
    if found["hours"] is None:
        return 0.0
    hours, minutes, seconds = (float(found[part] or 0) for part in ("hours", "minutes", "seconds"))
    half = (found["half"] or "").upper()
    if minutes >= 60 or seconds >= 60 or hours > (12 if half else 23) or (half and hours == 0):
        return None
    if half:
        hours = hours % 12 + 12 * (half == "PM")
    zone = found["zone"] or "+00"
    shift = (60 * int(zone[1:3]) + int(zone[3:].lstrip(":") or 0)) * (-1 if zone[0] == "-" else 1)
    return (3600 * hours + 60 * (minutes - shift) + seconds) / 86400


def form_of(texts: Iterable[str | None]) -> tuple[DateForm, bool] | None:
    """Find the form in which all these cells are dates; None if there is none. Gaps do not count.

    Whether the day or the month comes first follows from the days after the 12th. Without any, the month is first in 12/11/2024, the
    day in 12.11.2024 and 12-11-2024. Cells like 24/01/31 are no dates if their first numbers, as years do, vary less than their last.

    Returns:
        The form, and whether the order of day and month had to be assumed.
    """
    cells = {text for text in texts if text is not None}
    if not cells:
        return None
    forms: list[DateForm] = ["year first", "day first", "month first", "month", "time"]
    for text in cells:
        forms = [form for form in forms if days_in(text, form) is not None]
        if not forms:
            return None
    if _may_start_with_years(cells):
        return None
    if len(forms) == 1 or "year first" in forms:
        return forms[0], False
    slashes = any("/" in text for text in cells)
    return ("month first" if slashes else "day first"), True


def _may_start_with_years(cells: Collection[str]) -> bool:
    """Whether the cells are like 24/01/31: also dates if they start with the year, and their first numbers vary less than their last."""
    found = [UNCLEAR.fullmatch(text) for text in cells]
    dates = [match for match in found if match and 1 <= int(match["two"]) <= 12 and 1 <= int(match["three"]) <= 31]
    return len(dates) == len(cells) and len({match["one"] for match in dates}) <= len({match["three"] for match in dates})


def are_unclear_dates(texts: Iterable[str]) -> bool:
    """Whether all cells are like 24-12-31 or 24/12/31, which may start with the year or with the day."""
    cells = set(texts)
    return bool(cells) and all(UNCLEAR.fullmatch(text) for text in cells)
