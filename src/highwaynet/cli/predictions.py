"""Predictions as CSV, JSON or Parquet, written piece by piece."""

import csv
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from pydantic_core import from_json, to_json

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.base.files import cannot, hold, remove_leftovers_of, temporary_name
from highwaynet.data.cells import DECIMAL_COMMA, NUMBER

if TYPE_CHECKING:
    from highwaynet.runs.model import Predictions

FileForm = Literal["csv", "json", "jsonl", "parquet"]
FORMS: dict[str, FileForm] = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".parquet": "parquet"}
"""Forms of files by how their names end."""


@dataclass(frozen=True)
class Answered:
    """One sample with its answer."""

    name: str
    kept: dict[str, str | None]
    """Cells that are carried over."""
    value: float | dict[str, float]
    """The probability of the class, or the number; if several numbers are predicted, all of them by name."""
    best: str | None = None
    """The class; None for a regression."""
    shares: dict[str, float] | None = None
    """The probability of each class; None for a regression."""

    def as_json(self) -> dict[str, Any]:
        """Return it as values for JSON."""
        kept = {"kept": self.kept} if self.kept else {}
        if self.shares is None:
            return {"input": self.name, **kept, "prediction": self.value}
        return {"input": self.name, **kept, "class": self.best, "probability": self.value, "probabilities": self.shares}

    def own_cells(self) -> dict[str, Any]:
        """Return the answer as cells by column."""
        if self.shares is not None:
            shares = {f"probability of {name}": share for name, share in self.shares.items()}
            return {"class": self.best, "probability": self.value, **shares}
        if isinstance(self.value, dict):
            return {f"prediction of {name}": number for name, number in self.value.items()}
        return {"prediction": self.value}

    def as_row(self) -> dict[str, Any]:
        """Return it as cells by column; raises InputError if a column that is carried over has the name of another one."""
        own = self.own_cells()
        if same := set(self.kept) & {"input", *own}:
            raise InputError(f"--keep {min(same)}: the output has a column of this name; rename yours, or choose JSON")
        return {"input": self.name, **self.kept, **own}


def rows_of(piece: "Predictions", classes: Sequence[str], targets: Sequence[str]) -> list[Answered]:
    """Return the answers of a piece, one by one.

    Args:
        piece: The answers.
        classes: Names of the classes.
        targets: Names of the targets, if there are several.
    """
    names = list(map(_readable, piece.names))
    kept = [dict(zip(piece.kept, cells, strict=True)) for cells in zip(*piece.kept.values(), strict=True)] or [{}] * len(piece.names)
    if piece.probabilities is None:
        values = [dict(zip(targets, row, strict=True)) if targets else row for row in piece.answers.tolist()]
        return [Answered(*one) for one in zip(names, kept, values, strict=True)]
    best = piece.probabilities.argmax(1).tolist()
    return [
        Answered(name, cells, shares[place], classes[place], dict(zip(classes, shares, strict=True)))
        for name, cells, place, shares in zip(names, kept, best, piece.probabilities.tolist(), strict=True)
    ]


def _readable(name: str) -> str:
    r"""Return a file name with bytes that are not UTF-8 as \udcff, because JSON and Parquet have only UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()


Write = Callable[[list[Answered]], None]

FORMULAS = frozenset("=+-@\t\r\n＝＋－＠")
"""Characters with which formulas start in spreadsheet programs; some also accept the full-width forms."""


def as_text(cell: Any) -> Any:
    """Return a cell that a spreadsheet program does not take for a formula: an apostrophe is put before texts that look like one.

    >>> [as_text(cell) for cell in ("=1+1", "@SUM(A1)", "-5.2e3", "- a", "a=1", -3.5, None)]
    ["'=1+1", "'@SUM(A1)", '-5.2e3', "'- a", 'a=1', -3.5, None]
    """
    if isinstance(cell, str) and cell[:1] in FORMULAS and cell and not NUMBER.fullmatch(cell) and not DECIMAL_COMMA.fullmatch(cell):
        return f"'{cell}"
    return cell


@contextmanager
def writer_for(form: FileForm, path: Path | None, about: dict[str, Any], *, raw: bool = False) -> Iterator[Write]:
    """Open the output and yield a function that adds answers to it.

    Args:
        form: Its form.
        path: The file, which appears only when it is complete; None for standard output.
        about: What JSON says about all answers.
        raw: Whether CSV has texts as they are, even if a spreadsheet program takes them for formulas.
    """
    writers = _WRITERS | {"csv": partial(_csv, raw=raw)}
    if path is None:
        with writers[form](sys.stdout.buffer, about) as write:
            yield write
        sys.stdout.flush()
        return
    remove_leftovers_of(path)
    temporary = temporary_name(path)
    try:
        with temporary.open("xb") as stream:
            hold(stream)
            with writers[form](stream, about) as write:
                yield write
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise cannot("write", path, error) from error
    finally:  # also when interrupted
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def _csv(stream: BinaryIO, about: dict[str, Any], *, raw: bool = False) -> Iterator[Write]:
    names: list[str] = []
    safe: Callable[[Any], Any] = (lambda cell: cell) if raw else as_text

    class Encoded:
        """What csv writes to: text that becomes bytes."""

        @staticmethod
        def write(text: str) -> None:
            stream.write(text.encode("utf-8", "backslashreplace"))

    writer = csv.writer(Encoded, lineterminator="\n")

    def write(answers: list[Answered]) -> None:
        rows = [answer.as_row() for answer in answers]
        if rows and not names:
            names.extend(rows[0])
            writer.writerow(map(safe, names))
        writer.writerows(map(safe, row.values()) for row in rows)

    yield write


@contextmanager
def _json(stream: BinaryIO, about: dict[str, Any]) -> Iterator[Write]:
    """Write one document: what it is about, and all predictions, indented as by `print_json`."""
    said = {key: _readable(value) if isinstance(value, str) else value for key, value in about.items()}
    start = to_json(said, indent=2).decode().removesuffix("\n}")
    started = False

    def write(answers: list[Answered]) -> None:
        nonlocal started
        for answer in answers:
            text = to_json(answer.as_json(), indent=2, inf_nan_mode="null").decode().replace("\n", "\n    ")
            stream.write((f",\n    {text}" if started else f'{start},\n  "predictions": [\n    {text}').encode("utf-8", "backslashreplace"))
            started = True

    yield write
    if started:
        stream.write(b"\n  ]\n}\n")


@contextmanager
def _jsonl(stream: BinaryIO, about: dict[str, Any]) -> Iterator[Write]:
    def write(answers: list[Answered]) -> None:
        stream.write(b"".join(to_json(answer.as_json(), inf_nan_mode="null") + b"\n" for answer in answers))

    yield write


@contextmanager
def _parquet(stream: BinaryIO, about: dict[str, Any]) -> Iterator[Write]:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise HighwayError("writing Parquet files needs pyarrow: install it with `pip install 'highwaynet[tables]'`") from error
    writer: Any = None

    def write(answers: list[Answered]) -> None:
        nonlocal writer
        rows = [answer.as_row() for answer in answers]
        if not rows:
            return
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        kinds = {name: arrow.float64() if isinstance(value, float) else arrow.string() for name, value in rows[0].items()}
        schema = arrow.schema(list(kinds.items()))
        writer = writer or parquet.ParquetWriter(stream, schema)
        writer.write_table(arrow.table(columns, schema=schema))

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


_WRITERS = {"csv": _csv, "json": _json, "jsonl": _jsonl, "parquet": _parquet}


def is_own_output(path: Path) -> bool:
    """Whether a file is an earlier output of `highway predict`, which may be replaced."""
    try:
        if path.suffix.lower() == ".parquet":
            return _own_names(import_module("pyarrow.parquet").read_schema(path).names)
        with path.open(encoding="utf-8", newline="") as stream:
            if path.suffix.lower() == ".csv":
                return _own_names(next(csv.reader(stream), []))
            if path.suffix.lower() == ".json":
                start = stream.read(100_000)
                return start.startswith('{\n  "run": ') and '\n  "predictions": [' in start
            return _own_names(from_json(stream.readline()))
    except (OSError, ValueError, csv.Error, ImportError):  # pyarrow's errors are ValueErrors
        return False


def _own_names(names: Any) -> bool:
    """Whether columns, or the keys of a sample in JSON, are those of an output."""
    found = list(names) if isinstance(names, list | dict) else []
    answers = {"class", "probability"} <= set(found) or any(str(name).split(" of ")[0] == "prediction" for name in found)
    return found[:1] == ["input"] and answers
