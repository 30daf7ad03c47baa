"""Float32 arrays as fields of records, stored in an .npz file next to the JSON file. Does not import torch."""

import io
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, PlainSerializer, PlainValidator

from highwaynet.base.files import sha256

Numbers = npt.NDArray[np.float32]
CHECKSUM = "arrays_sha256"
"""The field of the JSON file with the checksum of its arrays."""


def _read(value: Any) -> Numbers:
    if isinstance(value, np.ndarray):
        return value.astype(np.float32)
    return np.array(value, dtype=np.float64).astype(np.float32)  # None becomes NaN


def _lists(array: Numbers) -> Any:
    """Convert to nested lists for JSON, with None for NaN and infinity, which JSON does not have."""
    exact = array.astype(object)
    exact[~np.isfinite(array)] = None
    return exact.tolist()


Array = Annotated[Numbers, PlainValidator(_read), PlainSerializer(_lists, when_used="json")]
"""A field with an array of any shape; NaN marks missing numbers, for instance beyond the end of a thinner layer."""


class Axes:
    """Names of the axes of an array field, written into its annotation; a number is a fixed length.

    Axes with the same name have the same length. If the record has a tuple field of this name, that is its length.
    """

    def __init__(self, *names: str | int) -> None:
        self.names = names


def check_axes(record: BaseModel) -> None:
    """Raise ValueError if the arrays of a record do not have the axes that their annotations name."""
    lengths: dict[str | int, int] = {}
    for name in type(record).model_fields:
        if isinstance(value := getattr(record, name), tuple):
            lengths[name] = len(value)
    for name, field in type(record).model_fields.items():
        for axes in (mark for mark in field.metadata if isinstance(mark, Axes)):
            shape = getattr(record, name).shape
            known = [axis if isinstance(axis, int) else lengths.get(axis) for axis in axes.names]
            if len(shape) != len(known) or any(length not in {None, size} for length, size in zip(known, shape, strict=True)):
                raise ValueError(f"{name} has the shape {shape}, not ({', '.join(map(str, axes.names))})")
            lengths |= dict(zip(axes.names, shape, strict=True))


def array_fields(record: BaseModel) -> dict[str, Numbers]:
    """Return the array fields of a record by name."""
    return {name: value for name in type(record).model_fields if isinstance(value := getattr(record, name), np.ndarray)}


def pack(arrays: dict[str, Numbers]) -> bytes:
    """Return the bytes of an .npz file with these arrays; equal arrays give equal bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(content: bytes, checksum: object) -> dict[str, Numbers]:
    """Read the arrays from the bytes of an .npz file; raises ValueError if the checksum does not match."""
    if sha256(content) != checksum:
        raise ValueError("the arrays are not those of the record")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # zipfile, zlib and numpy raise errors of many kinds for damaged files
        raise ValueError(f"the arrays are damaged: {error}") from error
