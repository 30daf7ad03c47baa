"""The forms of arrays that are inputs of networks. Does not import torch."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError

KEPT = (np.dtype(np.uint8), np.dtype(np.float32))
"""Types that stay as they are; others become float32."""


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


def converted(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return a contiguous copy, or the array itself if it is contiguous: uint8 and float32 as they are, other types as float32."""
    with failure_told(where), np.errstate(all="ignore"):  # values too large for float32 become infinite, which is checked later
        return np.ascontiguousarray(array, dtype=array.dtype if array.dtype in KEPT else np.float32)


def finite_rows(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows are finite, (n,)."""
    if rows.dtype.kind != "f":
        return np.ones(len(rows), np.bool_)
    finite: NDArray[np.bool_] = np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)
    return finite


def not_finite(where: str, row: int) -> InputError:
    """Return the error for a row with a value that is not finite."""
    return InputError(f"{where} has a value that is not a finite float32 number in row {row} (counted from 0): repair or remove the row")
