"""Arrays of float32 as fields of records: kept beside the JSON file, not in it. Free of torch."""

import io
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, PlainSerializer, PlainValidator

from highwaynet.base.files import sha256

Numbers = npt.NDArray[np.float32]
CHECKSUM = "arrays_sha256"
"""The field of the JSON file that ties it to its arrays."""


def _read(value: Any) -> Numbers:
    if isinstance(value, np.ndarray):
        return value.astype(np.float32)
    return np.array(value, dtype=np.float64).astype(np.float32)  # None becomes NaN


def _lists(array: Numbers) -> Any:
    """Nested lists for JSON, which knows no NaN: None stands for it."""
    exact = array.astype(object)
    exact[~np.isfinite(array)] = None
    return exact.tolist()


Array = Annotated[Numbers, PlainValidator(_read), PlainSerializer(_lists, when_used="json")]
"""A field that holds numbers of any shape; NaN where there is none, for instance beyond the end of a thinner layer."""


def array_fields(record: BaseModel) -> dict[str, Numbers]:
    """The arrays of a record by field."""
    return {name: value for name in type(record).model_fields if isinstance(value := getattr(record, name), np.ndarray)}


def pack(arrays: dict[str, Numbers]) -> bytes:
    """The arrays as the bytes of an .npz file, the same for the same numbers."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(content: bytes, checksum: object) -> dict[str, Numbers]:
    """The arrays again; raises ValueError if the bytes are not those that belong to the checksum."""
    if sha256(content) != checksum:
        raise ValueError("the arrays are not those of the record")
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
