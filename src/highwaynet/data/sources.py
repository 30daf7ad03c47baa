"""Where samples come from: a built-in set by name, or tables, arrays and images, with what is found there."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError
from highwaynet.data.array_files import ArrayData
from highwaynet.data.catalogue import CATALOGUE, FASHION_NAMES
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
    """Samples as they were found, with what is known about them."""

    found: str
    """What was found, in a sentence."""
    kind: Kind
    task: Task
    class_names: tuple[str, ...]
    samples: Samples
    """All samples but those of an official test part."""
    test: Samples | None = None
    """The official test part."""
    full_scale: float = 1.0
    table: Table | None = None
    """The columns of a table, whose encoding is learned from its training rows; `samples` then has no inputs."""
    target_name: str = "target"
    label_kind: LabelKind = "text"
    """What the labels of classes are in the data."""

    def fingerprint(self) -> str:
        """Changes when targets are changed, added or reordered, or when any of some evenly spread inputs changes."""
        found = hashlib.sha256()
        for part in (self.samples, self.test):
            if part is not None:
                found.update(np.ascontiguousarray(part.targets).tobytes())
                found.update(np.ascontiguousarray(part.inputs[_spread(len(part))]).tobytes())
        for column in self.table.columns if self.table else ():
            found.update(f"{column.name}: {column.values[_spread(len(self.samples))].tolist()}".encode())
        return found.hexdigest()


def _spread(count: int) -> NDArray[np.int64]:
    """Some evenly spread rows of so many."""
    return np.unique(np.linspace(0, count - 1, FINGERPRINT_ROWS).astype(np.int64))


def read_built_in(spec: DataSpec) -> Source:
    """Read the built-in set that a spec names; raises InputError with what is missing where."""
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
    """MNIST and Fashion-MNIST have files of the same names: those that are known to be the other set's are refused."""
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
    """A table with the column that the spec names as its target; `place` is where it was found, for messages."""
    if spec.target is None:
        names = ", ".join(column.name for column in table.columns)
        raise InputError(f"data.target: say with --target which column of {place} is to be predicted; it has {names}")
    features, target = split_target(table, spec.target, spec.task)
    if not features.columns:
        raise InputError(f"{place} has no column besides the target {spec.target!r}")
    numbers = sum(column.kind == "number" for column in features.columns)
    columns = f"{numbers} number and {len(features.columns) - numbers} category columns"
    found = f"a table of {table.rows:,} rows with {columns}; {_asked(target.task, target.class_names)}, target {spec.target!r}"
    samples = Samples(np.empty((table.rows, 0), np.float32), target.values)
    whole = target.class_names and table.column(spec.target).kind == "number"
    kind: LabelKind = "whole number" if whole and all(map(str.isdecimal, target.class_names)) else "text"
    return Source(found, "table", target.task, target.class_names, samples, table=features, target_name=spec.target, label_kind=kind)


def source_of_arrays(arrays: ArrayData) -> Source:
    """Samples from arrays, as images or features."""
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
    """The largest value that images which are not stored as bytes can have: 255 for pixels, else 1, or what they have if that is more."""
    chunks = [images[start : start + 1000] for start in range(0, len(images), 1000)]
    least, most = min(float(chunk.min()) for chunk in chunks), max(float(chunk.max()) for chunk in chunks)
    if least < 0 or most <= 1:
        return 1.0
    return 255.0 if 127 < most <= 255 else most


def source_of_image_folder(spec: DataSpec, path: Path) -> Source:
    """Samples from a folder of class folders of images."""
    if spec.task == "regression":
        raise InputError("data.task = 'regression': a folder of class folders has classes to tell apart, and no numbers to predict")
    samples, names, skipped, form = read_image_folder(path, resize=spec.resize, colour=spec.colour or "auto", skip_bad=bool(spec.skip_bad))
    colours = "grey" if form.channels == 1 else "colour"
    found = f"a folder of {len(samples):,} {colours} images of {form.height}×{form.width} pixels; {_asked('classification', names)}"
    found += f"; left out, because they cannot be read: {len(skipped)}" if skipped else ""
    return Source(found, "images", "classification", names, samples, full_scale=255.0)


def _asked(task: Task, class_names: tuple[str, ...]) -> str:
    if task == "regression":
        return "a regression"
    shown = ", ".join(class_names[:5]) + (", …" if len(class_names) > 5 else "")
    return f"{len(class_names)} classes ({shown})"
