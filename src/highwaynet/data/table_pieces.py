"""Tables of any length, some thousand rows at a time. Does not import torch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from highwaynet.base.errors import InputError
from highwaynet.base.text import either
from highwaynet.data.cells import cell, plain_numbers
from highwaynet.data.table_files import TABLE_READERS, Column, ParquetTable, Table, need_pyarrow, parquet_told, typed
from highwaynet.data.text_rows import BadRows, TextRows, opened, text_rows

ROWS = 4096
"""Rows of a piece; a multiple of the batch size, so that batches do not depend on the pieces."""

Choose = Callable[[list[str]], Sequence[tuple[str, str]]]
"""A function of the names in a file; returns which of its columns to read, each with the name that it gets."""


def table_pieces(path: Path, choose: Choose, *, header: bool = True, bad: BadRows | None = None) -> Iterator[Table]:
    """Read a table in pieces. Each column is what its cells in the piece are, with numbers that may be infinite.

    Args:
        path: The file; see `read_table`.
        choose: Chooses columns; it may raise InputError.
        header: Whether the first line has the column names; without it, they are column-1, column-2, …
        bad: Gets the rows that cannot be read; by default, the first one raises InputError.

    Raises:
        InputError: If the file cannot be read as a table, or has no rows.
        HighwayError: If a Parquet file is to be read and pyarrow is not installed.
    """
    if not path.name.lower().endswith(tuple(TABLE_READERS)):
        raise InputError(f"{path} is not a table: its name should end in {either(TABLE_READERS)}")
    stored = path.name.lower().endswith(".parquet")
    pieces = _parquet_pieces(path, choose, header) if stored else _text_pieces(path, choose, header, bad)
    empty = True
    for piece in pieces:
        empty = False
        yield piece
    if empty and not (bad and bad.count):
        raise InputError(f"{path} has columns, but no rows: add some")


def _text_pieces(path: Path, choose: Choose, header: bool, bad: BadRows | None) -> Iterator[Table]:
    with text_rows(path, header=header) as text:
        chosen = choose(text.names)
        rows = text.checked(bad)
        while piece := list(islice(rows, ROWS)):
            numbers, fields = zip(*piece, strict=True)
            cells = dict(zip(text.names, zip(*fields, strict=True), strict=True))
            columns = tuple(_column(text, cells[name], given) for name, given in chosen)
            yield Table(columns, len(piece), str(path), np.array(numbers, dtype=np.int64))


def _column(text: TextRows, cells: Sequence[str], name: str) -> Column:
    """Make a column; decimal commas stay as they are written, because the other pieces may have none."""
    commas = text.delimiter != ","
    there = np.fromiter(map(bool, cells), np.bool_, len(cells))  # cells that are not empty
    if (numbers := plain_numbers([written for written in cells if written])) is not None:
        values, texts = np.full(len(cells), np.nan), np.array(cells, dtype=object)
        values[there], texts[~there] = numbers, None
        return Column(name, "number", values, texts, commas)
    known = {written: cell(written) for written in set(cells)}
    column = typed(name, [known[written] for written in cells])
    return Column(name, column.kind, column.values, column.texts, commas)


def _parquet_pieces(path: Path, choose: Choose, header: bool) -> Iterator[Table]:
    arrow, _ = need_pyarrow(path, header)
    with opened(path, None) as stream, parquet_told(arrow, path):
        file = ParquetTable.opened(stream, path)
        chosen = dict(choose(file.names))
        fields = [field for name, field in zip(file.names, file.fields, strict=True) if name in chosen]
        done = 0
        for rows in _joined(arrow, file.stored.iter_batches(ROWS, columns=fields)):
            rows.validate(full=True)
            columns = (Column(chosen[old.name], old.kind, old.values, old.texts, fixed=old.fixed) for old in file.columns(rows, chosen))
            yield Table(tuple(columns), rows.num_rows, str(path), np.arange(done + 1, done + rows.num_rows + 1))
            done += rows.num_rows


def _joined(arrow: Any, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield tables of ROWS rows, and a last one; batches end where a group of rows ends in the file."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        while sum(part.num_rows for part in waiting) >= ROWS:
            whole = arrow.Table.from_batches(waiting)
            yield whole.slice(0, ROWS)
            waiting = [part for part in whole.slice(ROWS).to_batches() if part.num_rows]
    if any(part.num_rows for part in waiting):
        yield arrow.Table.from_batches(waiting)
