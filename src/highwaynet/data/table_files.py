"""Reads CSV and Parquet files as columns of numbers and categories. Does not import torch.

Messages count rows from 1, without the header.
"""

import csv
import gzip
import io
import math
import re
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import HighwayError, InputError, unknown
from highwaynet.base.files import cannot, read_bytes
from highwaynet.base.text import either
from highwaynet.data.delimiters import delimiter_of

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"})
BOOLEANS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
# Stricter than float(), which also accepts 1_000 and nan. Each part matches in one way only, so that matching takes linear time.
DECIMAL_COMMA = re.compile(r"[+-]?\d+(?:,\d+)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?)", re.ASCII | re.IGNORECASE)
MOST_BYTES = 2**30
MOST_CHARACTERS = 2**24  # in a line
MOST_COLUMNS = 10_000
MOST_CELLS = 100_000_000


@dataclass(frozen=True)
class Column:
    """One column."""

    name: str
    kind: Literal["number", "category"]
    values: NDArray[Any]
    """(rows,): float64 with NaN for missing, or objects: str with None for missing."""
    texts: NDArray[Any] | None = None
    """The cells of a number column as written (01, 1.50), in case they were categories in training; None if the file stores numbers."""
    commas: bool = False
    """Whether its cells may have decimal commas, because another sign separates them."""
    fixed: bool = False
    """Whether the file says that its values are categories, even if all of them are numbers."""

    def missing(self) -> NDArray[np.bool_]:
        """Return a mask (rows,) of the missing values."""
        return np.array(np.isnan(self.values) if self.kind == "number" else [text is None for text in self.values], dtype=np.bool_)

    def written(self) -> list[str | None]:
        """Return its cells as texts, None for missing."""
        cells = self.values if self.kind == "category" else self.texts
        return [written_form(value) for value in self.values] if cells is None else cells.tolist()

    def retyped(self) -> "Column":
        """Return a category column as numbers if all its cells are; a text in rows that were not selected has made it a category column."""
        if self.kind == "number" or self.fixed:
            return self
        cells = _decimal_points(self.values.tolist()) if self.commas else self.values
        values = np.empty(len(cells))  # (rows,)
        for row, text in enumerate(cells):
            number = number_in(text)
            if number is None or math.isinf(number):
                return self
            values[row] = number
        return self if np.isnan(values).all() else replace(self, kind="number", values=values, texts=self.values)


@dataclass(frozen=True)
class Table:
    """Columns of equal length."""

    columns: tuple[Column, ...]
    rows: int
    source: str
    """Name of the file in messages."""

    def column(self, name: str) -> Column:
        """Return the column of this name; raises InputError, which lists the columns, if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise unknown(f"column of {self.source}", name, (column.name for column in self.columns))

    def select(self, rows: NDArray[np.int64]) -> "Table":
        """Return the table with these rows, counted from 0, in this order."""
        chosen = (replace(old, values=old.values[rows], texts=None if old.texts is None else old.texts[rows]) for old in self.columns)
        return Table(tuple(chosen), len(rows), self.source)

    def without(self, *names: str) -> "Table":
        """Return the table without these columns."""
        removed = {self.column(name).name for name in names}
        return replace(self, columns=tuple(column for column in self.columns if column.name not in removed))


def read_table(path: Path, *, header: bool = True) -> Table:
    """Read a table: .csv, .tsv, .csv.gz, .tsv.gz or .parquet.

    Text files are UTF-8; `delimiters.py` says how their delimiter is found. Empty lines, and white space around cells, are ignored. A
    cell is missing if it is empty or NA, N/A, NaN, nan, null, NULL, None or ?. If all other cells of a column are numbers, it is a number
    column, otherwise a category column; True and TRUE become the category true, likewise false. Strings in Parquet are treated in the
    same way; its dictionaries and booleans are categories, its dates and times texts. Unnamed index columns of pandas are left out of
    Parquet, and called index in text files.

    Args:
        path: The file.
        header: Whether the first line has the column names; without it, they are column-1, column-2, …

    Raises:
        InputError: If the file cannot be read as a table.
        HighwayError: If a Parquet file is to be read and pyarrow is not installed.
    """
    reader = next((reader for suffix, reader in TABLE_READERS.items() if path.name.lower().endswith(suffix)), None)
    if reader is None:
        raise InputError(f"{path} is not a table: its name should end in {either(TABLE_READERS)}")
    table = reader(path, header)
    if table.rows == 0:
        raise InputError(f"{path} has columns, but no rows: add some")
    return table


def table_of(columns: Mapping[str, Sequence[Any]], source: str = "the table") -> Table:
    """Make a table from columns in memory, with the types that a file would have; None and NaN are missing, arrays contain numbers."""
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise InputError(f"{source}: give at least one column, and columns of the same length; they have {sorted(lengths)}")
    rows = lengths.pop()
    if rows * len(columns) > MOST_CELLS:
        raise too_large(source, f"{rows * len(columns):,} cells", MOST_CELLS)
    return Table(tuple(_column_of(values, name, source) for name, values in columns.items()), rows, source)


def _column_of(values: Any, name: str, source: str) -> Column:
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iuf":
        return _number_column(Path(source), name, values.astype(np.float64))
    return _typed(Path(source), name, [_text_of(value) for value in values])


def _text_of(value: Any) -> str | None:
    """Return a value as a file would write it."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"} or value != value:  # noqa: PLR0124 (NaN)
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, int | np.integer):
        return str(int(value))
    return repr(float(value)) if isinstance(value, float | np.floating) else _cell(str(value))


def shown(text: str) -> str:
    """Quote a text for a message, shortened to 60 characters."""
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


def too_large(source: object, size: str, limit: int) -> InputError:
    """Return the error for a table that exceeds a limit."""
    return InputError(f"{source} is too large: {size}, the limit is {limit:,}; use fewer rows or columns")


def _content(path: Path) -> bytes:
    try:
        found = path.stat()
    except OSError as error:
        raise cannot("read", path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"cannot read {path}: it is not a file")
    if found.st_size > MOST_BYTES:
        raise too_large(path, f"{found.st_size:,} bytes", MOST_BYTES)
    return read_bytes(path)


def _decompressed(path: Path) -> bytes:
    whole = io.BytesIO()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(_content(path))) as stream:
            while part := stream.read(2**20):
                whole.write(part)
                if whole.tell() > MOST_BYTES:
                    raise too_large(path, "too many bytes after decompression", MOST_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path}: its compression is damaged ({error})") from error
    return whole.getvalue()


def _read_text(path: Path, header: bool) -> Table:
    content = _decompressed(path) if path.name.lower().endswith(".gz") else _content(path)
    if (nul := content.find(b"\0")) >= 0:
        raise InputError(f"cannot read {path}: byte {nul} is NUL, which text cannot contain; save the table as CSV in UTF-8")
    stream = io.BytesIO(content)
    stream.seek(3 if content.startswith(b"\xef\xbb\xbf") else 0)
    delimiter = delimiter_of(content[stream.tell() :], header=header)
    lines = _lines(path, io.TextIOWrapper(stream, encoding="utf-8", newline=""))
    if delimiter == " ":
        lines = (line.strip(" \r\n") + "\n" for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=delimiter == " ")
    try:
        fields = next(filter(None, reader), [])
        if header:
            _refuse_data(path, fields)
        names = _names(path, _with_index(fields) if header else [f"column-{number}" for number in range(1, len(fields) + 1)])
        cells = _cells(path, reader if header else chain([fields], reader), len(names), "header" if header else "first line")
    except UnicodeDecodeError as error:
        place = stream.tell() - len(error.object) + error.start
        raise InputError(f"cannot read {path}: it is not UTF-8 text (byte {place}); save the table as CSV in UTF-8") from error
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}; is a quotation mark wrong?") from error
    commas = delimiter != ","
    columns = (_typed(path, name, _decimal_points(texts) if commas else texts) for name, texts in zip(names, cells, strict=True))
    return Table(tuple(replace(column, commas=commas) for column in columns), len(cells[0]), str(path))


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


def _names(path: Path, fields: Sequence[str]) -> list[str]:
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


def _cells(path: Path, reader: Iterable[list[str]], width: int, first: str) -> list[list[str | None]]:
    """Read the cells of each column."""
    columns: list[list[str | None]] = [[] for _ in range(width)]
    cell = lru_cache(2**14)(_cell)  # faster, and equal cells share their memory
    for row, fields in enumerate(filter(None, reader), 1):
        if len(fields) != width:
            raise InputError(f"{path}, row {row}: {len(fields)} fields, but the {first} has {width}; correct the row")
        if row * width > MOST_CELLS:
            raise too_large(path, f"more than {row - 1:,} rows of {width:,} cells", MOST_CELLS)
        for column, written in zip(columns, fields, strict=True):
            column.append(cell(written))
    return columns


def _decimal_points(cells: list[str | None]) -> list[str | None]:
    """Replace decimal commas, which spreadsheets in much of Europe write, by points if all cells of a column are such numbers."""
    written = [cell for cell in cells if cell is not None]
    if not any("," in cell for cell in written) or not all(DECIMAL_COMMA.fullmatch(cell) for cell in written):
        return cells
    return [cell if cell is None else cell.replace(",", ".") for cell in cells]


def _cell(written: str) -> str | None:
    text = written.strip()
    return None if text in MISSING else BOOLEANS.get(text, text)


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


def _typed(path: Path, name: str, texts: Sequence[str | None]) -> Column:
    cells, values = np.array(texts, dtype=object), np.empty(len(texts))  # both (rows,)
    for row, text in enumerate(texts):
        number = number_in(text)
        if number is None:
            return Column(name, "category", cells)
        values[row] = number
    return _number_column(path, name, values, cells)


def _number_column(path: Path, name: str, values: NDArray[np.float64], texts: NDArray[Any] | None = None) -> Column:
    if (infinite := np.isinf(values)).any():
        raise InputError(f"{path}, row {infinite.argmax() + 1}: {shown(name)} is infinite; correct it or leave it empty")
    return Column(name, "number", values, texts)


def _read_parquet(path: Path, header: bool) -> Table:
    if not header:
        raise InputError(f"data.header = false: {path} is a Parquet file, which has the names of its columns; leave out --no-header")
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise HighwayError("reading Parquet files needs pyarrow: install it with `pip install 'highwaynet[tables]'`") from error
    content = arrow.py_buffer(_content(path))
    try:
        file = parquet.ParquetFile(content)
        fields = [field for field in file.schema_arrow if not re.fullmatch(r"__index_level_\d+__", field.name)]
        names = _names(path, [field.name for field in fields])
        kinds = [_arrow_kind(arrow.types, path, field) for field in fields]
        groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
        if (size := sum(group.total_byte_size for group in groups)) > MOST_BYTES:
            raise too_large(path, f"{size:,} bytes after decompression", MOST_BYTES)
        if (cells := sum(group.num_rows for group in groups) * len(names)) > MOST_CELLS:
            raise too_large(path, f"{cells:,} cells", MOST_CELLS)
        # Strings are read as dictionaries: a file can repeat a long string at no cost.
        strings = [field.name for field, kind in zip(fields, kinds, strict=True) if kind == "string"]
        table = parquet.ParquetFile(content, read_dictionary=strings).read(columns=[field.name for field in fields])
        table.validate(full=True)
        stored = [table.columns[table.column_names.index(field.name)] for field in fields]
        columns = [_arrow_column(arrow, path, *column) for column in zip(names, kinds, stored, strict=True)]
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"cannot read {path}: it is not a Parquet file, or it is damaged ({reason})") from error
    return Table(tuple(columns), int(table.num_rows), str(path))


def _arrow_kind(types: Any, path: Path, field: Any) -> str:
    kind, strings = field.type, {"string", "large_string", "string_view"}
    if types.is_null(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_boolean(kind) or (types.is_dictionary(kind) and str(kind.value_type) in strings):
        return "category"
    if str(kind) in strings:
        return "string"
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind):
        return "date"
    raise InputError(
        f"{path}: the column {shown(field.name)} has the type {kind}, not number, string, boolean or date; convert or remove it"
    )


def _arrow_column(arrow: Any, path: Path, name: str, kind: str, stored: Any) -> Column:
    if kind == "number":
        return _number_column(path, name, np.array(stored.cast(arrow.float64(), safe=False).to_numpy()))
    texts: list[str | None] = []
    for chunk in stored.chunks:
        coded = chunk if arrow.types.is_dictionary(chunk.type) else chunk.cast(arrow.string()).dictionary_encode()
        known = [None if text is None else _cell(text) for text in coded.dictionary.to_pylist()]
        texts += [None if place is None else known[place] for place in coded.indices.to_pylist()]
    if kind == "string":
        return _typed(path, name, texts)
    return Column(name, "category", np.array(texts, dtype=object), fixed=True)


TABLE_READERS: dict[str, Callable[[Path, bool], Table]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".csv.gz": _read_text,
    ".tsv.gz": _read_text,
    ".parquet": _read_parquet,
}
"""How files of tables are read, by how their names end."""
SHORT_SUFFIXES = [suffix for suffix in TABLE_READERS if not suffix.endswith(".gz")]
