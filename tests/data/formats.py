"""Writers of the classic formats for tests, laid out as the originals are."""

import gzip
import io
import pickle
import struct
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Dump = Callable[[object], bytes]
MODERN = partial(pickle.dumps, protocol=4)

CIFAR_10_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FINE_NAMES = [f"fine_{number}" for number in range(100)]
COARSE_NAMES = [f"coarse_{number}" for number in range(20)]


@dataclass(frozen=True)
class Images:
    """Images with their labels; CIFAR-10 and MNIST have only fine ones."""

    pixels: NDArray[np.uint8]
    fine: NDArray[np.int64]
    coarse: NDArray[np.int64]

    @classmethod
    def random(cls, seed: int, count: int, shape: tuple[int, ...], classes: int = 10) -> "Images":
        generator = np.random.default_rng(seed)
        pixels = generator.integers(0, 256, (count, *shape), np.uint8)
        return cls(pixels, generator.integers(0, classes, count), generator.integers(0, 20, count))

    def batches(self, number: int) -> "list[Images]":
        parts = np.array_split(np.arange(len(self.fine)), number)
        return [Images(self.pixels[part], self.fine[part], self.coarse[part]) for part in parts]


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, train: Images, test: Images, *, zipped: bool = False, separator: str = "-") -> Path:
    """The four files of MNIST or Fashion-MNIST; images are (n, height, width)."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, images in (("train", train), ("t10k", test)):
        for kind, dimensions, array in (("images", 3, images.pixels), ("labels", 1, images.fine)):
            path = folder / f"{part}-{kind}{separator}idx{dimensions}-ubyte{'.gz' if zipped else ''}"
            content = idx_bytes(array)
            path.write_bytes(gzip.compress(content, 1) if zipped else content)
    return folder


def records(images: Images, name: str) -> bytes:
    """Records of the binary version: label bytes, then the pixels."""
    labels = [images.fine] if name == "cifar-10" else [images.coarse, images.fine]
    columns = [label[:, np.newaxis].astype(np.uint8) for label in labels]
    return np.concatenate([*columns, images.pixels.reshape(-1, 3072)], axis=1).tobytes()


def write_cifar_binary(folder: Path, name: str, train: Images, test: Images) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if name == "cifar-10":
        for number, batch in enumerate(train.batches(5), 1):
            (folder / f"data_batch_{number}.bin").write_bytes(records(batch, name))
        (folder / "test_batch.bin").write_bytes(records(test, name))
        (folder / "batches.meta.txt").write_text("\n".join(CIFAR_10_NAMES) + "\n\n")  # the original ends in an empty line
    else:
        (folder / "train.bin").write_bytes(records(train, name))
        (folder / "test.bin").write_bytes(records(test, name))
        (folder / "fine_label_names.txt").write_text("\n".join(FINE_NAMES) + "\n")
        (folder / "coarse_label_names.txt").write_text("\n".join(COARSE_NAMES) + "\n")
    return folder


def batch_fields(images: Images, name: str, label: str) -> dict[str, object]:
    """What a file of the Python version holds."""
    fields: dict[str, object] = {
        "data": images.pixels.reshape(-1, 3072),
        "batch_label": label,
        "filenames": [f"image_{row:05d}.png" for row in range(len(images.fine))],
    }
    if name == "cifar-10":
        return fields | {"labels": images.fine.tolist()}
    return fields | {"fine_labels": images.fine.tolist(), "coarse_labels": images.coarse.tolist()}


def write_cifar_python(folder: Path, name: str, train: Images, test: Images, dump: Dump = MODERN) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if name == "cifar-10":
        for number, batch in enumerate(train.batches(5), 1):
            (folder / f"data_batch_{number}").write_bytes(dump(batch_fields(batch, name, f"training batch {number} of 5")))
        (folder / "test_batch").write_bytes(dump(batch_fields(test, name, "testing batch 1 of 1")))
        meta: dict[str, object] = {"num_cases_per_batch": 10000, "label_names": CIFAR_10_NAMES, "num_vis": 3072}
        (folder / "batches.meta").write_bytes(dump(meta))
    else:
        (folder / "train").write_bytes(dump(batch_fields(train, name, "training batch 1 of 1")))
        (folder / "test").write_bytes(dump(batch_fields(test, name, "testing batch 1 of 1")))
        (folder / "meta").write_bytes(dump({"fine_label_names": FINE_NAMES, "coarse_label_names": COARSE_NAMES}))
    return folder


def python2_pickle(value: object) -> bytes:
    """What Python 2's cPickle writes at protocol 2 for dicts, lists, texts, integers and arrays of bytes."""
    return b"\x80\x02" + _Python2().dump(value) + b"."


class _Python2:
    """Strings are byte strings, everything that can be shared is put into the memo, lists and dicts go in portions of 1000."""

    def __init__(self) -> None:
        self.memoised = 0

    def put(self) -> bytes:
        self.memoised += 1
        return b"q" + bytes([self.memoised]) if self.memoised < 256 else b"r" + struct.pack("<I", self.memoised)

    def string(self, content: bytes) -> bytes:
        return b"U" + bytes([len(content)]) + content if len(content) < 256 else b"T" + struct.pack("<i", len(content)) + content

    def integer(self, value: int) -> bytes:
        if 0 <= value < 256:
            return b"K" + bytes([value])
        return b"M" + struct.pack("<H", value) if 0 <= value < 65536 else b"J" + struct.pack("<i", value)

    def dump(self, value: object) -> bytes:
        match value:
            case str():
                return self.string(value.encode("latin-1")) + self.put()
            case int():
                return self.integer(value)
            case list():
                parts = [value[start : start + 1000] for start in range(0, len(value), 1000)]
                return b"]" + self.put() + b"".join(b"(" + b"".join(map(self.dump, part)) + b"e" for part in parts)
            case dict():
                return b"}" + self.put() + b"(" + b"".join(self.dump(key) + self.dump(item) for key, item in value.items()) + b"u"
            case np.ndarray():
                return self.array(value)
        raise TypeError(type(value))

    def array(self, value: NDArray[np.uint8]) -> bytes:
        assert value.dtype == np.uint8
        assert value.ndim == 2
        made = b"cnumpy.core.multiarray\n_reconstruct\n" + self.put() + b"cnumpy\nndarray\n" + self.put()
        made += b"K\x00\x85U\x01b\x87R" + self.put()
        shape = b"".join(map(self.integer, value.shape)) + b"\x86"  # TUPLE2: two dimensions
        element = b"cnumpy\ndtype\n" + self.put() + b"U\x02u1K\x00K\x01\x87R" + self.put()
        element += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        return made + b"(K\x01" + shape + element + b"\x89" + self.string(value.tobytes()) + b"tb"


def pack(archive: Path, folder: Path, form: int = tarfile.GNU_FORMAT) -> Path:
    """A folder as a .tar.gz, members below the folder's name."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz", format=form, compresslevel=1) as tar:
        tar.add(folder, folder.name)
    return archive


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = "", form: int = tarfile.GNU_FORMAT) -> bytes:
    """One member of a tar archive, with any name and type."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(content)
    return info.tobuf(form) + content + b"\x00" * (-len(content) % 512)


def tar_gz(*members: bytes, end: bytes = b"\x00" * 1024) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1, mtime=0) as stream:
        stream.write(b"".join(members) + end)
    return buffer.getvalue()
