"""The forms of arrays that are inputs of networks. Does not import torch."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError

KEPT = (np.dtype(np.uint8), np.dtype(np.float32))
"""Types that stay as they are; others become float32, or float64 if they are features with more digits than float32 has."""
LARGEST = float(np.finfo(np.float32).max)
"""Larger values are refused: networks compute in float32, and squares of values are summed."""


@contextmanager
def failure_told(where: str) -> Iterator[None]:
    """Turn any error that numpy and zipfile raise for a damaged file into an InputError."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"{where} does not fit into memory: save it as a float32 or uint8 .npy file, which stays on disk") from error
    except Exception as error:  # zipfile, zlib and the parsing of headers raise errors of many kinds
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"cannot read {where}: {error.strerror}") from error
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InputError(f"{where} is damaged ({reason}): save it again") from error


def shaped_inputs(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return a view (n, channels, height, width) or (n, features); raises InputError if the array has no such form, or no numbers."""
    if array.dtype.kind not in "biuf":
        raise InputError(f"{where} contains strings: inputs must be numbers")
    if array.ndim == 3:
        return array[:, np.newaxis]  # (n, 1, height, width)
    if array.ndim == 4 and array.shape[3] in {1, 3} and array.shape[1] not in {1, 3}:
        return array.transpose(0, 3, 1, 2)  # channels were last
    if array.ndim not in {2, 4}:
        raise InputError(f"{where} has shape {array.shape}: expected (n, features), (n, height, width) or (n, channels, height, width)")
    return array


def kept_type(array: NDArray[Any]) -> np.dtype[Any]:
    """Return the type that inputs get: that of the array if it is uint8 or float32, otherwise float32.

    Features (n, features) of a type with more digits than float32, such as float64 and int64, become float64: values with a large offset,
    for instance seconds since 1970, would lose their differences. They are standardised first, and become float32 then.
    """
    if array.dtype in KEPT:
        return array.dtype
    exact = np.can_cast(array.dtype, np.float32)
    return np.dtype(np.float32 if array.ndim != 2 or exact else np.float64)


def converted(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return a contiguous copy with the type of `kept_type`, or the array itself if it is contiguous and has it."""
    with failure_told(where), np.errstate(all="ignore"):  # values too large for float32 become infinite, which is checked later
        return np.ascontiguousarray(array, dtype=kept_type(array))


def finite_rows(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows are finite also in float32, (n,)."""
    if rows.dtype.kind != "f":
        return np.ones(len(rows), np.bool_)
    finite: NDArray[np.bool_] = (np.abs(rows.reshape(len(rows), -1)) <= LARGEST).all(axis=1)  # False for NaN
    return finite


def not_finite(where: str, row: int) -> InputError:
    """Return the error for a row with a value that is not finite."""
    return InputError(f"{where} has a value that is not a finite float32 number in row {row} (counted from 0): repair or remove the row")
