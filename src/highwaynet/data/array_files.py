"""Reads the user's arrays: an .npz file, or a folder of .npy files, which stay on disk (memory-mapped) if possible."""

import io
import math
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, refuse_pipe
from highwaynet.data.array_forms import converted, failure_told, finite_rows, kept_type, not_finite, shaped_inputs
from highwaynet.data.names import LabelKind, Task
from highwaynet.data.samples import Samples

MOST_BYTES = 16 * 2**30
MOST_CLASSES = 10_000
# Names of (inputs, targets) without a test part, and of (training inputs, training targets, test inputs, test targets).
PAIRS = (("x", "y"), ("X", "y"), ("inputs", "targets"), ("images", "labels"), ("data", "target"))
QUADRUPLES = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("X_train", "y_train", "X_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
)
EXPECTED = (
    f"expected {', '.join(' and '.join(pair) for pair in PAIRS)},"
    f" or {' or '.join(', '.join(names) for names in QUADRUPLES)}, where the test part may be absent"
)
# Deflate cannot compress better than 1 : 1032; a member that claims more is forged.
MOST_DEFLATION = 1032
LONGEST_HEADER = 2**16
CHUNK_BYTES = 2**24


@dataclass(frozen=True)
class ArrayData:
    """Samples from arrays, and the task that they define."""

    train: Samples
    """The training samples, or all samples if there is no test part."""
    test: Samples | None
    task: Task
    class_names: tuple[str, ...]
    """The distinct labels in sorted order; empty for regression."""
    label_kind: LabelKind = "text"


@dataclass(frozen=True)
class _Header:
    """The header of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int

    @property
    def length(self) -> int:
        """Size of header and array in bytes."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def read_arrays(path: Path, task: Task | None = None) -> ArrayData:
    """Read the samples in an .npz file or a folder of .npy files.

    Args:
        path: The file or folder.
        task: The task; by default it follows from the type of the targets: strings and integers are classes, floats a regression.

    Raises:
        InputError: If something is missing, damaged, too large, or does not fit together.
    """
    there = _names(path)
    layouts = [names for names in (*PAIRS, *QUADRUPLES) if set(names[:2]) <= set(there)]
    if len(layouts) != 1:
        problem = "more than one set of samples" if layouts else "no pair of inputs and targets"
        raise InputError(f"{path} has {problem} among its arrays {_listed(there)}: {EXPECTED}")
    x, y, *test_names = layouts[0]
    tests = [name for name in test_names if name in there]
    if len(tests) == 1:
        raise InputError(f"{path} has only {tests[0]}: a test part needs both {' and '.join(test_names)}")
    stored = _load(path, [x, y, *tests])
    return pair_up(stored, {name: _where(path, name) for name in stored}, task)


def pair_up(stored: dict[str, NDArray[Any]], where: dict[str, str], task: Task | None) -> ArrayData:
    """Make samples from arrays.

    Args:
        stored: Inputs and targets, in this order, then those of a test part, if there is one.
        where: The name of each array in messages.
        task: The task; by default it follows from the type of the targets.

    Raises:
        InputError: If something is too large, or does not fit together.
    """
    x, y, *tests = stored
    inputs = {name: _as_inputs(stored[name], where[name]) for name in (x, *tests[:1])}
    columns = {name: _as_column(stored[name], where[name], task) for name in (y, *tests[1:])}
    task = task or ("regression" if columns[y].dtype.kind == "f" else "classification")
    targets, class_names = _as_numbers(columns, where) if task == "regression" else _as_classes(columns, where)
    train, *others = [_paired(inputs, targets, where, *names) for names in ((x, y), tests) if names]
    if tests:
        _refuse_unlike(inputs, where)
    kinds: dict[str, LabelKind] = {"b": "truth value", "i": "whole number", "u": "whole number", "f": "whole number"}
    label_kind = kinds.get(columns[y].dtype.kind, "text") if task == "classification" else "text"
    return ArrayData(train, others[0] if others else None, task, class_names, label_kind)


def stored_inputs(path: Path) -> tuple[NDArray[Any], str]:
    """Return inputs for prediction as they are stored, and their name in messages: an .npy file, or those in an .npz file or a folder.

    Arrays in .npy files are memory-mapped.
    """
    if _kind(path) == ".npy":
        return _map(path), str(path)
    there, allowed = _names(path), [pair[0] for pair in PAIRS] + [names[2] for names in QUADRUPLES]
    found = [name for name in allowed if name in there]
    if len(found) != 1:
        raise InputError(f"{path} has the arrays {_listed(there)}: expected exactly one of {', '.join(allowed)}")
    return _load(path, found)[found[0]], _where(path, found[0])


def _kind(path: Path) -> Literal["folder", ".npz", ".npy"]:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise cannot("read", path, error) from error
    if stat.S_ISDIR(mode):
        return "folder"
    for suffix in (".npz", ".npy"):
        if stat.S_ISREG(mode) and path.suffix.lower() == suffix:
            return suffix
    raise InputError(f"{path} is neither an .npz file, nor an .npy file, nor a folder of .npy files")


def _names(path: Path) -> list[str]:
    """List the names of the arrays in an .npz file or a folder."""
    kind = _kind(path)
    if kind == ".npy":
        raise InputError(f"{path} is a single array: put inputs and targets together into an .npz file or a folder of .npy files")
    with failure_told(str(path)):
        if kind == "folder":
            return sorted(file.stem for file in path.glob("*.npy") if not file.name.startswith(".") and file.is_file())
        with zipfile.ZipFile(path) as archive:
            return sorted(name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy"))


def _where(path: Path, name: str) -> str:
    return str(path / f"{name}.npy") if path.is_dir() else f"{name} in {path}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return f"{shown} and {len(names) - 20} more" if len(names) > 20 else shown or "(there are none)"


def _load(path: Path, names: list[str]) -> dict[str, NDArray[Any]]:
    """Load arrays by name, as they are stored; those in a folder are memory-mapped. Inputs are followed by their targets."""
    if path.is_dir():
        return {name: _map(path / f"{name}.npy") for name in names}
    with failure_told(str(path)), zipfile.ZipFile(path) as archive:
        members = {name: archive.getinfo(f"{name}.npy") for name in names}
        headers = {name: _announced(archive, members[name], _where(path, name), path.stat().st_size) for name in names}
        for x, y in zip(names[::2], names[1::2], strict=False):
            _refuse_unpaired(headers[x].shape[0], headers[y].shape[0], _where(path, x), _where(path, y))
        _refuse_large(sum(header.length for header in headers.values()), str(path))
        return {name: _unpack(archive, members[name], _where(path, name)) for name in names}


def _map(path: Path) -> NDArray[Any]:
    """Memory-map the array in an .npy file."""
    refuse_pipe(path)
    with failure_told(str(path)):
        with path.open("rb") as stream:
            header = _read_header(stream, str(path))
        length = path.stat().st_size
        if header.length > length:
            raise InputError(f"{path} is truncated: its header announces {header.length:,} bytes, but it has {length:,}; copy it again")
        mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return mapped


def _announced(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str, archive_length: int) -> _Header:
    """Return the header of a member of an .npz file; raises InputError if header, member and file contradict each other."""
    most = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: MOST_DEFLATION}.get(member.compress_type)
    if most is None:
        raise InputError(f"{where} is compressed in a way that numpy does not use: save it again with numpy.savez")
    with failure_told(where), archive.open(member) as stream:
        header = _read_header(stream, where)
        if header.length != member.file_size or member.file_size > most * min(member.compress_size, archive_length):
            raise InputError(f"{where} is damaged (it announces {header.length:,} bytes, which the file cannot hold): save it again")
        return header


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> NDArray[Any]:
    with failure_told(where), archive.open(member) as stream:
        array: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
        stream.read(1)  # the checksum is compared at the end of the stream
        return array


def _read_header(stream: IO[bytes], where: str) -> _Header:
    """Read the header of an array; raises InputError for a type or shape that inputs and targets cannot have."""
    start = io.BytesIO(stream.read(LONGEST_HEADER))  # the length that a header announces is not trusted
    version = npy.read_magic(start)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise InputError(f"{where} has version {version[0]}.{version[1]} of the .npy format: save numbers or strings with numpy.save")
    try:
        shape, _, dtype = read(start)
    except MemoryError as error:  # what the parser raises if brackets or signs are nested too deeply
        raise InputError(f"{where} is damaged (its header is not numpy's): save it again") from error
    if dtype.kind not in "biufUS" or not dtype.itemsize:
        raise InputError(f"{where} has elements of type {str(dtype)[:40]}: save it as real numbers, or labels as strings of a fixed length")
    if len(shape) > 4:
        raise InputError(f"{where} has {len(shape)} dimensions: at most 4 are possible")
    if min(shape, default=0) < 1:
        raise InputError(f"{where} has shape {shape}: at least one sample with at least one value is needed")
    return _Header(shape, dtype, start.tell())


def _refuse_large(size: int, where: str) -> None:
    if size > MOST_BYTES:
        raise InputError(
            f"{where} needs {size / 2**30:.1f} GiB of memory, the limit is {MOST_BYTES / 2**30:g}:"
            " save float32 or uint8 arrays as .npy files in a folder, which stay on disk"
        )


def _chunks(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield pieces of a few megabytes, each with the index of its first row."""
    step = max(1, CHUNK_BYTES * len(array) // array.nbytes)
    for start in range(0, len(array), step):
        yield start, array[start : start + step]


def _as_inputs(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Convert to images (n, channels, height, width) or features (n, features) of the type of `kept_type`; keep memory maps if possible."""
    shaped = shaped_inputs(array, where)
    kept = kept_type(shaped)
    if not (kept == array.dtype and isinstance(array, np.memmap) and array.flags.c_contiguous):
        _refuse_large(array.size * kept.itemsize, where)
        shaped = converted(shaped, where)
    for start, rows in _chunks(shaped) if array.dtype.kind == "f" else ():
        if not (finite := finite_rows(rows)).all():
            raise not_finite(where, start + int(finite.argmin()))
    return shaped


def _as_column(array: NDArray[Any], where: str, task: Task | None) -> NDArray[Any]:
    """Return targets of shape (n,): as stored, or the index of the 1 if every row is one-hot."""
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
        _refuse_large(array.nbytes, where)
        return np.asarray(array).reshape(len(array))
    if array.ndim == 2 and task != "regression" and array.dtype.kind in "biuf":
        classes = _hot_columns(array)
        if classes is not None:
            return classes
    raise InputError(
        f"{where} has shape {array.shape}: expected one target per sample, (n,) or (n, 1), or classes as rows of zeros with a single 1"
    )


def _hot_columns(array: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the column of the single 1 of every row, (n,); None if a row is not one-hot."""
    columns = []
    for _, rows in _chunks(array):
        ones = rows == 1
        if not (ones | (rows == 0)).all() or not (ones.sum(axis=1) == 1).all():
            return None
        columns.append(ones.argmax(axis=1))
    return np.concatenate(columns)


def _as_numbers(columns: dict[str, NDArray[Any]], where: dict[str, str]) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """Return the targets of a regression, (n,) float64 each, and no class names."""
    targets = {}
    for name, column in columns.items():
        if column.dtype.kind in "US":
            raise InputError(f"{where[name]} contains strings: a regression needs numbers")
        with np.errstate(all="ignore"):
            targets[name] = column.astype(np.float64)
        wrong = ~np.isfinite(targets[name])
        if wrong.any():
            rows = f"{int(wrong.sum()):,} of its {len(wrong):,} rows, first in row {int(wrong.argmax())} (counted from 0)"
            raise InputError(f"{where[name]} is not a finite float32 number in {rows}: repair or remove them")
    return targets, ()


def _as_classes(columns: dict[str, NDArray[Any]], where: dict[str, str]) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """Return the targets of a classification, (n,) int64 class numbers each, and the class names in sorted order."""
    train, *others = columns
    classes, values = _distinct(columns[train], where[train])
    if len(classes) < 2:
        raise InputError(f"{where[train]} has only the class {classes[0]!r}: at least two classes are needed")
    number = {label: index for index, label in enumerate(classes)}
    targets = {train: _places(values, columns[train])}
    for name in others:
        labels, values = _distinct(columns[name], where[name])
        for label in labels:
            if label not in number:
                raise InputError(f"{where[name]} has the class {label!r}, which does not occur in {where[train]}: remove its samples")
        targets[name] = np.array([number[label] for label in labels], np.int64)[_places(values, columns[name])]
    return targets, tuple(str(label) for label in classes)


def _distinct(column: NDArray[Any], where: str) -> tuple[list[int | str], NDArray[Any]]:
    """Return the distinct labels in sorted order, and as an array of the column's type."""
    if column.dtype.kind == "f":
        with np.errstate(all="ignore"):
            whole = (column == np.floor(column)) & (np.abs(column) <= 2**53)
        if not whole.all():
            row = int(whole.argmin())
            raise InputError(f"{where} has {column[row]} in row {row} (counted from 0): classes must be integers or strings")
        column = column.astype(np.int64)
    values = column[:0]
    for _, rows in _chunks(column):  # sorting all rows at once would take many times their memory
        values = np.union1d(values, rows)
        if len(values) > MOST_CLASSES:
            way_out = "use fewer different labels" if column.dtype.kind in "US" else "if it is a number to predict, save it as floats"
            raise InputError(f"{where} has more than {MOST_CLASSES:,} different values, which are too many for classes: {way_out}")
    with failure_told(where):
        labels = [value.decode() if isinstance(value, bytes) else value for value in values.tolist()]
        for label in labels:
            str(label).encode()  # names are stored in files as UTF-8
    return labels, values


def _places(values: NDArray[Any], column: NDArray[Any]) -> NDArray[np.int64]:
    """Return for every row the index of its value among sorted values."""
    places = np.empty(len(column), np.int64)
    for start, rows in _chunks(column):
        places[start : start + len(rows)] = np.searchsorted(values, rows)
    return places


def _paired(inputs: dict[str, NDArray[Any]], targets: dict[str, NDArray[Any]], where: dict[str, str], x: str, y: str) -> Samples:
    """Combine inputs with their targets; raises InputError if the numbers of samples differ."""
    _refuse_unpaired(len(inputs[x]), len(targets[y]), where[x], where[y])
    return Samples(inputs[x], targets[y])


def _refuse_unpaired(inputs: int, targets: int, where_inputs: str, where_targets: str) -> None:
    if inputs != targets:
        raise InputError(f"{where_inputs} has {inputs:,} samples and {where_targets} has {targets:,}: the numbers must be equal")


def _refuse_unlike(inputs: dict[str, NDArray[Any]], where: dict[str, str]) -> None:
    """Raise InputError if the inputs for training and test have different shapes or types."""
    forms = {name: f"{array.dtype} samples of shape {array.shape[1:]}" for name, array in inputs.items()}
    if len(set(forms.values())) > 1:
        raise InputError(f"{' and '.join(f'{where[name]} has {form}' for name, form in forms.items())}: shape and type must be the same")
