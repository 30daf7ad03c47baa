"""Reads CSV and Parquet files as columns of numbers and categories. Does not import torch.

Messages count rows from 1, without the header.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import HighwayError, InputError, unknown
from highwaynet.base.text import either
from highwaynet.data.cells import cell, number_in, plain_numbers, shown, too_large, written_form
from highwaynet.data.number_forms import NumberForm, numbers_of
from highwaynet.data.text_rows import checked_names, opened, text_rows

MOST_BYTES = 2**30
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
    form: NumberForm | None = None
    """How the cells of a number column are read, if not as plain numbers."""
    strays: dict[str, int] = field(default_factory=dict)
    """Texts in a number column that count as gaps, and how many cells have each."""

    def missing(self) -> NDArray[np.bool_]:
        """Return a mask (rows,) of the missing values."""
        return np.array(np.isnan(self.values) if self.kind == "number" else [text is None for text in self.values], dtype=np.bool_)

    def written(self) -> list[str | None]:
        """Return its cells as texts, None for missing."""
        cells = self.values if self.kind == "category" else self.texts
        return [written_form(value) for value in self.values] if cells is None else cells.tolist()

    def retyped(self) -> "Column":
        """Return a category column as numbers if its cells are, by the rules of `numbers_of`.

        When a file is read, a column is of numbers only if all its cells are plain numbers; here it may be one of some rows.
        """
        if self.kind == "number" or self.fixed:
            return self
        cells = self.values.tolist()
        if (found := numbers_of(cells, commas=self.commas)) is None:
            return self
        values = np.array([found.numbers.get(text or "", np.nan) for text in cells], dtype=np.float64)  # (rows,)
        return replace(self, kind="number", values=values, texts=self.values, form=found.form, strays=found.strays)


@dataclass(frozen=True)
class Table:
    """Columns of equal length."""

    columns: tuple[Column, ...]
    rows: int
    source: str
    """Name of the file in messages."""
    numbers: NDArray[np.int64] | None = None
    """(rows,): the numbers of the rows in the file, from 1, if these are only some of them."""

    def number(self, row: int) -> int:
        """Return the number in the file, from 1, of a row, counted from 0."""
        return row + 1 if self.numbers is None else int(self.numbers[row])

    def column(self, name: str) -> Column:
        """Return the column of this name; raises InputError, which lists the columns, if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise unknown(f"column of {self.source}", name, (column.name for column in self.columns))

    def select(self, rows: NDArray[np.int64]) -> "Table":
        """Return the table with these rows, counted from 0, in this order."""
        chosen = (replace(old, values=old.values[rows], texts=None if old.texts is None else old.texts[rows]) for old in self.columns)
        return Table(tuple(chosen), len(rows), self.source, None if self.numbers is None else self.numbers[rows])

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
        return refuse_infinite(source, Column(name, "number", values.astype(np.float64)))
    if all(value is None or _is_number(value) for value in values) and any(isinstance(value, _FRACTIONS) for value in values):
        # Numbers that are not written anywhere: how the cells of a file are read does not concern them.
        return refuse_infinite(source, Column(name, "number", np.array(values, dtype=np.float64)))
    return refuse_infinite(source, typed(name, [_text_of(value) for value in values]))


_FRACTIONS = (float, np.floating, Decimal)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer | float | np.floating | Decimal) and not isinstance(value, bool)


def _text_of(value: Any) -> str | None:
    """Return a value as a file would write it."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"} or value != value:  # noqa: PLR0124 (NaN)
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, int | np.integer):
        return str(int(value))
    return repr(float(value)) if isinstance(value, float | np.floating) else cell(str(value))


def _read_text(path: Path, header: bool) -> Table:
    with text_rows(path, header=header, most=MOST_BYTES) as text:
        cells: list[list[str | None]] = [[] for _ in text.names]
        known = lru_cache(2**14)(cell)  # faster, and equal cells share their memory
        for row, fields in text.checked():
            if row * len(cells) > MOST_CELLS:
                raise too_large(path, f"more than {row - 1:,} rows of {len(cells):,} cells", MOST_CELLS)
            for column, written in zip(cells, fields, strict=True):
                column.append(known(written))
    commas = text.delimiter != ","
    columns = (typed(name, texts) for name, texts in zip(text.names, cells, strict=True))
    return Table(tuple(replace(refuse_infinite(path, column), commas=commas) for column in columns), len(cells[0]), str(path))


def typed(name: str, texts: Sequence[str | None]) -> Column:
    """Make a column from cells: of numbers if all of them are numbers or missing, otherwise of categories."""
    cells, values = np.array(texts, dtype=object), np.full(len(texts), np.nan)  # both (rows,)
    present = [text for text in texts if text is not None]
    numbers = plain_numbers(present)
    if numbers is None:
        found = {text: number_in(text) for text in set(present)}
        if None in found.values():
            return Column(name, "category", cells)
        numbers = [found[text] or 0.0 for text in present]
    values[[text is not None for text in texts]] = numbers
    return Column(name, "number", values, cells)


def refuse_infinite(path: Path | str, column: Column) -> Column:
    """Return the column; raises InputError if it has an infinite number."""
    if column.kind == "number" and (infinite := np.isinf(column.values)).any():
        raise InputError(f"{path}, row {infinite.argmax() + 1}: {shown(column.name)} is infinite; correct it or leave it empty")
    return column


def _read_parquet(path: Path, header: bool) -> Table:
    arrow, _ = need_pyarrow(path, header)
    with opened(path, MOST_BYTES) as stream:
        content = arrow.py_buffer(stream.read())
    with parquet_told(arrow, path):
        file = ParquetTable.opened(content, path)
        groups = [file.stored.metadata.row_group(group) for group in range(file.stored.metadata.num_row_groups)]
        if (size := sum(group.total_byte_size for group in groups)) > MOST_BYTES:
            raise too_large(path, f"{size:,} bytes after decompression", MOST_BYTES)
        if (cells := sum(group.num_rows for group in groups) * len(file.names)) > MOST_CELLS:
            raise too_large(path, f"{cells:,} cells", MOST_CELLS)
        table = file.stored.read(columns=file.fields)
        table.validate(full=True)
        columns = file.columns(table, file.names)
    for column in columns:
        refuse_infinite(path, column)
    return Table(tuple(columns), int(table.num_rows), str(path))


def need_pyarrow(path: Path, header: bool) -> tuple[Any, Any]:
    """Return pyarrow and its module for Parquet; raises HighwayError if it is missing, and InputError if there should be no header."""
    if not header:
        raise InputError(f"data.header = false: {path} is a Parquet file, which has the names of its columns; leave out --no-header")
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise HighwayError("reading Parquet files needs pyarrow: install it with `pip install 'highwaynet[tables]'`") from error


@contextmanager
def parquet_told(arrow: Any, path: Path) -> Iterator[None]:
    """Turn the errors of pyarrow into an InputError."""
    try:
        yield
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"cannot read {path}: it is not a Parquet file, or it is damaged ({reason})") from error


@dataclass(frozen=True)
class ParquetTable:
    """An opened Parquet file."""

    path: Path
    stored: Any
    fields: list[str]
    """The names of its columns as they are stored, without index columns of pandas."""
    names: list[str]
    kinds: list[str]

    @classmethod
    def opened(cls, content: Any, path: Path) -> "ParquetTable":
        """Open a file, by its path or its content; strings are read as dictionaries: a file can repeat a long string at no cost."""
        arrow, parquet = need_pyarrow(path, header=True)
        fields = [field for field in parquet.ParquetFile(content).schema_arrow if not re.fullmatch(r"__index_level_\d+__", field.name)]
        names = checked_names(path, [field.name for field in fields])
        kinds = [_arrow_kind(arrow.types, path, field) for field in fields]
        strings = [field.name for field, kind in zip(fields, kinds, strict=True) if kind == "string"]
        return cls(path, parquet.ParquetFile(content, read_dictionary=strings), [field.name for field in fields], names, kinds)

    def columns(self, rows: Any, wanted: Collection[str]) -> list[Column]:
        """Return those of its columns, from rows that were read."""
        arrow, _ = need_pyarrow(self.path, header=True)
        stored = {
            name: rows.column(rows.schema.names.index(field)) for name, field in zip(self.names, self.fields, strict=True) if name in wanted
        }
        kinds = dict(zip(self.names, self.kinds, strict=True))
        return [_arrow_column(arrow, name, kinds[name], column) for name, column in stored.items()]


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


def _arrow_column(arrow: Any, name: str, kind: str, stored: Any) -> Column:
    if kind == "number":
        return Column(name, "number", np.array(stored.cast(arrow.float64(), safe=False).to_numpy()))
    texts: list[str | None] = []
    for chunk in stored.chunks:
        coded = chunk if arrow.types.is_dictionary(chunk.type) else chunk.cast(arrow.string()).dictionary_encode()
        known = [None if text is None else cell(text) for text in coded.dictionary.to_pylist()]
        texts += [None if place is None else known[place] for place in coded.indices.to_pylist()]
    if kind == "string":
        return typed(name, texts)
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
