"""Data in memory: converts arrays, tensors or a data frame to a `Source`, as for files. Does not import torch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError
from highwaynet.data.array_files import PAIRS, QUADRUPLES, pair_up
from highwaynet.data.sources import Source, source_of_arrays, source_of_table
from highwaynet.data.spec import DataSpec
from highwaynet.data.table_files import Table, table_of

FORMS = 'a pair (inputs, targets), a mapping with x and y, or a data frame with its target, (frame, "column")'


def target_in(data: Any) -> str | None:
    """Return the name of the target that is given with a data frame, (frame, "price") or (frame, values); None for other data."""
    if not _is_framed(data):
        return None
    if isinstance(data[1], str):
        return data[1]
    values = data[1]
    name = _columns(values)[0] if is_frame(values) and len(_columns(values)) else getattr(values, "name", None)
    return str(name) if isinstance(name, str | int) else "target"


def _is_framed(data: Any) -> bool:
    """Whether data are a data frame, or a mapping of columns, together with a target."""
    return isinstance(data, tuple | list) and len(data) == 2 and (is_frame(data[0]) or isinstance(data[0], Mapping)) and data[1] is not None


def source_in_memory(data: Any, spec: DataSpec) -> Source:
    """Convert data in memory to a `Source`.

    Args:
        data: A pair (inputs, targets) of arrays, tensors or lists: features (samples, features), or images (samples, height, width) or
            (samples, channels, height, width). Or four of them, the last two for testing; or a mapping with the names that .npz files
            use (x, y, or x_train, y_train, x_test, y_test). Or a data frame, or a mapping of columns, with the name of the column to
            predict or with its values, (frame, "price") or (frame, prices); without it, if `spec.target` names the column.
        spec: Target, task and division.

    Raises:
        InputError: If the form is unknown, lengths differ, or values are not finite.
    """
    if isinstance(data, Source):
        return data
    if spec.header is not None:
        raise InputError("data.header: this is for .csv files; data in memory have the names of their columns; leave it out")
    if spec.target is not None:
        return source_of_table(spec, _with_target(data, spec.target) if _is_framed(data) else as_table(data), "data")
    if is_frame(data[0] if isinstance(data, tuple | list) and len(data) == 2 else data):
        data = data[0] if isinstance(data, tuple | list) else data
        names = ", ".join(map(str, _columns(data)))
        raise InputError(f"data: name the column of the data frame to predict, (frame, column); it has {names}")
    if spec.ignore is not None or spec.use is not None:
        raise InputError(f"data.{'use' if spec.ignore is None else 'ignore'}: this is for tables, and the data are arrays; leave it out")
    arrays = _named(data)
    where = {name: f"data[{name!r}]" if isinstance(data, Mapping) else name for name in arrays}
    stored = {name: as_array(array, where[name]) for name, array in arrays.items()}
    return source_of_arrays(pair_up(stored, where, spec.task))


def _with_target(data: Any, target: str) -> Table:
    frame, values = data
    table = as_table(frame)
    if isinstance(values, str):
        return table
    if is_frame(values):
        if len(_columns(values)) != 1:
            raise InputError(f"data: the target has {len(_columns(values))} columns; give one, by name or as values")
        values = values[_columns(values)[0]]
    index, other = (getattr(part, "index", None) for part in (frame, values))
    if index is not None and hasattr(index, "equals") and other is not None and not callable(other) and not index.equals(other):
        raise InputError("data: the target has another index than the data frame, so that rows would be mixed up; align them first")
    if target in {column.name for column in table.columns}:
        raise InputError(f"data: the data frame has a column {target!r}, which is also the name of the target; rename one of them")
    (column,) = as_table({target: values}).columns
    if len(column.values) != table.rows:
        counts = f"{table.rows:,} rows and the target has {len(column.values):,}"
        raise InputError(f"data: the data frame has {counts}: the numbers must be equal")
    return replace(table, columns=(*table.columns, column))


def is_frame(data: Any) -> bool:
    """Whether something is a data frame, such as those of pandas, Polars or PyArrow."""
    return not isinstance(data, Mapping) and (hasattr(data, "to_pydict") or (hasattr(data, "columns") and hasattr(data, "to_dict")))


def as_table(data: Any) -> Table:
    """Convert a mapping of columns or a data frame to a table; raises InputError for anything else."""
    if isinstance(data, Table):
        return data
    if isinstance(data, Mapping):
        columns = {str(name): values for name, values in data.items()}
    elif is_frame(data):
        names = [str(name) for name in _columns(data)]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"data: the data frame has two columns {twice!r}; rename one of them")
        columns = {str(name): data[name] for name in _columns(data)}
    else:
        raise InputError(f"data of type {type(data).__name__}: a table is needed, a mapping of column names to values, or a data frame")
    if not columns:
        raise InputError("data: the table has no columns")
    return table_of({name: _plain(values, name) for name, values in columns.items()})


def _columns(frame: Any) -> list[Any]:
    return list(frame.column_names if hasattr(frame, "to_pydict") else frame.columns)


def _plain(values: Any, name: str) -> Any:
    """Convert a column to an array if it has numbers, otherwise to a list of Python values."""
    if hasattr(values, "to_pylist"):  # PyArrow
        return values.to_pylist()
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise InputError(f"data: the column {name!r} is a {type(values).__name__}; give a list of values, one for each row")
    if not hasattr(values, "__array__"):
        return list(values)
    found = as_array(values, f"the column {name!r}", empty=True) if hasattr(values, "detach") else np.asarray(values)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        raise InputError(f"data: the column {name!r} has shape {found.shape}; give one value for each row")
    return found if found.dtype.kind in "iuf" else list(values if len(values) == len(found) else found)


def _named(data: Any) -> dict[str, Any]:
    """Return the arrays by name, in the order inputs, targets, test inputs, test targets."""
    if isinstance(data, Mapping):
        for names in (*PAIRS, *QUADRUPLES):
            if set(names) == set(data) or set(names[:2]) == set(data):
                return {name: data[name] for name in names if name in data}
        raise InputError(f"data with the names {', '.join(map(repr, data))}: give {FORMS}")
    if isinstance(data, tuple | list) and len(data) in {2, 4}:
        return dict(zip(("inputs", "targets", "test inputs", "test targets"), data, strict=False))
    raise InputError(f"data of type {type(data).__name__}: give {FORMS}")


def as_array(values: Any, where: str, *, empty: bool = False) -> NDArray[Any]:
    """Convert an array, a tensor or lists to an array of numbers or strings; raises InputError if it is empty, unless `empty`."""
    try:
        if hasattr(values, "detach"):  # a tensor; numpy has no bfloat16
            tensor = values.detach().cpu()
            values = (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
        reason = "rows of different lengths" if isinstance(error, ValueError) else f"a {type(values).__name__} of this kind"
        raise InputError(f"{where}: {reason} cannot be converted to an array") from error
    if array.dtype.kind == "O" and array.size and all(isinstance(value, str) for value in array.flat):
        array = array.astype(np.str_)
    if array.dtype.kind not in "biufUS":
        raise InputError(f"{where} has elements of type {array.dtype}: numbers are needed, or strings as targets")
    if not empty and (array.ndim == 0 or min(array.shape) < 1):
        raise InputError(f"{where} has shape {array.shape}: at least one sample with at least one value is needed")
    return array
