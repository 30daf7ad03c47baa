"""New inputs for a trained network, read from files in the form of its training data."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError
from highwaynet.data.array_files import read_inputs
from highwaynet.data.image_folder import SUFFIXES, ImageForm, read_images
from highwaynet.data.record import DataRecord
from highwaynet.data.sources import TABLE_SUFFIXES
from highwaynet.data.tables import TableEncoder, read_table


def read_new_inputs(paths: list[Path], record: DataRecord) -> tuple[list[str], NDArray[Any]]:
    """A name for each sample (its file, or file and row) and the raw inputs (samples, ...) of all files together."""
    images = [path for given in paths for path in _images_in(given)]
    if images and len(images) < len(paths):
        raise InputError("give images, or arrays and tables, not both at once")
    if images:
        return [str(path) for path in images], _read_images(images, record)
    names: list[str] = []
    parts = []
    for path in paths:
        part = _read_rows(path, record)
        names += [f"{path}:{row}" for row in range(1, len(part) + 1)]
        parts.append(part)
    return names, np.concatenate(parts)


def _images_in(path: Path) -> list[Path]:
    if path.is_dir() and not any(path.glob("*.npy")):
        found = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and not file.name.startswith("."))
        if not found:
            raise InputError(f"{path}: no images (PNG, JPEG, WebP) in this folder")
        return found
    return [path] if path.suffix.lower() in SUFFIXES else []


def _read_images(paths: list[Path], record: DataRecord) -> NDArray[Any]:
    if record.kind != "images" or record.input_shape[0] not in {1, 3}:
        raise InputError(f"{paths[0]}: the run was trained on {record.kind}, not on images; give it a file of that form")
    raw = read_images(paths, ImageForm(*record.input_shape))
    # Pixels of a file go to 255; those of digits, for instance, to 16.
    return raw if record.full_scale == 255 else raw.astype(np.float32) * np.float32(record.full_scale / 255)


def _read_rows(path: Path, record: DataRecord) -> NDArray[Any]:
    if path.name.lower().endswith(TABLE_SUFFIXES):
        if record.kind != "table":
            raise InputError(f"{path}: the run was trained on {record.kind}, not on a table; give it a file of that form")
        return TableEncoder.from_json(record.encoder or {}).encode(read_table(path, training=False))
    if record.kind == "table":
        raise InputError(f"{path}: the run was trained on a table; give it a .csv, .tsv or .parquet file with the same columns")
    inputs = read_inputs(path)
    if tuple(inputs.shape[1:]) != record.input_shape:
        wanted = "×".join(map(str, record.input_shape))
        raise InputError(f"{path}: samples of {'×'.join(map(str, inputs.shape[1:]))} values; the run was trained on {wanted}")
    return inputs
