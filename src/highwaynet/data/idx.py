"""Reads idx files, the format of MNIST and Fashion-MNIST, plain or gzipped. Damaged or malicious files raise InputError.

Does not import torch.
"""

import gzip
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot
from highwaynet.data.samples import Samples

Stream = gzip.GzipFile | BufferedReader
MOST_BYTES = 2**30
"""Maximal size of a file, also when unpacked."""
PIECE = 2**20
CLASSES = 10
STEMS = {
    "train": (("train-images", "idx3-ubyte"), ("train-labels", "idx1-ubyte")),
    "test": (("t10k-images", "idx3-ubyte"), ("t10k-labels", "idx1-ubyte")),
}
# Where each set may be below a folder. The folder itself comes last, because its files do not show which set they belong to.
PLACES = {
    "mnist": ("mnist", "mnist/raw", "MNIST/raw", "."),
    "fashion-mnist": ("fashion-mnist", "fashion-mnist/raw", "FashionMNIST/raw", "data/fashion", "fashion", "."),
}


@contextmanager
def reading(path: Path) -> Iterator[Stream]:
    """Open a file as a stream, decompressed if its first bytes are those of gzip.

    Raises:
        InputError: If the file cannot be read, or its gzip stream is damaged.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would block
            raise InputError(f"cannot read {path}: not a regular file")
        with path.open("rb") as stream:
            zipped = stream.read(2) == b"\x1f\x8b"
            stream.seek(0)
            if zipped:
                with gzip.GzipFile(fileobj=stream) as unzipped:
                    yield unzipped
            else:
                yield stream
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is damaged: its gzip stream is cut short or corrupted; fetch it again") from error
    except OSError as error:
        raise cannot("read", path, error) from error


def read_pieces(stream: Stream, count: int) -> bytearray:
    """Read `count` bytes, or fewer at the end, in pieces: memory grows with what is read, not with what a header claims."""
    content = bytearray()
    while len(content) < count:
        piece = stream.read(min(PIECE, count - len(content)))
        if not piece:
            break
        content += piece
    return content


def is_file(path: Path) -> bool:
    """Whether a regular file exists; raises InputError if its folder cannot be read."""
    try:
        return path.is_file()
    except OSError as error:
        raise cannot("read", path, error) from error


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes with one to three dimensions, gzipped or not.

    Raises:
        InputError: If the file is not idx, of another type, too short, too long, or damaged.
    """
    with reading(path) as stream:
        shape = _read_shape(path, stream)
        count = math.prod(shape)
        announced = f"its header announces {' × '.join(map(str, shape))} = {count} bytes"
        if count > MOST_BYTES:
            raise InputError(f"{path} is too large: {announced}, more than the limit of {MOST_BYTES}")
        if not isinstance(stream, gzip.GzipFile):
            following = os.fstat(stream.fileno()).st_size - stream.tell()
            if following != count:
                raise InputError(f"{path} is damaged: {announced}, but {following} follow; fetch it again")
        # One more byte than announced detects a file that is too long; it also makes gzip compare its checksum.
        content = read_pieces(stream, count + 1)
    if len(content) != count:
        following_text = f"only {len(content)}" if len(content) < count else "more"
        raise InputError(f"{path} is damaged: {announced}, but {following_text} follow; fetch it again")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _read_shape(path: Path, stream: Stream) -> tuple[int, ...]:
    """Read the shape from the header: two zeros, 8 for unsigned bytes, the number of dimensions, and each size as four bytes."""
    magic = read_pieces(stream, 4)
    if len(magic) < 4 or magic[:3] != b"\x00\x00\x08" or not 1 <= magic[3] <= 3:
        raise InputError(
            f"{path} is not an idx file of bytes: it starts with '{magic.hex(' ')}' instead of '00 00 08' and 01, 02 or 03 dimensions"
        )
    sizes = read_pieces(stream, 4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise InputError(f"{path} is damaged: it ends within its header; fetch it again")
    shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
    if 0 in shape:
        raise InputError(f"{path} is empty: its header announces {' × '.join(map(str, shape))} bytes")
    return shape


def _find(folder: Path, stem: str, ending: str) -> Path | None:
    """Find one of the four files, in any spelling of its name; a plain file is preferred to a gzipped one."""
    names = [f"{stem}{separator}{ending}{zipped}" for zipped in ("", ".gz") for separator in "-."]
    return next((folder / name for name in names if is_file(folder / name)), None)


def find_idx_folder(root: Path, name: str) -> Path | None:
    """Find the folder at or below `root` with the four files of `mnist` or `fashion-mnist`; None if there is none."""
    for place in PLACES[name]:
        if all(_find(root / place, *parts) for pair in STEMS.values() for parts in pair):
            return root / place
    return None


def read_idx_set(folder: Path) -> tuple[Samples, Samples]:
    """Read the training and the test set in a folder: inputs (n, 1, height, width) uint8, targets (n,) int64 from 0 to 9.

    Raises:
        InputError: If a file is missing or damaged, files do not match, or a label is out of range (rows count from 1).
    """
    train, test = (_read_part(folder, part) for part in ("train", "test"))
    if train.inputs.shape[1:] != test.inputs.shape[1:]:
        sizes = [" × ".join(map(str, part.inputs.shape[2:])) for part in (train, test)]
        raise InputError(f"{folder} mixes two sets: its training images have {sizes[0]} pixels, its test images {sizes[1]}; fetch it again")
    return train, test


def _read_part(folder: Path, part: str) -> Samples:
    paths = []
    for stem, ending in STEMS[part]:
        path = _find(folder, stem, ending)
        if path is None:
            raise InputError(f"{folder} has no file {stem}-{ending} or {stem}-{ending}.gz: put the four files of the set there")
        paths.append(path)
    images, labels = map(read_idx, paths)
    for path, array, dimensions in zip(paths, (images, labels), (3, 1), strict=True):
        if array.ndim != dimensions:
            raise InputError(f"{path} has {array.ndim} dimensions instead of {dimensions}: is it another file with this name?")
    if len(images) != len(labels):
        raise InputError(f"{paths[0]} has {len(images)} images, but {paths[1]} has {len(labels)} labels: fetch both again")
    wrong = np.flatnonzero(labels >= CLASSES)
    if len(wrong):
        raise InputError(f"{paths[1]}, row {wrong[0] + 1}: label {labels[wrong[0]]} is not within 0…{CLASSES - 1}")
    return Samples(images[:, np.newaxis], labels.astype(np.int64))  # (n, 1, height, width), (n,)
