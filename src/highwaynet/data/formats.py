"""The formats of user data: how each is recognised, and how it is read for training; `new_samples.py` reads them for prediction."""

from pathlib import Path
from typing import Any, Literal

from highwaynet.base.errors import InputError
from highwaynet.data.array_files import read_arrays
from highwaynet.data.image_folder import SUFFIXES, looks_like_image_folder
from highwaynet.data.sources import Source, source_of_arrays, source_of_image_folder, source_of_table
from highwaynet.data.spec import IMAGES_ALONE, TABLES_ALONE, DataSpec
from highwaynet.data.table_files import SHORT_SUFFIXES, TABLE_READERS, read_table


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
    for fields, wanted, what in ((TABLES_ALONE, "table", "tables"), (IMAGES_ALONE, "images", "folders of images")):
        for field in fields if form not in {wanted, None} else ():
            if (value := getattr(spec, field)) is not None:
                raise InputError(f"data.{field} = {_plain(value)}: this is for {what}, and {path} is none; leave it out")
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
