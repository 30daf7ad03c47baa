"""Data from memory: arrays, tensors or a data frame become the same `Source` that files do. Free of torch."""

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
    """The name of the target that comes with a data frame: (frame, "price"), or (frame, values); None for other data."""
    if not _is_framed(data):
        return None
    return data[1] if isinstance(data[1], str) else str(getattr(data[1], "name", None) or "target")


def _is_framed(data: Any) -> bool:
    """Whether data are a data frame, or a mapping of columns, with its target."""
    return isinstance(data, tuple | list) and len(data) == 2 and (is_frame(data[0]) or isinstance(data[0], Mapping))


def source_in_memory(data: Any, spec: DataSpec) -> Source:
    """What a caller hands over, as samples.

    Args:
        data: A pair (inputs, targets) of arrays, tensors or lists: features (samples, features), or images (samples, height, width) or
            (samples, channels, height, width). Or four of them, the last two for testing; or a mapping with the names that .npz files
            have (x, y, and x_train, y_train, x_test, y_test). Or a data frame, or a mapping of columns, with the name of the column to
            predict, or with its values: (frame, "price") or (frame, prices); alone, if `spec.target` names the column.
        spec: Target, task and division.

    Raises:
        InputError: If the form is unknown, lengths differ, or there are values that are not finite.
    """
    if isinstance(data, Source):
        return data
    if spec.target is not None:
        return source_of_table(spec, _with_target(data, spec.target) if _is_framed(data) else as_table(data), "data")
    if is_frame(data):
        names = ", ".join(map(str, _columns(data)))
        raise InputError(f"data: say which column of the data frame is to be predicted, (frame, column); it has {names}")
    arrays = _named(data)
    where = {name: f"data[{name!r}]" if isinstance(data, Mapping) else name for name in arrays}
    stored = {name: _as_array(array, where[name]) for name, array in arrays.items()}
    return source_of_arrays(pair_up(stored, where, spec.task))


def _with_target(data: Any, target: str) -> Table:
    table = as_table(data[0])
    if isinstance(data[1], str):
        return table
    if target in {column.name for column in table.columns}:
        raise InputError(f"data: the data frame has a column {target!r}, as the target is called; rename one of them")
    (values,) = as_table({target: data[1]}).columns
    if len(values.values) != table.rows:
        raise InputError(
            f"data: the data frame has {table.rows:,} rows and the target has {len(values.values):,}: they must be equally many"
        )
    return replace(table, columns=(*table.columns, values))


def is_frame(data: Any) -> bool:
    """Whether something is a data frame: pandas, Polars, PyArrow or alike."""
    return not isinstance(data, Mapping) and (hasattr(data, "to_pydict") or (hasattr(data, "columns") and hasattr(data, "to_dict")))


def as_table(data: Any) -> Table:
    """A mapping of columns or a data frame as a table; raises InputError for anything else."""
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
    return table_of({name: _plain(values) for name, values in columns.items()})


def _columns(frame: Any) -> list[Any]:
    return list(frame.column_names if hasattr(frame, "to_pydict") else frame.columns)


def _plain(values: Any) -> Any:
    """A column as a sequence of Python values, or as an array if it holds numbers."""
    if hasattr(values, "to_pylist"):  # PyArrow
        return values.to_pylist()
    if hasattr(values, "detach"):  # a tensor
        return values.detach().cpu().numpy()
    found = np.asarray(values) if hasattr(values, "__array__") else None
    return found if found is not None and found.dtype.kind in "iuf" else list(values)


def _named(data: Any) -> dict[str, Any]:
    """The arrays in the order inputs, targets, test inputs, test targets."""
    if isinstance(data, Mapping):
        for names in (*PAIRS, *QUADRUPLES):
            if set(names) == set(data) or set(names[:2]) == set(data):
                return {name: data[name] for name in names if name in data}
        raise InputError(f"data with the names {', '.join(map(repr, data))}: give {FORMS}")
    if isinstance(data, tuple | list) and len(data) in {2, 4}:
        return dict(zip(("inputs", "targets", "test inputs", "test targets"), data, strict=False))
    raise InputError(f"data of type {type(data).__name__}: give {FORMS}")


def _as_array(values: Any, where: str) -> NDArray[Any]:
    """An array of numbers, or of texts, that holds at least one value."""
    if hasattr(values, "detach"):  # a tensor; numpy has no bfloat16
        tensor = values.detach().cpu()
        values = (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{where}: rows of different lengths are not an array") from error
    if array.dtype.kind == "O" and array.size and all(isinstance(value, str) for value in array.flat):
        array = array.astype(np.str_)
    if array.dtype.kind not in "biufUS":
        raise InputError(f"{where} has elements of type {array.dtype}: numbers are needed, or texts as targets")
    if array.ndim == 0 or min(array.shape) < 1:
        raise InputError(f"{where} has shape {array.shape}: at least one sample with at least one value is needed")
    return array
