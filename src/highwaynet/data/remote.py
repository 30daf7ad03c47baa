"""The data sets that can be downloaded: files, checksums, mirrors, and where they are stored. Does not import torch.

The publishers give MD5 checksums. They protect against damage, not against attacks, so that contents are not trusted.
"""

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from highwaynet.base.errors import InputError, unknown
from highwaynet.base.files import cannot

FileState = Literal["ok", "missing", "damaged"]
MIRROR_VARIABLE = "HIGHWAYNET_MIRROR"
CONTENT_LIMIT = 2**27


@dataclass(frozen=True)
class RemoteFile:
    """A file to download."""

    name: str
    md5: str
    size: int
    """Exact length in bytes."""
    content: str = ""
    """SHA-256 of the content of a gzipped file, so that a file that was unpacked or compressed again is accepted."""


@dataclass(frozen=True)
class UnpackedFile:
    """A file in a downloaded archive."""

    name: str
    sha256: str


@dataclass(frozen=True)
class RemoteSet:
    """A data set that can be downloaded."""

    downloads: tuple[RemoteFile, ...]
    mirrors: tuple[str, ...]
    """Base addresses, tried in this order; the address of a file is base + name."""
    folders: tuple[str, ...]
    """Folders that may contain the files, below the data root; downloads go to the first."""
    contents: tuple[UnpackedFile, ...] = ()
    """The files that the archive unpacks into the first folder; empty if files are kept as downloaded."""


def _idx_files(*checksums: tuple[str, int, str]) -> tuple[RemoteFile, ...]:
    """The four files of MNIST or Fashion-MNIST, which have the same names."""
    names = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
    return tuple(RemoteFile(name, *known) for name, known in zip(names, checksums, strict=True))


# The first address forwards to the second.
_TORONTO = ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/")

REMOTE: dict[str, RemoteSet] = {
    "mnist": RemoteSet(
        downloads=_idx_files(
            ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
            ("d53e105ee54ea40749a09fcbcd1e9432", 28_881, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
            ("9fb629c4189551a2d022fa330f9573f3", 1_648_877, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
            ("ec29112dd5afa0611ce80d1b7f02629c", 4_542, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
        ),
        mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        folders=("mnist", "MNIST/raw", "."),
    ),
    "fashion-mnist": RemoteSet(
        downloads=_idx_files(
            ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
            ("25c81989df183df01b3e8a0aad5dffbe", 29_515, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
            ("bef4ecab320f06d8554ea6380940ec79", 4_422_102, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
            ("bb300cfdad3c16e7a12a480ee83cd310", 5_148, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
        ),
        mirrors=(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        folders=("fashion-mnist", "FashionMNIST/raw", "."),
    ),
    "cifar-10": RemoteSet(
        downloads=(RemoteFile("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170_052_171),),
        mirrors=_TORONTO,
        folders=("cifar-10-batches-bin",),
        contents=(
            UnpackedFile("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
            UnpackedFile("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
            UnpackedFile("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
            UnpackedFile("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
            UnpackedFile("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
            UnpackedFile("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
        ),
    ),
    "cifar-100": RemoteSet(
        downloads=(RemoteFile("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", 168_513_733),),
        mirrors=_TORONTO,
        folders=("cifar-100-binary",),
        contents=(
            UnpackedFile("train.bin", "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"),
            UnpackedFile("test.bin", "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"),
        ),
    ),
}


def remote_set(name: str) -> RemoteSet:
    """Return the entry of a data set that can be downloaded; raises InputError for other names."""
    if name not in REMOTE:
        raise unknown("data set to download", name, REMOTE)
    return REMOTE[name]


def addresses(name: str, file: RemoteFile) -> list[str]:
    """Return the addresses of a data set's file, in the order in which they are tried.

    The environment variable HIGHWAYNET_MIRROR, if set, is a base address that comes first, with the file at base/NAME/FILE.
    """
    public = [base + file.name for base in remote_set(name).mirrors]
    own = os.environ.get(MIRROR_VARIABLE, "")
    return [f"{_checked(own).rstrip('/')}/{name}/{file.name}", *public] if own else public


def _checked(base: str) -> str:
    try:
        parts = urlsplit(base)
        # Reading the port raises ValueError if it is invalid.
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise InputError(f"{MIRROR_VARIABLE} = {base!r}: must be the address of a folder, such as https://example.org/data")
    return base


def survey(name: str, root: Path) -> list[tuple[str, FileState, Path]]:
    """Return the name, state and path of each file that a data set needs."""
    known = remote_set(name)
    folders = [root / folder for folder in known.folders]
    if known.contents:
        return [(file.name, *_state(file.name, file.sha256, "sha256", folders, root)) for file in known.contents]
    return [(file.name, *_downloaded_state(file, folders, root)) for file in known.downloads]


def _downloaded_state(file: RemoteFile, folders: list[Path], root: Path) -> tuple[FileState, Path]:
    state, place = _state(file.name, file.md5, "md5", folders, root)
    if state != "ok" and file.content:
        for path in (folder / name for folder in folders for name in (file.name, file.name.removesuffix(".gz"))):
            if content_digest(path) == file.content:
                return "ok", path
    return state, place


def _state(name: str, checksum: str, algorithm: Literal["md5", "sha256"], folders: list[Path], root: Path) -> tuple[FileState, Path]:
    others = {file.md5 for known in REMOTE.values() for file in known.downloads}
    state: FileState = "missing"
    for folder in folders:
        path = folder / name
        found = digest(path, algorithm)
        if found == checksum:
            return "ok", path
        # Data sets have files of the same names; a file directly in the root may belong to another set.
        if found is not None and (folder != root or found not in others):
            state = "damaged"
    return state, folders[0] / name


def content_digest(path: Path) -> str | None:
    """Return the SHA-256 of a file's content, decompressed if it is gzipped; None if it cannot be read or is too large."""
    found = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            zipped = stream.read(2) == b"\x1f\x8b"
        left = CONTENT_LIMIT
        with gzip.open(path) if zipped else path.open("rb") as stream:
            while left > 0 and (piece := stream.read(min(left, 2**20))):
                found.update(piece)
                left -= len(piece)
    except (OSError, EOFError, zlib.error):
        return None
    return found.hexdigest() if left > 0 else None


def digest(path: Path, algorithm: Literal["md5", "sha256"]) -> str | None:
    """Return the checksum of a file, in hexadecimal; None if there is no file."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, new_md5 if algorithm == "md5" else hashlib.sha256).hexdigest()
    except OSError as error:
        raise cannot("read", path, error) from error


def new_md5() -> "hashlib._Hash":
    """Return a new MD5 object, used against damage, not for security."""
    return hashlib.md5(usedforsecurity=False)
