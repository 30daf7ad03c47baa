"""The formats of own data: how each is recognised, and how it is read for training and for prediction."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError
from highwaynet.base.text import either
from highwaynet.data.array_files import read_arrays, read_inputs
from highwaynet.data.image_folder import SUFFIXES, ImageForm, images_below, looks_like_image_folder, read_images
from highwaynet.data.record import DataRecord
from highwaynet.data.sources import Source, source_of_arrays, source_of_image_folder, source_of_table
from highwaynet.data.spec import DataSpec
from highwaynet.data.table_files import SHORT_SUFFIXES, TABLE_READERS, Table, read_table

NewInputs = Iterator[tuple[list[str], NDArray[Any] | Table]]
"""Names of samples (file, or file and row), and their raw inputs (samples, ...) or a table."""


@dataclass(frozen=True)
class Format:
    """A format in which people have their data."""

    fits: Callable[[Path], bool]
    """Whether a file or folder has it: a file by its name, a folder by what it holds."""
    source: Callable[[DataSpec, Path], Source]
    """Reads samples with their targets, for training."""
    inputs: Callable[[list[Path], DataRecord], NewInputs]
    """Reads new inputs in the form of the training data, for prediction."""


def read_own(spec: DataSpec, path: Path) -> Source:
    """The samples in the user's own file or folder; raises InputError if it has none of the formats."""
    if not path.exists():
        raise InputError(f"data.name = {str(path)!r}: there is no such file or folder, nor a built-in data set of this name")
    found = _format_of(path)
    if found is None or (found is IMAGES and not looks_like_image_folder(path)):
        raise InputError(
            f"data.name = {str(path)!r}: neither a folder of class folders of images (PNG, JPEG, WebP), nor an .npz file or a folder of "
            f".npy files, nor a table ({', '.join(SHORT_SUFFIXES)})"
        )
    return found.source(spec, path)


def read_new_inputs(paths: list[Path], record: DataRecord) -> NewInputs:
    """New inputs from files in the form of a run's training data, file by file, or all images together."""
    found = [_format_of(path) or ARRAYS for path in paths]
    if all(one is IMAGES for one in found):
        yield from IMAGES.inputs(paths, record)
        return
    if IMAGES in found:
        raise InputError("give images, or arrays and tables, not both at once")
    for one, path in zip(found, paths, strict=True):
        yield from one.inputs([path], record)


def _format_of(path: Path) -> Format | None:
    return next((one for one in FORMATS if one.fits(path)), None)


def _new_images(paths: list[Path], record: DataRecord) -> NewInputs:
    files = [file for path in paths for file in (_images_in(path) if path.is_dir() else [path])]
    if record.kind != "images" or record.input_shape[0] not in {1, 3}:
        raise InputError(f"{files[0]}: the run was trained on {record.kind}, not on images; give it a file of that form")
    raw = read_images(files, ImageForm(*record.input_shape))
    # Pixels of a file go to 255; those of digits, for instance, to 16.
    yield list(map(str, files)), raw if record.full_scale == 255 else raw.astype(np.float32) * np.float32(record.full_scale / 255)


def _images_in(folder: Path) -> list[Path]:
    if found := sorted(images_below(folder, folder.resolve())):
        return found
    raise InputError(f"{folder}: no images (PNG, JPEG, WebP) in this folder")


def _new_rows(paths: list[Path], record: DataRecord) -> NewInputs:
    for path in paths:
        if record.kind != "table":
            raise InputError(f"{path}: the run was trained on {record.kind}, not on a table; give it a file of that form")
        table = read_table(path, training=False)
        yield _numbered(path, table.rows), table


def _new_arrays(paths: list[Path], record: DataRecord) -> NewInputs:
    for path in paths:
        if record.kind == "table":
            raise InputError(f"{path}: the run was trained on a table; give it a {either(SHORT_SUFFIXES)} file with the same columns")
        inputs = read_inputs(path)
        if tuple(inputs.shape[1:]) != record.input_shape:
            wanted = "×".join(map(str, record.input_shape))
            raise InputError(f"{path}: samples of {'×'.join(map(str, inputs.shape[1:]))} values; the run was trained on {wanted}")
        if record.kind == "images" and record.full_scale == 255 and inputs.dtype != np.uint8 and inputs.size and inputs.max() <= 1:
            raise InputError(f"{path}: values up to {inputs.max():g}; the run was trained on pixels from 0 to 255")
        if record.kind == "images" and record.full_scale == 1 and inputs.dtype == np.uint8:
            raise InputError(f"{path}: pixels from 0 to 255; the run was trained on values of another range: bring them to it first")
        yield _numbered(path, len(inputs)), inputs


def _numbered(path: Path, rows: int) -> list[str]:
    return [f"{path}:{row}" for row in range(1, rows + 1)]


TABLES = Format(
    fits=lambda path: path.name.lower().endswith(tuple(TABLE_READERS)) and not path.is_dir(),
    source=lambda spec, path: source_of_table(spec, read_table(path), path),
    inputs=_new_rows,
)
ARRAYS = Format(
    fits=lambda path: any(path.glob("*.npy")) if path.is_dir() else path.suffix.lower() in {".npz", ".npy"},
    source=lambda spec, path: source_of_arrays(read_arrays(path, spec.task)),
    inputs=_new_arrays,
)
IMAGES = Format(
    fits=lambda path: path.is_dir() or path.suffix.lower() in SUFFIXES,
    source=source_of_image_folder,
    inputs=_new_images,
)
FORMATS = (TABLES, ARRAYS, IMAGES)
"""In this order; prediction takes what is in none of them for arrays, whose reader says what is wrong."""
