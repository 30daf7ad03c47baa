"""New samples to predict for, a piece at a time: images, arrays and tables of any length. Does not import torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError, closest, unknown
from highwaynet.base.files import read_text
from highwaynet.base.text import either
from highwaynet.data.array_files import CHUNK_BYTES, stored_inputs
from highwaynet.data.array_forms import converted, finite_rows, not_finite, shaped_inputs
from highwaynet.data.cells import shown
from highwaynet.data.formats import format_of
from highwaynet.data.image_folder import images_below
from highwaynet.data.pictures import BadImageError, ImageForm, is_image, read_images
from highwaynet.data.record import DataRecord
from highwaynet.data.table_files import SHORT_SUFFIXES
from highwaynet.data.table_pieces import table_pieces
from highwaynet.data.tables import TableEncoder
from highwaynet.data.text_rows import BadRows

SAMPLES = 256
"""Images of a piece; pieces of arrays have a multiple of it. It is the batch size, so that batches do not depend on the pieces."""
LIST = ".txt"
"""How the name of a list of files ends."""


@dataclass(frozen=True)
class NewSamples:
    """A piece of the samples."""

    names: list[str]
    """What each sample is called: its file, or its file and row."""
    inputs: NDArray[Any]
    """Raw inputs (samples, ...) before preprocessing; rows of a table are encoded."""
    kept: dict[str, list[str | None]]
    """Cells to carry over, by column."""
    skipped: list[str]
    """Sentences about samples that were left out since the piece before; the first ones if there are very many."""
    skipped_count: int
    """Number of samples that were left out since the piece before."""


def new_samples(paths: Sequence[Path], record: DataRecord, *, keep: Sequence[str] = (), skip_bad: bool = False) -> Iterator[NewSamples]:
    """Read new samples for a run, in pieces.

    Args:
        paths: Images, folders of images, .npy and .npz files, folders of .npy files, tables, and lists (.txt) with one of these in each
            line. Images and other files cannot be mixed.
        record: The data that the run was trained on.
        keep: Columns of tables to carry over.
        skip_bad: Leave samples out that cannot be read, instead of raising InputError.

    Raises:
        InputError: If something does not exist, cannot be read, or has another form than the training data.
    """
    files = [file for path in paths for file in (_listed(path) if path.suffix.lower() == LIST else [path])]
    images = [format_of(path) == "images" for path in files]
    if any(images) and not all(images):
        raise InputError("give either images, or arrays and tables, not both")
    if keep and record.kind != "table":
        raise InputError(f"--keep {','.join(keep)}: only tables have columns; leave it out")
    if any(images):
        yield from _image_pieces([file for path in files for file in (images_in(path) if path.is_dir() else [path])], record, skip_bad)
        return
    for path in files:
        if format_of(path) == "table":
            yield from _table_pieces(path, record, keep, skip_bad)
        else:
            yield from _array_pieces(path, record, skip_bad)


def _listed(path: Path) -> list[Path]:
    """Return the files that a list names; relative paths start in the current folder."""
    found = [Path(line.strip()) for line in read_text(path).splitlines() if line.strip()]
    for number, file in enumerate(found, start=1):
        if not file.exists():
            raise InputError(f"{path}, line {number}: {file}: no such file or folder")
    if not found:
        raise InputError(f"{path} is empty: it should name a file in each line")
    return found


# Images


def images_in(folder: Path) -> list[Path]:
    """List the images in a folder; raises InputError if there are none."""
    if found := sorted(images_below(folder, folder.resolve())):
        return found
    raise InputError(f"{folder}: no images (PNG, JPEG, WebP) in this folder")


def _image_pieces(paths: list[Path], record: DataRecord, skip_bad: bool) -> Iterator[NewSamples]:
    for start in range(0, len(paths), SAMPLES):
        read, skipped, inputs = list[str](), list[str](), list[NDArray[Any]]()
        for path in paths[start : start + SAMPLES]:
            try:
                inputs.append(as_pixels([path], record))
                read.append(str(path))
            except BadImageError as error:
                if not skip_bad:
                    raise InputError(f"{error}: replace it, or skip such files with `--skip-bad`") from error
                skipped.append(str(error))
        empty = np.empty((0, *record.input_shape), np.float32)
        yield NewSamples(read, np.concatenate(inputs) if inputs else empty, {}, skipped, len(skipped))


def as_pixels(images: list[Any], record: DataRecord) -> NDArray[Any]:
    """Return images, files or of Pillow, as raw inputs (images, channels, height, width).

    Raises:
        InputError: If one cannot be read, or if the run was not trained on images.
    """
    if record.kind != "images" or record.input_shape[0] not in {1, 3}:
        known = "a table" if record.kind == "table" else record.kind
        raise InputError(f"{images[0]}: the run was trained on {known}, not on images; give it a file of that form")
    raw = read_images(images, ImageForm(*record.input_shape))
    # Pixels of image files range to 255; those of digits, for instance, to 16.
    return raw if record.full_scale == 255 else raw.astype(np.float32) * np.float32(record.full_scale / 255)


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
        found += images_in(path) if path.is_dir() else [path]
    return as_pixels(found, record)


# Arrays


def _array_pieces(path: Path, record: DataRecord, skip_bad: bool) -> Iterator[NewSamples]:
    if record.kind == "table":
        raise InputError(f"{path}: the run was trained on a table; give it a {either(SHORT_SUFFIXES)} file with the same columns")
    array, where = stored_inputs(path)
    shaped = shaped_inputs(array, where)
    _refuse_unlike(path, shaped[:SAMPLES], record)
    step = SAMPLES * max(1, CHUNK_BYTES * len(array) // max(1, array.nbytes) // SAMPLES)
    for start in range(0, len(array), step):
        inputs = converted(shaped[start : start + step], where)
        good = finite_rows(inputs)
        if not good.all() and not skip_bad:
            raise not_finite(where, start + int(good.argmin()))
        names = [f"{path}:{start + row + 1}" for row in np.flatnonzero(good)]
        skipped = [f"{path}, row {start + row + 1}: a value is not a finite number" for row in np.flatnonzero(~good)]
        yield NewSamples(names, inputs if good.all() else inputs[good], {}, skipped, len(skipped))


def _refuse_unlike(path: Path, inputs: NDArray[Any], record: DataRecord) -> None:
    """Raise InputError if arrays have another form, or other values, than the training data."""
    if tuple(inputs.shape[1:]) != record.input_shape:
        wanted = "×".join(map(str, record.input_shape))
        raise InputError(f"{path}: samples of {'×'.join(map(str, inputs.shape[1:]))} values; the run was trained on {wanted}")
    if record.kind == "images" and record.full_scale == 255 and inputs.dtype != np.uint8 and inputs.size and inputs.max() <= 1:
        raise InputError(f"{path}: values up to {inputs.max():g}; the run was trained on pixels from 0 to 255")
    if record.kind == "images" and record.full_scale == 1 and inputs.dtype == np.uint8:
        raise InputError(f"{path}: pixels from 0 to 255; the run was trained on values of another range: scale them to it first")


# Tables


def _table_pieces(path: Path, record: DataRecord, keep: Sequence[str], skip_bad: bool) -> Iterator[NewSamples]:
    if record.kind != "table":
        raise InputError(f"{path}: the run was trained on {record.kind}, not on a table; give it a file of that form")
    encoder, rows = TableEncoder.from_json(record.encoder or {}), BadRows()

    def choose(names: list[str]) -> list[tuple[str, str]]:
        given = _names_given(path, names, record)
        used = [rule.name for rule in encoder.rules]
        _refuse_missing(path, used, given, encoder)
        for name in keep:
            if name not in given:
                raise unknown(f"column of {path}", name, given)
        return [(old, new) for old, new in zip(names, given, strict=True) if new in {*used, *keep}]

    for table in table_pieces(path, choose, header=not record.column_names, bad=rows if skip_bad else None):
        bad: dict[int, str] = {}
        inputs = encoder.encode(table, bad=bad if skip_bad else None)
        good = [row for row in range(table.rows) if row not in bad]
        kept = {name: table.column(name).written() for name in keep}
        if bad:
            inputs, kept = inputs[good], {name: [cells[row] for row in good] for name, cells in kept.items()}
        names = [f"{path}:{table.number(row)}" for row in good]
        yield NewSamples(names, inputs, kept, [*rows.sentences, *(bad[row] for row in sorted(bad))], rows.count + len(bad))
        rows.count = 0
        rows.sentences.clear()
    if rows.count:
        empty = np.empty((0, len(encoder.feature_names)), np.float32)
        yield NewSamples([], empty, {name: [] for name in keep}, rows.sentences, rows.count)


def _names_given(path: Path, names: list[str], record: DataRecord) -> list[str]:
    """Return the names of the columns; if the training data had no header, the file has none either, and may lack the target."""
    known = list(record.column_names)
    if not known:
        return names
    rest = [name for name in known if name != record.target_name]
    if len(names) not in {len(known), len(rest)}:
        raise InputError(
            f"{path} has {len(names)} columns; the run was trained on a table of {len(known)} without a header "
            f"({len(rest)} without the target)"
        )
    return known if len(names) == len(known) else rest


def _refuse_missing(path: Path, used: list[str], given: list[str], encoder: TableEncoder) -> None:
    """Raise InputError if a column is missing; the sentence names an unknown column with a similar name, if there is one."""
    for name in used:
        if name not in given:
            others = set(given) - set(used) - {column.name for column in encoder.left_out}
            near = closest(name, sorted(others))
            hint = f", or rename {either(map(shown, near))} to it" if near else ""
            raise InputError(f"{path} has no column {shown(name)}, which the training data had: add it{hint}")


def read_new_rows(path: Path, record: DataRecord) -> NDArray[Any]:
    """Read a table to predict for as features, (rows, features)."""
    return np.concatenate([piece.inputs for piece in _table_pieces(path, record, (), skip_bad=False)])
