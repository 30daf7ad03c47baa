"""The formats of user data: how each is recognised, and how it is read for training and for prediction."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError
from highwaynet.base.text import either
from highwaynet.data.array_files import read_arrays, read_inputs
from highwaynet.data.image_folder import SUFFIXES, images_below, looks_like_image_folder
from highwaynet.data.pictures import ImageForm, is_image, read_images
from highwaynet.data.record import DataRecord
from highwaynet.data.sources import Source, source_of_arrays, source_of_image_folder, source_of_table
from highwaynet.data.spec import TABLES_ALONE, DataSpec
from highwaynet.data.table_files import SHORT_SUFFIXES, TABLE_READERS, Table, read_table


def format_of(path: Path) -> Literal["table", "arrays", "images"] | None:
    """The format of a file, by its name, or of a folder, by what it holds; None if it is none of them."""
    if path.is_dir():
        return "arrays" if any(path.glob("*.npy")) else "images"
    if path.name.lower().endswith(tuple(TABLE_READERS)):
        return "table"
    if path.suffix.lower() in {".npz", ".npy"}:
        return "arrays"
    return "images" if path.suffix.lower() in SUFFIXES else None


def find_own(path: Path) -> Path:
    """Return the path of the user's own data; raises InputError if it does not exist."""
    if not path.exists():
        raise InputError(f"data.name = {str(path)!r}: there is no such file or folder, nor a built-in data set of this name")
    return path


def read_own(spec: DataSpec, path: Path) -> Source:
    """The user's own samples, for training; raises InputError if they have none of the formats."""
    form = format_of(find_own(path))
    for field in TABLES_ALONE if form != "table" else ():
        if (value := getattr(spec, field)) is not None:
            raise InputError(f"data.{field} = {_plain(value)}: this is for tables, and {path} is none; leave it out")
    match form:
        case "table":
            return source_of_table(spec, read_table(path, header=spec.header is not False), path)
        case "arrays":
            return source_of_arrays(read_arrays(path, spec.task))
        case "images" if looks_like_image_folder(path):
            return source_of_image_folder(spec, path)
    raise InputError(
        f"data.name = {str(path)!r}: neither a folder of class folders of images (PNG, JPEG, WebP), nor an .npz file or a folder of "
        f".npy files, nor a table ({', '.join(SHORT_SUFFIXES)})"
    )


def _plain(value: Any) -> str:
    return str(list(value) if isinstance(value, tuple) else value).replace("False", "false").replace("True", "true")


def read_new_inputs(paths: list[Path], record: DataRecord) -> Iterator[tuple[list[str], NDArray[Any] | Table]]:
    """Yield for each file, or for all images together: names of the samples, and raw inputs (samples, ...) or a table.

    A name is the file, or the file and the row.
    """
    images = [format_of(path) == "images" for path in paths]
    if any(images) and not all(images):
        raise InputError("give either images, or arrays and tables, not both")
    if any(images):
        files = [file for path in paths for file in (_images_in(path) if path.is_dir() else [path])]
        yield [str(file) for file in files], _read_images(files, record)
        return
    for path in paths:
        inputs = _read_rows(path, record)
        count = inputs.rows if isinstance(inputs, Table) else len(inputs)
        yield [f"{path}:{row}" for row in range(1, count + 1)], inputs


def _images_in(folder: Path) -> list[Path]:
    if found := sorted(images_below(folder, folder.resolve())):
        return found
    raise InputError(f"{folder}: no images (PNG, JPEG, WebP) in this folder")


def read_pictures(given: Any, record: DataRecord) -> NDArray[Any] | None:
    """Read images for prediction: a path, a folder, an image of Pillow, or a list of these; None if it is none of them.

    Raises:
        InputError: If a file does not exist or cannot be read, or if the run was not trained on images.
    """
    single = isinstance(given, str | Path) or is_image(given)
    several = given if isinstance(given, list | tuple) else [given] if single else []
    if not several or not all(isinstance(one, str | Path) or is_image(one) for one in several):
        return None
    found: list[Any] = []
    for one in several:
        if is_image(one):
            found.append(one)
            continue
        path = Path(one)
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
        found += _images_in(path) if path.is_dir() else [path]
    return _read_images(found, record)


def _read_images(paths: list[Any], record: DataRecord) -> NDArray[Any]:
    if record.kind != "images" or record.input_shape[0] not in {1, 3}:
        raise InputError(f"{paths[0]}: the run was trained on {record.kind}, not on images; give it a file of that form")
    raw = read_images(paths, ImageForm(*record.input_shape))
    # Pixels of image files range to 255; those of digits, for instance, to 16.
    return raw if record.full_scale == 255 else raw.astype(np.float32) * np.float32(record.full_scale / 255)


def read_new_table(path: Path, record: DataRecord) -> Table:
    """Read a table to predict for. If the training data had no header, it has none either, and may lack the target."""
    names = record.column_names
    table = read_table(path, header=not names)
    if not names:
        return table
    rest = tuple(name for name in names if name != record.target_name)
    if len(table.columns) not in {len(names), len(rest)}:
        raise InputError(
            f"{path} has {len(table.columns)} columns; the run was trained on a table of {len(names)} without a header "
            f"({len(rest)} without the target)"
        )
    named = names if len(table.columns) == len(names) else rest
    return replace(table, columns=tuple(replace(column, name=name) for column, name in zip(table.columns, named, strict=True)))


def _read_rows(path: Path, record: DataRecord) -> NDArray[Any] | Table:
    if format_of(path) == "table":
        if record.kind != "table":
            raise InputError(f"{path}: the run was trained on {record.kind}, not on a table; give it a file of that form")
        return read_new_table(path, record)
    if record.kind == "table":
        raise InputError(f"{path}: the run was trained on a table; give it a {either(SHORT_SUFFIXES)} file with the same columns")
    inputs = read_inputs(path)
    if tuple(inputs.shape[1:]) != record.input_shape:
        wanted = "×".join(map(str, record.input_shape))
        raise InputError(f"{path}: samples of {'×'.join(map(str, inputs.shape[1:]))} values; the run was trained on {wanted}")
    if record.kind == "images" and record.full_scale == 255 and inputs.dtype != np.uint8 and inputs.size and inputs.max() <= 1:
        raise InputError(f"{path}: values up to {inputs.max():g}; the run was trained on pixels from 0 to 255")
    if record.kind == "images" and record.full_scale == 1 and inputs.dtype == np.uint8:
        raise InputError(f"{path}: pixels from 0 to 255; the run was trained on values of another range: scale them to it first")
    return inputs
