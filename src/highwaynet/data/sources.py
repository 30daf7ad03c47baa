"""Reads samples from a built-in data set, or from tables, arrays and images of the user."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError, unknown
from highwaynet.data.array_files import ArrayData
from highwaynet.data.catalogue import CATALOGUE, FASHION_NAMES
from highwaynet.data.cells import shown
from highwaynet.data.cifar import find_cifar, read_cifar
from highwaynet.data.digits import read_digits
from highwaynet.data.fetch import data_root
from highwaynet.data.idx import find_idx_folder, read_idx_set
from highwaynet.data.image_folder import read_image_folder
from highwaynet.data.names import Kind, LabelKind, Task
from highwaynet.data.remote import REMOTE, content_digest
from highwaynet.data.samples import Samples
from highwaynet.data.spec import DataSpec
from highwaynet.data.tables import Table, split_target

FINGERPRINT_ROWS = 64


@dataclass(frozen=True)
class Source:
    """Samples as they were read, with what is known about them."""

    found: str
    """Description of the data in one sentence."""
    kind: Kind
    task: Task
    class_names: tuple[str, ...]
    samples: Samples
    """All samples except those of an official test part."""
    test: Samples | None = None
    """The official test part."""
    full_scale: float = 1.0
    table: Table | None = None
    """The feature columns of a table; `samples` has no inputs then, because the encoding is learned from the training rows later."""
    whole: Table | None = None
    """The table with all its columns."""
    asked: str = ""
    """Of a table: what is to be predicted; `found` does not say it, because what is said of its columns comes between them."""
    column_names: tuple[str, ...] = ()
    """All columns of a table without a header, in order."""
    target_name: str = "target"
    target_names: tuple[str, ...] = ()
    """Names of several targets, if they have names."""
    label_kind: LabelKind = "text"
    """Type of the class labels in the data."""

    def in_precision(self, *, exact: bool) -> "Source":
        """Return it with features in float64 (`exact`) or else float32, as a run had them; other data stay as they are."""
        if self.kind != "features":
            return self
        dtype = np.float64 if exact else np.float32
        parts = [None if part is None else _cast(part, dtype) for part in (self.samples, self.test)]
        return replace(self, samples=parts[0] or self.samples, test=parts[1])

    def fingerprint(self) -> str:
        """Return a checksum of all targets and weights, in order, and of up to 64 evenly spaced inputs of each part."""
        found = hashlib.sha256()
        for part in (self.samples, self.test):
            if part is not None:
                found.update(np.ascontiguousarray(part.targets).tobytes())
                found.update(np.ascontiguousarray(part.inputs[_spread(len(part))]).tobytes())
                found.update(b"" if part.weights is None else np.ascontiguousarray(part.weights).tobytes())
        for column in self.table.columns if self.table else ():
            found.update(f"{column.name}: {column.values[_spread(len(self.samples))].tolist()}".encode())
        return found.hexdigest()


def _cast(part: Samples, dtype: type[np.float32] | type[np.float64]) -> Samples:
    kept = part.inputs.dtype == dtype or (part.inputs.dtype == np.uint8 and dtype is np.float32)
    return part if kept else replace(part, inputs=part.inputs.astype(dtype))


def _spread(count: int) -> NDArray[np.int64]:
    """Return up to 64 evenly spaced row indices below `count`."""
    return np.unique(np.linspace(0, count - 1, FINGERPRINT_ROWS).astype(np.int64))


def read_built_in(spec: DataSpec) -> Source:
    """Read the built-in set that a spec names; raises InputError if its files are missing or damaged."""
    name, known, root = spec.name, CATALOGUE[spec.name], data_root()
    test: Samples | None = None
    if name == "digits":
        train, names = read_digits(), tuple("0123456789")
    elif name in {"mnist", "fashion-mnist"}:
        folder = find_idx_folder(root, name)
        if folder is None:
            raise _not_there(name, root)
        _refuse_sibling(name, folder)
        train, test = read_idx_set(folder)
        names = FASHION_NAMES if name == "fashion-mnist" else tuple("0123456789")
    else:
        cifar: Literal["cifar-10", "cifar-100"] = "cifar-10" if name == "cifar-10" else "cifar-100"
        path = find_cifar(root, cifar)
        if path is None:
            raise _not_there(name, root)
        train, test, names = read_cifar(path, cifar, spec.labels or "fine")
    return Source(f"{name}: {known.summary}", "images", "classification", names, train, test, full_scale=known.full_scale)


def _refuse_sibling(name: str, folder: Path) -> None:
    """Raise InputError if the files belong to the other set: MNIST and Fashion-MNIST use the same file names."""
    other = "fashion-mnist" if name == "mnist" else "mnist"
    for file in REMOTE[other].downloads:
        for path in (folder / file.name, folder / file.name.removesuffix(".gz")):
            if "labels" in file.name and content_digest(path) == file.content:
                raise InputError(f"data.name = {name!r}: {path} belongs to {other}; name that set, or another folder with --data-root")


def _not_there(name: str, root: Path) -> InputError:
    return InputError(
        f"data.name = {name!r}: not found below {root}; get it with `highway data fetch {name}`, or name its folder with --data-root"
    )


def source_of_table(spec: DataSpec, table: Table, place: object) -> Source:
    """Make a source from a table and the columns that the spec names; `place` is the name of the table in messages."""
    name = target_name(spec, table, place)
    _check_columns(spec, table, name)
    features, target = split_target(table, name, spec.task)
    features = features.without(*(spec.ignore or ()))
    if not features.columns:
        ignored = ", except those in data.ignore" if spec.ignore else ""
        raise InputError(f"{place} has no column besides the target {name!r}{ignored}")
    samples = Samples(np.empty((table.rows, 0), np.float32), target.values)
    whole = target.class_names and table.column(name).kind == "number"
    kind: LabelKind = "whole number" if whole and all(map(str.isdecimal, target.class_names)) else "text"
    return Source(
        found=f"a table of {table.rows:,} rows",
        kind="table",
        task=target.task,
        class_names=target.class_names,
        samples=samples,
        table=features,
        whole=table,
        asked=f"{_asked(target.task, target.class_names)}, target {name!r}{target.words}",
        target_name=name,
        label_kind=kind,
        column_names=tuple(column.name for column in table.columns) if spec.header is False else (),
    )


def target_name(spec: DataSpec, table: Table, place: object) -> str:
    """Return the name of the column to predict; raises InputError if the spec names none."""
    if spec.target is None:
        names = ", ".join(column.name for column in table.columns)
        last = ", or last" if spec.header is False else ""
        raise InputError(f"data.target: choose with --target which column of {place} to predict; it has {names}{last}")
    return table.columns[-1].name if spec.target == "last" and spec.header is False else spec.target


def _check_columns(spec: DataSpec, table: Table, target: str) -> None:
    """Raise InputError if the spec names columns that do not exist, or the target as one to ignore or use."""
    known = [column.name for column in table.columns]
    for field in ("ignore", "use"):
        for name in getattr(spec, field) or ():
            if name not in known:
                raise InputError(f"data.{field}: {unknown(f'column of {table.source}', name, known)}")
            if name == target:
                raise InputError(f"data.{field}: {shown(name)} is the target; name other columns")


def source_of_arrays(arrays: ArrayData) -> Source:
    """Make a source of images or features from arrays."""
    shape = arrays.train.inputs.shape[1:]
    kind: Kind = "images" if len(shape) == 3 else "features"
    found = f"arrays of {len(arrays.train):,} samples of {'×'.join(map(str, shape))} values"
    found += f" and {len(arrays.test):,} for testing" if arrays.test is not None else ""
    found += f"; {_asked(arrays.task, arrays.class_names)}"
    full_scale = 255.0 if arrays.train.inputs.dtype == np.uint8 else _full_scale(arrays.train.inputs) if kind == "images" else 1.0
    found += f"; values up to {full_scale:g}" if full_scale not in {1.0, 255.0} else ""
    return Source(
        found, kind, arrays.task, arrays.class_names, arrays.train, arrays.test, full_scale=full_scale, label_kind=arrays.label_kind
    )


def _full_scale(images: NDArray[Any]) -> float:
    """Return the largest possible value of images that are not uint8: 1 if no value exceeds it, 255 for pixels, else the maximum."""
    chunks = [images[start : start + 1000] for start in range(0, len(images), 1000)]
    least, most = min(float(chunk.min()) for chunk in chunks), max(float(chunk.max()) for chunk in chunks)
    if least < 0 or most <= 1:
        return 1.0
    return 255.0 if 127 < most <= 255 else most


def source_of_image_folder(spec: DataSpec, path: Path) -> Source:
    """Samples from a folder of class folders of images."""
    if spec.task == "regression":
        raise InputError("data.task = 'regression': a folder of class folders has classes, no numbers to predict; leave the task out")
    samples, names, skipped, form = read_image_folder(path, resize=spec.resize, colour=spec.colour or "auto", skip_bad=bool(spec.skip_bad))
    colours = "grey" if form.channels == 1 else "colour"
    size = f"of {form.height}×{form.width} pixels" if spec.resize is None else f"resized to {form.height}×{form.width} pixels"
    found = f"a folder of {len(samples):,} {colours} images {size}; {_asked('classification', names)}"
    found += f"; left out, because they cannot be read: {len(skipped)}" if skipped else ""
    return Source(found, "images", "classification", names, samples, full_scale=255.0)


def _asked(task: Task, class_names: tuple[str, ...]) -> str:
    if task == "regression":
        return "a regression"
    shown = ", ".join(class_names[:5]) + (", …" if len(class_names) > 5 else "")
    return f"{len(class_names)} classes ({shown})"
