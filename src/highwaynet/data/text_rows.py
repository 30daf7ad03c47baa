"""The rows of a text table, read one after the other, so that a file may be larger than memory. Does not import torch.

Messages count rows from 1, without the header.
"""

import csv
import gzip
import io
import stat
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot
from highwaynet.data.cells import NUMBER, shown, too_large
from highwaynet.data.delimiters import delimiter_of

MOST_CHARACTERS = 2**24  # in a line
MOST_COLUMNS = 10_000
MOST_SENTENCES = 100
START_BYTES = 2**20 + 1
"""The delimiter is found from this many bytes."""


@dataclass
class BadRows:
    """Rows that cannot be read: how many, and sentences about the first ones; there may be more than fit into memory."""

    count: int = 0
    sentences: list[str] = field(default_factory=list)

    def add(self, sentence: str) -> None:
        """Count a row."""
        self.count += 1
        if len(self.sentences) < MOST_SENTENCES:
            self.sentences.append(sentence)


@dataclass
class TextRows:
    """An opened text table; its rows can be read once."""

    path: Path
    names: list[str]
    """The names of its columns."""
    delimiter: str
    rows: Iterator[list[str]]
    """The fields of each row that is not empty."""
    first: str
    """What the first line is, in messages."""

    def checked(self, bad: BadRows | None = None) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of each row and its fields.

        Args:
            bad: Gets the rows with another number of fields, which are left out.

        Raises:
            InputError: For the first such row, if `bad` is None.
        """
        width = len(self.names)
        for number, fields in enumerate(self.rows, 1):
            if len(fields) == width:
                yield number, fields
                continue
            sentence = f"{self.path}, row {number}: {len(fields)} fields, but the {self.first} has {width}"
            if bad is None:
                raise InputError(f"{sentence}; correct the row")
            bad.add(sentence)


@contextmanager
def text_rows(path: Path, *, header: bool = True, most: int | None = None) -> Iterator[TextRows]:
    """Open a text table: UTF-8, perhaps compressed (.gz); `delimiters.py` says how its delimiter is found.

    Args:
        path: The file.
        header: Whether the first line has the column names; without it, they are column-1, column-2, …
        most: Largest number of bytes, also after decompression; None for files of any length.

    Raises:
        InputError: If it is not such a table; also while its rows are read.
    """
    with opened(path, most) as stream:
        source = _Bytes(path, stream, most)
        delimiter = delimiter_of(source.start, header=header)
        text = io.TextIOWrapper(cast(BinaryIO, source), encoding="utf-8", newline="")
        lines = _lines(path, text)
        if delimiter == " ":
            lines = (line.strip(" \r\n") + "\n" for line in lines)
        reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=delimiter == " ")
        try:
            fields = next(filter(None, reader), [])
            if header:
                _refuse_data(path, fields)
            names = checked_names(path, _with_index(fields) if header else [f"column-{number}" for number in range(1, len(fields) + 1)])
            rows = filter(None, reader) if header else chain([fields], filter(None, reader))
            yield TextRows(path, names, delimiter, iter(rows), "header" if header else "first line")
        except UnicodeDecodeError as error:
            place = source.given - len(error.object) + error.start
            raise InputError(f"cannot read {path}: it is not UTF-8 text (byte {place}); save the table as CSV in UTF-8") from error
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: {error}; is a quotation mark wrong?") from error


@contextmanager
def opened(path: Path, most: int | None) -> Iterator[BinaryIO]:
    """Open a file; raises InputError if it is none (opening a pipe would wait for ever), or has more than `most` bytes."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"cannot read {path}: it is not a file")
        if most is not None and found.st_size > most:
            raise too_large(path, f"{found.st_size:,} bytes", most)
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise cannot("read", path, error) from error


class _Bytes(io.BufferedIOBase):
    """The bytes of a file after decompression, without the mark at their start; NUL and too many bytes are refused."""

    def __init__(self, path: Path, stream: BinaryIO, most: int | None) -> None:
        self._path, self._most = path, most
        self._stream: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=stream) if path.name.lower().endswith(".gz") else stream
        self._read = self.given = 0
        start = b""
        while len(start) < START_BYTES and (part := self._part(START_BYTES - len(start))):
            start += part
        mark = 3 if start.startswith(b"\xef\xbb\xbf") else 0
        self.start = start[mark:]
        """The first bytes."""
        self._waiting, self.given = io.BytesIO(self.start), mark
        """How many bytes of the file were handed out."""

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def read1(self, size: int = -1) -> bytes:
        """Return up to `size` bytes."""
        part = self._waiting.read(size) or self._part(size if size > 0 else 2**16)
        self.given += len(part)
        return part

    def _part(self, size: int) -> bytes:
        try:
            part = self._stream.read(size)
        except (OSError, EOFError, zlib.error) as error:
            if not isinstance(self._stream, gzip.GzipFile):
                raise
            raise InputError(f"cannot read {self._path}: its compression is damaged ({error})") from error
        if (nul := part.find(b"\0")) >= 0:
            place = f"byte {self._read + nul} is NUL, which text cannot contain"
            raise InputError(f"cannot read {self._path}: {place}; save the table as CSV in UTF-8")
        self._read += len(part)
        if self._most is not None and self._read > self._most:
            raise too_large(self._path, "too many bytes after decompression", self._most)
        return part


def _lines(path: Path, text: TextIO) -> Iterator[str]:
    while line := text.readline(MOST_CHARACTERS + 1):
        if len(line) > MOST_CHARACTERS:
            raise InputError(f"{path} has a line of more than {MOST_CHARACTERS:,} characters: is it a table?")
        yield line


def _refuse_data(path: Path, fields: Sequence[str]) -> None:
    written = [field for field in fields if NUMBER.fullmatch(field.strip())]
    numbers = [float(field) for field in written]
    # Columns may be named by years or wavelengths, in ascending or descending order; a row of data rarely looks like that.
    ordered = len(set(numbers)) == len(numbers) and numbers in (sorted(numbers), sorted(numbers, reverse=True))
    few = len(numbers) < 3 and not all(number.is_integer() for number in numbers)
    if not ordered or few or min(numbers, default=0) < 0:
        place = "it starts with" if len(written) == len(fields) else "its first line has"
        raise InputError(
            f"{path} has no header: {place} numbers ({shown(written[0])}, …) instead of column names; "
            "add a header, or train with --no-header (data.header = false)"
        )


def _with_index(fields: list[str]) -> list[str]:
    """Name the first column index if it has no name, as pandas writes it."""
    nameless = len(fields) > 1 and not fields[0].strip() and "index" not in fields
    return ["index", *fields[1:]] if nameless else fields


def checked_names(path: Path, fields: Sequence[str]) -> list[str]:
    """Return the names of columns; raises InputError if there are none or too many, or if one is missing or occurs twice."""
    if not fields:
        raise InputError(f"{path} is empty: it should start with the column names")
    if len(fields) > MOST_COLUMNS:
        raise too_large(path, f"{len(fields):,} columns", MOST_COLUMNS)
    names = [" ".join(field.split()) for field in fields]  # a line break in a name would break messages
    if "" in names:
        raise InputError(f"{path}: column {names.index('') + 1} has no name; give it one, or remove it")
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(f"{path}: {times} columns have the name {shown(name)}; rename or remove them")
    return names
