"""What users pass to an estimator (arrays, data frames, weights) as a `Source` for training, and as arrays or tables for prediction."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, time
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from highwaynet.base.errors import DataError, InputError
from highwaynet.data.array_forms import LARGEST
from highwaynet.data.cells import number_in, shown
from highwaynet.data.memory import as_table, is_frame
from highwaynet.data.names import LabelKind, Task
from highwaynet.data.samples import Samples
from highwaynet.data.sources import Source
from highwaynet.data.table_files import Table, table_of

TRUTH = {"true": 1.0, "false": 0.0}
"""Truth values, as tables have them, where the data in fit had numbers."""

Features = NDArray[np.float64] | Table
"""Rows of numbers (samples, features); a table if there are categories, texts, dates or gaps."""
GAPS = frozenset({"NAType", "NaTType"})
"""Types of the gaps that only pandas has."""


@contextmanager
def value_errors() -> Iterator[None]:
    """Context manager: errors about data become ValueErrors, as scikit-learn expects."""
    try:
        yield
    except DataError:
        raise
    except InputError as error:
        raise DataError(str(error)) from error


def checked(estimator: BaseEstimator, x: Any, *, known: bool | None, least: int = 1) -> Features:
    """Check the inputs of `fit` or `predict`, and return them as numbers or as a table.

    Args:
        estimator: Gets `n_features_in_` and `feature_names_in_` if nothing is known yet; otherwise they are compared.
        x: An array, a list of rows or a data frame.
        known: Whether the network was fitted with a table; None if it is fitted for the first time, so that the form follows from `x`.
        least: Smallest number of rows.

    Raises:
        ValueError: If the inputs are not a table of numbers and categories, or not like those in training.
    """
    first = known is None
    if (isinstance(x, Mapping) and not hasattr(x, "nnz")) or hasattr(x, "collect"):  # not a sparse matrix; or a lazy frame of Polars
        raise DataError(f"X is a {type(x).__name__}: pass a data frame or an array instead")
    if is_frame(x) or _has_texts(x):
        if not is_frame(x):
            x = np.asarray(x)
            x = (x.astype("M8[us]") if x.dtype.kind == "M" else x).astype(object)  # dates of other units become numbers
            check_array(x, dtype=None, ensure_all_finite=False, ensure_min_samples=least)
        validate_data(estimator, x, skip_check_array=True, reset=first)
        with value_errors():
            table = as_table(x) if is_frame(x) else _named_columns(x)
        if table.rows < least:
            raise DataError(f"Found array with {table.rows} sample(s) (shape=({table.rows}, …)) while a minimum of {least} is required.")
        return table if known or (first and not _numbers_only(table)) else _within_limits(_numbers_of(table))
    gaps: Any = "allow-nan"
    numbers = np.asarray(validate_data(estimator, x, dtype=np.float64, ensure_all_finite=gaps, ensure_min_samples=least, reset=first))
    if known or (first and np.isnan(numbers).any()):
        return _named_columns(numbers)
    if np.isnan(numbers).any():
        raise _gap(f"column {np.isnan(numbers).any(0).argmax()} (counted from 0)")
    return _within_limits(numbers)


def _numbers_only(table: Table) -> bool:
    return all(column.kind == "number" and column.texts is None and not column.missing().any() for column in table.columns)


def _numbers_of(table: Table) -> NDArray[np.float64]:
    """Return the columns of a table as numbers; raises ValueError if one has texts or gaps."""
    found = []
    for column in table.columns:
        missing = column.missing()
        if set(column.values.tolist()) <= TRUTH.keys():
            found.append(np.array([TRUTH[text] for text in column.values.tolist()]))
            continue
        if column.kind != "number":
            text = next(text for text in column.values if text is not None and number_in(text) is None)
            raise DataError(f"X, column {column.name!r}: {shown(text)} where the data in fit had numbers; correct it")
        if missing.any():
            raise _gap(f"column {column.name!r}")
        found.append(column.values)
    return np.column_stack(found)


def _gap(where: str) -> DataError:
    return DataError(f"Input X contains NaN in {where}, and the data in fit had no gaps: fill it, or fit again with gaps.")


def _within_limits(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    if not (np.abs(numbers) <= LARGEST).all():
        raise DataError("Input X contains infinity or a value too large for dtype('float32').")
    return numbers


def _has_texts(x: Any) -> bool:
    """Whether an array or a list of rows has texts, dates, or gaps that numpy does not know."""
    if hasattr(x, "dtype") and getattr(x.dtype, "kind", "f") not in "OUSM":
        return False
    try:
        array = np.asarray(x)
    except (ValueError, TypeError):  # rows of different lengths; scikit-learn reports it
        return False
    if array.ndim != 2:
        return False
    return array.dtype.kind in "USM" or (array.dtype.kind == "O" and any(map(_is_text, array.flat)))


def _is_text(value: Any) -> bool:
    return isinstance(value, str | date | time) or type(value).__name__ in GAPS


def _named_columns(x: NDArray[Any]) -> Table:
    """Return the columns of an array as a table, named by their places."""
    columns: dict[str, Any] = {f"x{place}": x[:, place] for place in range(x.shape[1])}
    if x.dtype.kind == "O":
        columns = {name: values.tolist() for name, values in columns.items()}
    with value_errors():
        return table_of(columns, "X")


def like_training(table: Table, names: tuple[str, ...]) -> Table:
    """Return a table whose columns have the names that they had in training: an array has none of its own."""
    if tuple(column.name for column in table.columns) == names:
        return table
    columns = tuple(replace(column, name=name) for name, column in zip(names, table.columns, strict=True))
    return Table(columns, table.rows, table.source)


def checked_labels(y: Any) -> NDArray[Any]:
    """Return the class labels of the samples, (samples,).

    Raises:
        ValueError: If one is missing, texts are mixed with other values, or they are not classes.
    """
    if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
        y = np.asarray(y, dtype=object)  # numpy would make texts of numbers and gaps
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    missing = np.flatnonzero(_gaps(labels)).tolist()
    if missing:
        count = f"{len(missing)} of {len(labels)} rows, first in row {missing[0]} (counted from 0)"
        raise DataError(f"y is missing in {count}: leave these rows out, or give them a label")
    if labels.dtype.kind == "O":
        text, other = (next((row for row, x in enumerate(labels) if isinstance(x, str) is kind), None) for kind in (True, False))
        if text is not None and other is not None:
            found = f"{labels[text]!r} in row {text} and {labels[other]!r} in row {other} (counted from 0)"
            raise DataError(f"y mixes texts and other values, for instance {found}: make all of them texts, or none")
    check_classification_targets(labels)
    return labels


def _gaps(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels are missing."""
    if labels.dtype.kind == "O":
        return np.array([x is None or type(x).__name__ in GAPS or (isinstance(x, float) and isnan(x)) for x in labels], bool)
    return np.isnan(labels) if labels.dtype.kind in "fM" else np.zeros(len(labels), bool)


def checked_weights(sample_weight: Any, x: Any) -> NDArray[np.float64] | None:
    """Return the weights of the samples; None if all of them are equal.

    Raises:
        ValueError: If their number is wrong, one is negative or not finite, or all are 0.
    """
    if sample_weight is None:
        return None
    count = np.empty((x.rows if isinstance(x, Table) else len(x), 1))
    weights = np.asarray(_check_sample_weight(sample_weight, count, dtype=np.float64, ensure_non_negative=True))
    if not weights.any():
        raise DataError("Sample weights must contain at least one non-zero number.")
    return None if (weights == weights[0]).all() else weights


def source_of(
    x: Features,
    targets: NDArray[Any],
    task: Task,
    *,
    class_names: tuple[str, ...] = (),
    label_kind: LabelKind = "text",
    weights: NDArray[np.float64] | None = None,
    exact: bool = False,
    target_names: tuple[str, ...] = (),
) -> Source:
    """Make the source that an estimator is trained on; samples with weight 0 must have been left out.

    Args:
        x: The inputs.
        targets: (samples,): class numbers, or numbers to predict; (samples, targets) for several.
        task: classification or regression.
        class_names: Names of the classes, in the order of their numbers.
        label_kind: Type of the class labels.
        weights: How much each sample counts.
        exact: Whether a table is encoded in float64, for training in that precision.
        target_names: Names of the targets, if they have names.

    Raises:
        ValueError: If the numbers of samples differ.
    """
    dtype = np.float64 if exact else np.float32
    asked = f"{len(class_names)} classes" if class_names else "a regression"
    table = x if isinstance(x, Table) else None
    check_consistent_length(np.empty(table.rows) if table else x, targets)
    if table is None:
        inputs = np.ascontiguousarray(x)
        found = f"arrays of {len(inputs):,} samples of {inputs.shape[1]} values; {asked}"
    else:
        inputs = np.empty((table.rows, 0), dtype)
        found = f"a table of {table.rows:,} rows"
    samples = Samples(inputs, targets, weights=weights)
    kind: Any = "features" if table is None else "table"
    made = Source(found, kind, task, class_names, samples, table=table, asked=asked, label_kind=label_kind)
    if len(target_names) == 1:
        return replace(made, target_name=target_names[0])
    return replace(made, target_names=target_names)


def selected(x: Features, rows: NDArray[np.int64]) -> Features:
    """Return some rows of the inputs."""
    return x.select(rows) if isinstance(x, Table) else x[rows]


def names_in(y: Any) -> tuple[str, ...]:
    """Return the names of the targets, if `y` is a data frame or a series with names."""
    names: list[Any] = list(y.columns) if is_frame(y) and hasattr(y, "columns") else [getattr(y, "name", None)]
    return tuple(names) if all(isinstance(name, str) and name for name in names) and len(set(names)) == len(names) else ()
