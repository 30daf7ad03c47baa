"""Reads new inputs for a trained network from files, in the form of its training data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError
from highwaynet.data.array_files import read_inputs
from highwaynet.data.image_folder import SUFFIXES, ImageForm, images_below, read_images
from highwaynet.data.record import DataRecord
from highwaynet.data.sources import TABLE_SUFFIXES
from highwaynet.data.table_files import Table, read_table


def read_new_inputs(paths: list[Path], record: DataRecord) -> Iterator[tuple[list[str], NDArray[Any] | Table]]:
    """Yield for each file, or for all images together: names of the samples, and raw inputs (samples, ...) or a table.

    A name is the file, or the file and the row.
    """
    images = [_images_in(path) for path in paths]
    if any(images) and not all(images):
        raise InputError("give either images, or arrays and tables, not both")
    if any(images):
        files = [file for found in images for file in found]
        yield [str(file) for file in files], _read_images(files, record)
        return
    for path in paths:
        inputs = _read_rows(path, record)
        count = inputs.rows if isinstance(inputs, Table) else len(inputs)
        yield [f"{path}:{row}" for row in range(1, count + 1)], inputs


def _images_in(path: Path) -> list[Path]:
    if path.is_dir() and not any(path.glob("*.npy")):
        found = sorted(images_below(path, path.resolve()))
        if not found:
            raise InputError(f"{path}: no images (PNG, JPEG, WebP) in this folder")
        return found
    return [path] if path.suffix.lower() in SUFFIXES else []


def _read_images(paths: list[Path], record: DataRecord) -> NDArray[Any]:
    if record.kind != "images" or record.input_shape[0] not in {1, 3}:
        raise InputError(f"{paths[0]}: the run was trained on {record.kind}, not on images; give it a file of that form")
    raw = read_images(paths, ImageForm(*record.input_shape))
    # Pixels of image files range to 255; those of digits, for instance, to 16.
    return raw if record.full_scale == 255 else raw.astype(np.float32) * np.float32(record.full_scale / 255)


def _read_rows(path: Path, record: DataRecord) -> NDArray[Any] | Table:
    if path.name.lower().endswith(TABLE_SUFFIXES):
        if record.kind != "table":
            raise InputError(f"{path}: the run was trained on {record.kind}, not on a table; give it a file of that form")
        return read_table(path, training=False)
    if record.kind == "table":
        raise InputError(f"{path}: the run was trained on a table; give it a .csv, .tsv or .parquet file with the same columns")
    inputs = read_inputs(path)
    if tuple(inputs.shape[1:]) != record.input_shape:
        wanted = "×".join(map(str, record.input_shape))
        raise InputError(f"{path}: samples of {'×'.join(map(str, inputs.shape[1:]))} values; the run was trained on {wanted}")
    if record.kind == "images" and record.full_scale == 255 and inputs.dtype != np.uint8 and inputs.size and inputs.max() <= 1:
        raise InputError(f"{path}: values up to {inputs.max():g}; the run was trained on pixels from 0 to 255")
    if record.kind == "images" and record.full_scale == 1 and inputs.dtype == np.uint8:
        raise InputError(f"{path}: pixels from 0 to 255; the run was trained on values of another range: scale them to it first")
    return inputs
