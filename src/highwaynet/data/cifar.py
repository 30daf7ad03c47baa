"""Reads CIFAR-10 and CIFAR-100 as published: binary or Python version, unpacked or as archives. Does not import torch."""

import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, read_bytes
from highwaynet.data.idx import MOST_BYTES, PIECE, Stream, is_file, read_pieces, reading
from highwaynet.data.plain_pickle import read_plain_pickle
from highwaynet.data.samples import Samples

Name = Literal["cifar-10", "cifar-100"]
Labels = Literal["fine", "coarse"]

PIXELS = 3 * 32 * 32
MOST_FILE_BYTES = 2**29
MOST_NAMES_BYTES = 2**20
MOST_MEMBERS = 1000
BLOCK = tarfile.BLOCKSIZE
FILE_TYPES = {tarfile.REGTYPE, tarfile.AREGTYPE}
NOTE_TYPES = {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
"""Extra headers about the next member, such as its exact time; they are skipped."""
CIFAR_10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CLASSES = {("cifar-10", "fine"): 10, ("cifar-100", "fine"): 100, ("cifar-100", "coarse"): 20}


@dataclass(frozen=True)
class _Form:
    """The files of one version of a data set."""

    folder: str
    train: tuple[str, ...]
    test: str
    names: dict[str, str]
    """The file with the class names, for each kind of labels."""
    pickled: bool

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, self.test, *dict.fromkeys(self.names.values()))


FORMS: dict[str, tuple[_Form, ...]] = {
    "cifar-10": (
        _Form(
            "cifar-10-batches-bin",
            tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
            "test_batch.bin",
            {"fine": "batches.meta.txt"},
            pickled=False,
        ),
        _Form(
            "cifar-10-batches-py",
            tuple(f"data_batch_{number}" for number in range(1, 6)),
            "test_batch",
            {"fine": "batches.meta"},
            pickled=True,
        ),
    ),
    "cifar-100": (
        _Form(
            "cifar-100-binary",
            ("train.bin",),
            "test.bin",
            {"fine": "fine_label_names.txt", "coarse": "coarse_label_names.txt"},
            pickled=False,
        ),
        _Form("cifar-100-python", ("train",), "test", {"fine": "meta", "coarse": "meta"}, pickled=True),
    ),
}


def find_cifar(root: Path, name: Name) -> Path | None:
    """Find the folder or archive of a set in `root` or `root/name`, or `root` itself if it is that folder; None if there is none.

    A folder of the binary version is preferred, then one of the Python version, then the archives in the same order.
    """
    folders = [form.folder for form in FORMS[name]]
    for folder in folders:
        for place in (root, root / name):
            if _is_folder(place / folder):
                return place / folder
    for archive in (f"{name}-binary.tar.gz", f"{name}-python.tar.gz"):
        for place in (root, root / name):
            if is_file(place / archive):
                return place / archive
    return root if root.name in folders and _is_folder(root) else None


def read_cifar(path: Path, name: Name, labels: Labels = "fine") -> tuple[Samples, Samples, tuple[str, ...]]:
    """Read the training set, the test set and the class names from a folder or a tar archive (gzipped or not).

    Inputs are (n, 3, 32, 32) uint8, targets (n,) int64. Nothing is unpacked to disk. Errors count rows from 1.

    Args:
        path: The folder or archive, as `find_cifar` returns it.
        name: The name of the set.
        labels: Labels of CIFAR-100: 100 fine or 20 coarse ones.

    Raises:
        InputError: If batches are missing or damaged, a label is out of range, or an archive has links or paths outside of it.
    """
    if (name, labels) not in CLASSES:
        raise InputError(f"data.labels = {labels!r}: {name} has only one kind of labels; leave it at 'fine'")
    form, contents = _from_folder(path, name) if _is_folder(path) else _from_archive(path, name)
    missing = [file for file in (*form.train, form.test) if file not in contents]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}: fetch the set again")
    read_batch = _read_pickled if form.pickled else _read_records

    def read_part(files: Iterable[str]) -> Samples:
        # Each file is removed from the dict when it is read, so that memory holds at most twice the data.
        parts = [read_batch(contents.pop(file), path / file, name, labels) for file in files]
        inputs = np.concatenate([pixels for pixels, _ in parts])  # (n, 3072)
        return Samples(inputs.reshape(-1, 3, 32, 32), np.concatenate([targets for _, targets in parts]))

    names = _class_names(form, contents, path, name, labels)
    return read_part(form.train), read_part([form.test]), names


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise cannot("read", path, error) from error


def _limit(form: _Form, file: str) -> int:
    return MOST_NAMES_BYTES if file in form.names.values() else MOST_FILE_BYTES


def _form_of(path: Path, name: Name, present: Iterable[str]) -> _Form:
    """Return the first version of which any batch is present."""
    found = set(present)
    for form in FORMS[name]:
        if found & {*form.train, form.test}:
            return form
    expected = " or ".join(form.train[0] for form in FORMS[name])
    raise InputError(f"{path} has no batches of {name}: expected {expected} and the other batches in it")


def _from_folder(path: Path, name: Name) -> tuple[_Form, dict[str, bytes]]:
    present = [file for form in FORMS[name] for file in form.files if is_file(path / file)]
    form = _form_of(path, name, present)
    return form, {file: _stored(path / file, _limit(form, file)) for file in form.files if file in present}


def _stored(path: Path, limit: int) -> bytes:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise cannot("read", path, error) from error
    if size > limit:
        raise InputError(f"{path} is too large: {size} bytes, more than the limit of {limit}")
    return read_bytes(path)


class _Archive:
    """Reads a tar archive in order, up to a size limit.

    tarfile's own iteration reads headers of any length into memory; here a header is one block, which `TarInfo.frombuf` parses.
    """

    def __init__(self, path: Path, stream: Stream) -> None:
        self.path = path
        self.stream = stream
        self.left = MOST_BYTES

    def damaged(self, reason: str) -> InputError:
        return InputError(f"{self.path} is damaged: {reason}; fetch it again")

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise InputError(f"{self.path} is too large: it unpacks to more than the limit of {MOST_BYTES} bytes")

    def take(self, count: int) -> bytes:
        self.spend(count)
        content = read_pieces(self.stream, count)
        if len(content) < count:
            raise self.damaged("it ends too early")
        return bytes(content)

    def skip(self, count: int) -> None:
        for start in range(0, count, PIECE):
            self.take(min(PIECE, count - start))

    def next_member(self) -> tarfile.TarInfo | None:
        """Return the header of the next member, or None at the end."""
        block = self.take(BLOCK)
        if not any(block):  # the end; gzip compares its checksum only after the last byte
            while read_pieces(self.stream, PIECE):
                self.spend(PIECE)
            return None
        try:
            member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except (tarfile.HeaderError, ValueError) as error:
            raise self.damaged("it has a header that is not a tar header") from error
        if member.size < 0:
            raise self.damaged("it has a member with a negative size")
        return member


def _from_archive(path: Path, name: Name) -> tuple[_Form, dict[str, bytes]]:
    limits = {file: _limit(form, file) for form in FORMS[name] for file in form.files}
    contents: dict[str, bytes] = {}
    with reading(path) as stream:
        archive = _Archive(path, stream)
        for _ in range(MOST_MEMBERS):
            member = archive.next_member()
            if member is None:
                return _form_of(path, name, contents), contents
            _check_member(path, member)
            file, size = PurePosixPath(member.name).name, 0 if member.type == tarfile.DIRTYPE else member.size
            if file not in limits or member.type not in FILE_TYPES:
                archive.skip(size)
            elif file in contents:
                raise InputError(f"{path} contains {file} twice: fetch it again")
            elif size > limits[file]:
                raise InputError(f"{path / file} is too large: {size} bytes, more than the limit of {limits[file]}")
            else:
                contents[file] = archive.take(size)
            archive.skip(-size % BLOCK)
    raise InputError(f"{path} contains more than {MOST_MEMBERS} files: it is not an archive of {name}")


def _check_member(path: Path, member: tarfile.TarInfo) -> None:
    """Raise InputError for members that a regular archive does not have; a second safeguard, since nothing is unpacked to disk."""
    shown = repr(member.name[:80])
    if member.type in NOTE_TYPES:
        return
    if member.type not in FILE_TYPES and member.type != tarfile.DIRTYPE:
        raise InputError(f"{path} contains {shown}, a link or device: only files and folders are allowed")
    if member.name.startswith(("/", "\\")) or ".." in member.name.replace("\\", "/").split("/"):
        raise InputError(f"{path} contains {shown}, a path outside the archive: fetch it again")


def _read_records(content: bytes, path: Path, name: Name, labels: Labels) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read pixels (n, 3072) and labels (n,) of the binary version: one label byte, or a coarse and a fine one, then the pixels."""
    label_bytes = 1 if name == "cifar-10" else 2
    length = label_bytes + PIXELS
    if not content or len(content) % length:
        raise InputError(f"{path} has {len(content)} bytes, which is not a multiple of {length}, the bytes of an image: fetch it again")
    records = np.frombuffer(content, np.uint8).reshape(-1, length)
    targets = records[:, 0 if labels == "coarse" else label_bytes - 1].astype(np.int64)
    _check_labels(targets.tolist(), path, CLASSES[name, labels])
    return records[:, label_bytes:], targets


def _read_pickled(content: bytes, path: Path, name: Name, labels: Labels) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read pixels (n, 3072) and labels (n,) of the Python version: a dict with `data` and a list of labels."""
    fields = _fields(content, path)
    pixels = fields.get("data")
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        raise InputError(f"{path} has no field 'data' with an array of n × {PIXELS} bytes: fetch it again")
    key = "labels" if name == "cifar-10" else f"{labels}_labels"
    targets = fields.get(key)
    if not isinstance(targets, list) or len(targets) != len(pixels):
        raise InputError(f"{path} has no field {key!r} with a list of {len(pixels)} labels, one for each image: fetch it again")
    _check_labels(targets, path, CLASSES[name, labels])
    return pixels, np.array(targets, np.int64)


def _check_labels(targets: list[Any], path: Path, classes: int) -> None:
    for row, label in enumerate(targets, 1):
        if type(label) is not int or not 0 <= label < classes:
            shown = label if type(label) is int else f"of type {type(label).__name__}"
            raise InputError(f"{path}, row {row}: label {shown} is not within 0…{classes - 1}")


def _fields(content: bytes, path: Path) -> dict[str, Any]:
    """Read the fields of a pickled dict; Python 2 stored their names as bytes."""
    value = read_plain_pickle(content, str(path))
    if not isinstance(value, dict):
        raise InputError(f"{path} contains a {type(value).__name__} instead of a dict: is it another file with this name?")
    return {key.decode("latin-1") if isinstance(key, bytes) else key: field for key, field in value.items()}


def _class_names(form: _Form, contents: dict[str, bytes], path: Path, name: Name, labels: Labels) -> tuple[str, ...]:
    classes, file = CLASSES[name, labels], form.names[labels]
    if file not in contents:
        return CIFAR_10_NAMES if name == "cifar-10" else tuple(map(str, range(classes)))
    names: Any = None
    if form.pickled:
        names = _fields(contents[file], path / file).get("label_names" if name == "cifar-10" else f"{labels}_label_names")
    else:
        names = [line for line in contents[file].splitlines() if line.strip()]
    if not isinstance(names, list) or len(names) != classes:
        raise InputError(f"{path / file} does not have {classes} class names: fetch it again, or remove it to use the default names")
    return tuple(_class_name(value, path / file, row) for row, value in enumerate(names, 1))


def _class_name(value: Any, path: Path, row: int) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(text, str) or not text.strip().isprintable() or "\ufffd" in text or not 0 < len(text.strip()) <= 100:
        raise InputError(f"{path}, row {row}: not a class name; fetch it again, or remove it to use the default names")
    return text.strip()
