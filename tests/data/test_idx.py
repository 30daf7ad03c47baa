"""idx files: every layout gives the same samples, and every bad file a sentence."""

import gzip
import os
import struct
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.formats import Images, idx_bytes, write_idx
from highwaynet.base.errors import InputError
from highwaynet.data import idx
from highwaynet.data.idx import find_idx_folder, read_idx, read_idx_set

FUZZ = partial(settings, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])

TRAIN, TEST = Images.random(0, 12, (5, 4)), Images.random(1, 7, (5, 4))
CONTENT = idx_bytes(TRAIN.pixels)


def refusal(path: Path) -> str:
    """The sentence with which a file, or a folder of them, is refused."""
    read = read_idx_set if path.is_dir() else read_idx
    with pytest.raises(InputError) as caught:
        read(path)
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert sentence.count(str(path)) >= 1
    return sentence.replace(str(path), "FILE")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some-idx"


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), (300, 1, 1)])
@pytest.mark.parametrize("zipped", [False, True])
def test_an_array_comes_back(path: Path, shape: tuple[int, ...], zipped: bool) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    path.write_bytes(gzip.compress(idx_bytes(array)) if zipped else idx_bytes(array))
    read = read_idx(path)
    assert read.dtype == np.uint8
    assert read.flags.writeable
    assert np.array_equal(read, array)


def test_the_first_bytes_decide_not_the_name(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(CONTENT)
    (tmp_path / "b").write_bytes(gzip.compress(CONTENT))
    for name in ("a.gz", "b"):
        assert np.array_equal(read_idx(tmp_path / name), TRAIN.pixels)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "FILE is not an idx file of bytes: it starts with '' instead of '00 00 08' and 01, 02 or 03 dimensions"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01a", "FILE is not an idx file of bytes: it starts with '00 00 0d 01' instead"),
        (b"\x00\x00\x08\x04" + b"\x00\x00\x00\x01" * 4 + b"a", "FILE is not an idx file of bytes: it starts with '00 00 08 04'"),
        (b"\x00\x00\x08\x00a", "FILE is not an idx file of bytes: it starts with '00 00 08 00'"),
        (b"\x89PNG\r\n", "FILE is not an idx file of bytes: it starts with '89 50 4e 47'"),
        (CONTENT[:9], "FILE is damaged: it ends within its header; fetch it again"),
        (CONTENT[:-1], "FILE is damaged: its header announces 12 × 5 × 4 = 240 bytes, but 239 follow; fetch it again"),
        (CONTENT + b"ab", "FILE is damaged: its header announces 12 × 5 × 4 = 240 bytes, but 242 follow; fetch it again"),
        (gzip.compress(CONTENT[:-1]), "FILE is damaged: its header announces 12 × 5 × 4 = 240 bytes, but only 239 follow; fetch it again"),
        (gzip.compress(CONTENT + b"ab"), "FILE is damaged: its header announces 12 × 5 × 4 = 240 bytes, but more follow; fetch it again"),
        (gzip.compress(CONTENT)[:-9], "FILE is damaged: its gzip stream is cut short or corrupted; fetch it again"),
        (gzip.compress(CONTENT)[:-1], "FILE is damaged: its gzip stream is cut short or corrupted; fetch it again"),
        (gzip.compress(CONTENT, mtime=0)[:5], "FILE is damaged: its gzip stream is cut short or corrupted; fetch it again"),
        (gzip.compress(CONTENT) + b"x", "FILE is damaged: its gzip stream is cut short or corrupted; fetch it again"),
        (b"\x1f\x8b\x08\x00" + b"x" * 50, "FILE is damaged: its gzip stream is cut short or corrupted; fetch it again"),
        (struct.pack(">4B2I", 0, 0, 8, 2, 0, 9), "FILE is empty: its header announces 0 × 9 bytes"),
        (
            struct.pack(">4B3I", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1),
            "FILE is too large: its header announces 4294967295 × 4294967295 × 4294967295 = 79228162458924105385300197375 bytes, "
            "more than the limit of 1073741824",
        ),
    ],
)
def test_a_bad_file_is_named(path: Path, content: bytes, sentence: str) -> None:
    path.write_bytes(content)
    assert refusal(path).startswith(sentence)


def test_a_damaged_checksum_is_found(path: Path) -> None:
    content = bytearray(gzip.compress(CONTENT))
    content[-6] ^= 1  # within the CRC
    path.write_bytes(content)
    assert "gzip stream is cut short or corrupted" in refusal(path)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nothing") == "cannot read FILE: no such file or directory"
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == "cannot read FILE: not a regular file"
    with pytest.raises(InputError, match="cannot read"):
        read_idx(tmp_path)


def peak(path: Path) -> int:
    """The most memory that refusing a file takes, in bytes."""
    tracemalloc.start()
    try:
        refusal(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_stays_small(path: Path) -> None:
    zeros = b"\x00" * (64 << 20)
    path.write_bytes(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, 1000) + zeros, 1))  # announces less than it unpacks to
    assert peak(path) < 4 << 20
    path.write_bytes(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, 2**30) + b"few", 1))  # announces more
    assert peak(path) < 4 << 20
    path.write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 2**30) + b"few")
    assert peak(path) < 4 << 20


def test_the_limit_counts_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(CONTENT)
    monkeypatch.setattr(idx, "MOST_BYTES", TRAIN.pixels.size)
    read_idx(path)
    monkeypatch.setattr(idx, "MOST_BYTES", TRAIN.pixels.size - 1)
    assert "240 bytes, more than the limit of 239" in refusal(path)


LAYOUTS = [
    ("mnist", "mnist"),
    ("mnist", "mnist/raw"),
    ("mnist", "MNIST/raw"),
    ("mnist", "."),
    ("fashion-mnist", "fashion-mnist"),
    ("fashion-mnist", "fashion-mnist/raw"),
    ("fashion-mnist", "FashionMNIST/raw"),
    ("fashion-mnist", "data/fashion"),
    ("fashion-mnist", "fashion"),
    ("fashion-mnist", "."),
]


@pytest.mark.parametrize(("name", "place"), LAYOUTS)
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("separator", ["-", "."])
def test_every_layout_is_found_and_read_alike(tmp_path: Path, name: str, place: str, zipped: bool, separator: str) -> None:
    write_idx(tmp_path / place, TRAIN, TEST, zipped=zipped, separator=separator)
    folder = find_idx_folder(tmp_path, name)
    assert folder == tmp_path / place
    for part, images in zip(read_idx_set(folder), (TRAIN, TEST), strict=True):
        assert (part.inputs.dtype, part.targets.dtype) == (np.uint8, np.int64)
        assert np.array_equal(part.inputs, images.pixels[:, np.newaxis])
        assert np.array_equal(part.targets, images.fine)


def test_mnist_and_fashion_mnist_do_not_mix(tmp_path: Path) -> None:
    write_idx(tmp_path / "MNIST" / "raw", TRAIN, TEST)
    assert find_idx_folder(tmp_path, "fashion-mnist") is None
    write_idx(tmp_path, TRAIN, TEST)  # files that do not say which set they are
    write_idx(tmp_path / "fashion", TRAIN, TEST)
    assert find_idx_folder(tmp_path, "fashion-mnist") == tmp_path / "fashion"
    assert find_idx_folder(tmp_path, "mnist") == tmp_path / "MNIST" / "raw"


def test_a_folder_without_all_four_is_not_found(tmp_path: Path) -> None:
    assert find_idx_folder(tmp_path, "mnist") is None
    assert find_idx_folder(tmp_path / "nothing", "mnist") is None
    folder = write_idx(tmp_path / "mnist", TRAIN, TEST)
    (folder / "t10k-labels-idx1-ubyte").unlink()
    (folder / "t10k-labels-idx1-ubyte").mkdir()
    assert find_idx_folder(tmp_path, "mnist") is None
    assert refusal(folder) == "FILE has no file t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz: put the four files of the set there"


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    folder = write_idx(tmp_path / "mnist", TRAIN, TEST)
    labels = folder / "t10k-labels-idx1-ubyte"
    labels.write_bytes(idx_bytes(TEST.fine[:-1]))
    assert refusal(folder) == "FILE/t10k-images-idx3-ubyte has 7 images, but FILE/t10k-labels-idx1-ubyte has 6 labels: fetch both again"
    labels.write_bytes(idx_bytes(np.array([0, 9, 10, 3, 4, 5, 77], np.uint8)))
    assert refusal(folder) == "FILE/t10k-labels-idx1-ubyte, row 3: label 10 is not within 0…9"
    labels.write_bytes(idx_bytes(TEST.pixels))
    assert refusal(folder).startswith("FILE/t10k-labels-idx1-ubyte has 3 dimensions instead of 1")
    write_idx(folder, TRAIN, Images.random(1, 7, (4, 5)))
    assert refusal(folder) == "FILE mixes two sets: its training images have 5 × 4 pixels, its test images 4 × 5; fetch it again"


def harmless(path: Path, content: bytes) -> None:
    """Either an array or a sentence, never anything else."""
    path.write_bytes(content)
    try:
        array = read_idx(path)
    except InputError as error:
        sentence = str(error)
    else:
        sentence = ""
        assert array.dtype == np.uint8
        assert 1 <= array.ndim <= 3
    assert sentence.isprintable()


@FUZZ(max_examples=300)
@given(st.binary(max_size=100), st.sampled_from([b"", b"\x00\x00\x08", b"\x00\x00\x08\x01\x00\x00\x00", b"\x1f\x8b", b"\x1f\x8b\x08\x00"]))
def test_random_bytes(path: Path, content: bytes, start: bytes) -> None:
    harmless(path, start + content)


@FUZZ(max_examples=500)
@given(st.sampled_from([CONTENT, gzip.compress(CONTENT, mtime=0), idx_bytes(TRAIN.fine)]), st.data())
def test_flipped_and_missing_bytes(path: Path, content: bytes, data: st.DataObject) -> None:
    damaged = bytearray(content)
    for place in data.draw(st.lists(st.integers(0, min(len(content), 40) - 1), max_size=3)):
        damaged[place] = data.draw(st.integers(0, 255))
    harmless(path, bytes(damaged))
    harmless(path, bytes(damaged[: data.draw(st.integers(0, len(content)))]))
