"""A first look at the user's own data: as much as the choice of a network and its settings needs. Does not import torch."""

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.base.files import cannot, refuse_pipe
from highwaynet.data.array_files import read_arrays
from highwaynet.data.cells import too_large
from highwaynet.data.formats import format_of
from highwaynet.data.image_folder import glance_at_images, looks_like_image_folder
from highwaynet.data.memory import source_in_memory
from highwaynet.data.names import Kind
from highwaynet.data.sources import Source
from highwaynet.data.spec import DataSpec
from highwaynet.data.table_files import MOST_BYTES

CHUNK = 2**20


@dataclass(frozen=True)
class Glance:
    """What is known about the user's own data before they are read."""

    kind: Kind
    """images, features or table."""
    samples: int
    """Number of samples, without an official test part; for tables in text files the number of lines."""
    size: tuple[int, int] | None = None
    """Images: height and width; the median if they differ."""
    from_files: bool = False
    """Images: whether they are read from image files, which can be resized."""
    alike: bool = True
    """Images: whether all of them have the same size."""
    grey: bool = False
    """Images: whether all of them are grey."""
    classes: tuple[str, ...] = ()
    """Names of the classes, if they are known already."""


def glance(spec: DataSpec, data: Any = None) -> Glance | None:
    """Look at the user's own data; None if they cannot be read, so that reading them reports why.

    Args:
        spec: Settings of the data.
        data: The data, if they are in memory.
    """
    try:
        if data is not None:
            return _of_source(source_in_memory(data, spec))
        path = Path(spec.name)
        match format_of(path) if path.exists() else None:
            case "table":
                return Glance("table", _rows(path))
            case "arrays":
                arrays = read_arrays(path, spec.task)
                shape = arrays.train.inputs.shape
                return _of_arrays(shape, arrays.class_names)
            case "images" if looks_like_image_folder(path):
                return _of_folder(path, spec)
    except HighwayError:
        return None
    return None


def _of_folder(path: Path, spec: DataSpec) -> Glance:
    counts, sizes, grey = glance_at_images(path)
    heights, widths = (sorted(size[axis] for size in sizes) for axis in (0, 1))
    median = heights[len(heights) // 2], widths[len(widths) // 2]
    grey = spec.colour == "grey" or (grey and spec.colour != "colour")
    alike = len(set(sizes)) == 1
    return Glance("images", sum(counts.values()), spec.resize or median, True, alike, grey, tuple(counts))


def _of_source(source: Source) -> Glance:
    if source.table is not None:
        return Glance("table", len(source.samples), classes=source.class_names)
    return _of_arrays(source.samples.inputs.shape, source.class_names)


def _of_arrays(shape: tuple[int, ...], classes: tuple[str, ...]) -> Glance:
    if len(shape) != 4:
        return Glance("features", shape[0], classes=classes)
    samples, channels, height, width = shape
    return Glance("images", samples, (height, width), grey=channels == 1, classes=classes)


def _rows(path: Path) -> int:
    """Count the rows of a table, without reading its cells; quoted line breaks count as rows."""
    refuse_pipe(path)
    if path.name.lower().endswith(".parquet"):
        try:
            return int(import_module("pyarrow.parquet").ParquetFile(str(path)).metadata.num_rows)
        except Exception as error:  # reading the table reports it
            raise InputError(f"cannot read {path}") from error
    opened: Callable[..., Any] = gzip.open if path.name.lower().endswith(".gz") else open
    size = lines = 0
    try:
        with opened(path, "rb") as stream:
            while chunk := stream.read(CHUNK):
                size, lines = size + len(chunk), lines + chunk.count(b"\n")
                if size > MOST_BYTES:
                    raise too_large(path, "too many bytes after decompression", MOST_BYTES)
        return max(1, lines - 1)
    except (OSError, EOFError, zlib.error) as error:
        raise cannot("read", path, error) if isinstance(error, OSError) else InputError(f"cannot read {path}") from error
