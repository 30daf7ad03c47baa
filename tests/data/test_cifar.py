"""CIFAR: every form gives the same samples, and every bad file a sentence."""

import gzip
import os
import pickle
import struct
import tarfile
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.formats import (
    CIFAR_10_NAMES,
    COARSE_NAMES,
    FINE_NAMES,
    Images,
    batch_fields,
    member,
    pack,
    python2_pickle,
    records,
    tar_gz,
    write_cifar_binary,
    write_cifar_python,
)
from highwaynet.base.errors import InputError
from highwaynet.data import cifar
from highwaynet.data.cifar import find_cifar, read_cifar

FUZZ = partial(settings, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])

SETS = {
    "cifar-10": (Images.random(0, 13, (3, 32, 32)), Images.random(1, 4, (3, 32, 32))),
    "cifar-100": (Images.random(2, 11, (3, 32, 32), 100), Images.random(3, 4, (3, 32, 32), 100)),
}
FOLDERS = {"cifar-10": ("cifar-10-batches-bin", "cifar-10-batches-py"), "cifar-100": ("cifar-100-binary", "cifar-100-python")}
PROTOCOLS = {f"protocol {number}": partial(pickle.dumps, protocol=number) for number in range(6)}
WRITERS: dict[str, tuple[int, Callable[..., Path]]] = {
    "binary": (0, write_cifar_binary),
    "Python 2": (1, partial(write_cifar_python, dump=python2_pickle)),
    **{name: (1, partial(write_cifar_python, dump=dump)) for name, dump in PROTOCOLS.items()},
}


def refusal(path: Path, name: Any = "cifar-10", labels: Any = "fine") -> str:
    """The sentence with which a folder or an archive is refused."""
    with pytest.raises(InputError) as caught:
        read_cifar(path, name, labels)
    sentence = str(caught.value)
    assert sentence.isprintable()
    return sentence.replace(str(path), "SET")


def assert_read(path: Path, name: Any, labels: Any = "fine") -> None:
    train, test, names = read_cifar(path, name, labels)
    assert list(names) == (CIFAR_10_NAMES if name == "cifar-10" else FINE_NAMES if labels == "fine" else COARSE_NAMES)
    for part, images in zip((train, test), SETS[name], strict=True):
        assert (part.inputs.dtype, part.targets.dtype) == (np.uint8, np.int64)
        assert part.inputs.flags.c_contiguous
        assert part.inputs.flags.writeable
        assert np.array_equal(part.inputs, images.pixels)
        assert np.array_equal(part.targets, images.fine if labels == "fine" else images.coarse)


@pytest.mark.parametrize(("name", "labels"), [("cifar-10", "fine"), ("cifar-100", "fine"), ("cifar-100", "coarse")])
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("below", ["", "name"])
@pytest.mark.parametrize("packed", [None, tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_form_is_found_and_read_alike(tmp_path: Path, name: Any, labels: str, writer: str, below: str, packed: int | None) -> None:
    root = tmp_path / "root"
    place = root / name if below else root
    form, write = WRITERS[writer]
    expected = place / FOLDERS[name][form]
    folder = write((tmp_path if packed is not None else place) / expected.name, name, *SETS[name])
    if packed is not None:
        expected = pack(place / f"{name}-{('binary', 'python')[form]}.tar.gz", folder, packed)
    assert find_cifar(root, name) == expected
    assert_read(expected, name, labels)


def test_folders_come_before_archives_and_binary_before_python(tmp_path: Path) -> None:
    for name in ("cifar-10", "cifar-100"):
        assert find_cifar(tmp_path, name) is None
        order = [
            tmp_path / f"{name}-python.tar.gz",
            tmp_path / name / f"{name}-binary.tar.gz",
            tmp_path / name / FOLDERS[name][1],
            tmp_path / FOLDERS[name][1],
            tmp_path / name / FOLDERS[name][0],
            tmp_path / FOLDERS[name][0],
        ]
        for path in order:
            path.parent.mkdir(exist_ok=True)
            path.touch() if path.suffix == ".gz" else path.mkdir()
            assert find_cifar(tmp_path, name) == path


def test_the_folder_itself_may_be_the_root(tmp_path: Path) -> None:
    folder = write_cifar_binary(tmp_path / "cifar-10-batches-bin", "cifar-10", *SETS["cifar-10"])
    assert find_cifar(folder, "cifar-10") == folder
    assert find_cifar(folder, "cifar-100") is None


@pytest.mark.parametrize("writer", ["binary", "Python 2"])
def test_names_that_are_absent(tmp_path: Path, writer: str) -> None:
    for name, expected in (("cifar-10", CIFAR_10_NAMES), ("cifar-100", [str(number) for number in range(100)])):
        folder = WRITERS[writer][1](tmp_path / name, name, *SETS[name])
        for file in ("batches.meta.txt", "batches.meta", "meta", "fine_label_names.txt"):
            (folder / file).unlink(missing_ok=True)
        assert list(read_cifar(folder, name)[2]) == expected
    assert len(read_cifar(tmp_path / "cifar-100", "cifar-100", "coarse")[2]) == 20


def test_a_plain_tar_and_odd_but_honest_archives_are_read(tmp_path: Path) -> None:
    folder = write_cifar_binary(tmp_path / "cifar-10-batches-bin", "cifar-10", *SETS["cifar-10"])
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir(), reverse=True)}
    honest = [
        [member(name, content) for name, content in files.items()],
        [member(f"./{name}", content) for name, content in files.items()],
        [
            member("x/", kind=tarfile.DIRTYPE),
            member("x/readme.html", b"hello"),
            member("x/._test_batch.bin", b"not an image"),
            member("x/" + "long" * 60, b"1", form=tarfile.GNU_FORMAT),
            *(member(f"x/é/{name}", content, form=tarfile.PAX_FORMAT) for name, content in files.items()),
        ],
    ]
    path = tmp_path / "archive"
    for members in honest:
        path.write_bytes(tar_gz(*members))
        assert_read(path, "cifar-10")
        path.write_bytes(gzip.decompress(path.read_bytes()))
        assert_read(path, "cifar-10")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("data_batch_2.bin", b"", "SET/data_batch_2.bin has 0 bytes, which is not a multiple of 3073, the bytes of an image"),
        ("data_batch_2.bin", b"x" * 3072, "SET/data_batch_2.bin has 3072 bytes, which is not a multiple of 3073"),
        ("test_batch.bin", b"\x09" * 3073 + b"\x0a" * 3073, "SET/test_batch.bin, row 2: label 10 is not within 0…9"),
        ("data_batch_3.bin", None, "SET lacks data_batch_3.bin: fetch the set again"),
        ("test_batch.bin", None, "SET lacks test_batch.bin: fetch the set again"),
        ("batches.meta.txt", b"cat\ndog\n", "SET/batches.meta.txt does not have 10 class names: fetch it again, or remove it"),
        ("batches.meta.txt", b"cat\n" * 9 + b"\xff\n", "SET/batches.meta.txt, row 10: not a class name"),
        ("batches.meta.txt", b"cat\n" * 9 + b"\x1b[31m\n", "SET/batches.meta.txt, row 10: not a class name"),
        ("batches.meta.txt", b"x" * 2**21, "SET/batches.meta.txt is too large: 2097152 bytes, more than the limit of 1048576"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_bad_binary_file_is_named(tmp_path: Path, name: str, content: bytes | None, sentence: str, packed: bool) -> None:
    folder = write_cifar_binary(tmp_path / "set", "cifar-10", *SETS["cifar-10"])
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    path = pack(tmp_path / "set.tar.gz", folder) if packed else folder
    assert refusal(path).startswith(sentence)


def test_both_labels_of_a_record_are_where_they_belong(tmp_path: Path) -> None:
    folder = write_cifar_binary(tmp_path / "set", "cifar-100", *SETS["cifar-100"])
    (folder / "test.bin").write_bytes(b"\x13\x63" + b"x" * 3072 + b"\x14\x64" + b"x" * 3072)
    assert refusal(folder, "cifar-100") == "SET/test.bin, row 2: label 100 is not within 0…99"
    assert refusal(folder, "cifar-100", "coarse") == "SET/test.bin, row 2: label 20 is not within 0…19"


def fields(**changes: object) -> bytes:
    values = batch_fields(SETS["cifar-10"][1], "cifar-10", "testing batch 1 of 1") | changes
    return pickle.dumps({key: value for key, value in values.items() if value is not None}, 4)


NO_DATA = "SET/test_batch has no field 'data' with an array of n × 3072 bytes: fetch it again"
NO_LABELS = "SET/test_batch has no field 'labels' with a list of 4 labels, one for each image: fetch it again"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("test_batch", b"", "SET/test_batch is damaged: no valid opcode"),
        ("test_batch", fields()[:-9], "SET/test_batch is damaged: "),
        ("test_batch", pickle.dumps([1]), "SET/test_batch contains a list instead of a dict: is it another file with this name?"),
        ("test_batch", fields(data=None), NO_DATA),
        ("test_batch", fields(data=[1]), NO_DATA),
        ("test_batch", fields(data=np.zeros((4, 3072))), NO_DATA),
        ("test_batch", fields(data=np.zeros((4, 3073), np.uint8)), NO_DATA),
        ("test_batch", fields(data=np.zeros((4, 3, 1024), np.uint8)), NO_DATA),
        ("test_batch", fields(labels=None), NO_LABELS),
        ("test_batch", fields(labels=[1, 2, 3]), NO_LABELS),
        ("test_batch", fields(labels=(1, 2, 3, 4)), NO_LABELS),
        ("test_batch", fields(labels=[0, 9, -1, 10]), "SET/test_batch, row 3: label -1 is not within 0…9"),
        ("test_batch", fields(labels=[0, 9, 2, 2**63]), "SET/test_batch, row 4: label 9223372036854775808 is not within 0…9"),
        ("test_batch", fields(labels=[0, 1.0, 2, 3]), "SET/test_batch, row 2: label of type float is not within 0…9"),
        ("test_batch", fields(labels=[True, 1, 2, 3]), "SET/test_batch, row 1: label of type bool is not within 0…9"),
        ("test_batch", b"cos\nsystem\n(S'ls'\ntR.", "SET/test_batch names os.system: only plain containers and arrays are allowed"),
        ("data_batch_5", None, "SET lacks data_batch_5: fetch the set again"),
        ("batches.meta", pickle.dumps({}), "SET/batches.meta does not have 10 class names"),
        ("batches.meta", pickle.dumps({"label_names": ["cat"] * 9 + [3]}), "SET/batches.meta, row 10: not a class name"),
        ("batches.meta", pickle.dumps({"label_names": ["cat"] * 9 + [""]}), "SET/batches.meta, row 10: not a class name"),
    ],
)
def test_a_bad_pickled_file_is_named(tmp_path: Path, name: str, content: bytes | None, sentence: str) -> None:
    folder = write_cifar_python(tmp_path / "set", "cifar-10", *SETS["cifar-10"])
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    assert refusal(folder).startswith(sentence)
    assert refusal(pack(tmp_path / "set.tar.gz", folder)).startswith(sentence)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nothing") == "cannot read SET: no such file or directory"
    expected = "SET has no batches of cifar-10: expected data_batch_1.bin or data_batch_1 and the other batches in it"
    assert refusal(tmp_path) == expected
    folder = write_cifar_binary(tmp_path / "set", "cifar-100", *SETS["cifar-100"])
    assert refusal(folder) == expected
    assert refusal(pack(tmp_path / "set.tar.gz", folder)) == expected
    assert refusal(folder, "cifar-10", "coarse") == "data.labels = 'coarse': cifar-10 has only one kind of labels; leave it at 'fine'"
    (folder / "train.bin").unlink()
    os.mkfifo(folder / "train.bin")  # reading it would wait forever
    assert refusal(folder, "cifar-100") == "SET lacks train.bin: fetch the set again"


BATCH = records(SETS["cifar-10"][1], "cifar-10")
ALL = [member(f"x/{name}", BATCH) for name in ("test_batch.bin", *(f"data_batch_{number}.bin" for number in range(1, 6)))]
NOT_ADMITTED = "a link or device: only files and folders are allowed"


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (member("../x", b"harm"), "SET contains '../x', a path outside the archive: fetch it again"),
        (member("x/../../test_batch.bin", b"harm"), "SET contains 'x/../../test_batch.bin', a path outside the archive: fetch it again"),
        (member("/etc/test_batch.bin", b"harm"), "SET contains '/etc/test_batch.bin', a path outside the archive: fetch it again"),
        (member("..\\x", b"harm"), "SET contains '..\\\\x', a path outside the archive: fetch it again"),
        (member("../d", kind=tarfile.DIRTYPE), "SET contains '../d', a path outside the archive: fetch it again"),
        (member("x/a", kind=tarfile.SYMTYPE, target="/etc/passwd"), f"SET contains 'x/a', {NOT_ADMITTED}"),
        (member("x/test_batch.bin", kind=tarfile.SYMTYPE, target="../y"), f"SET contains 'x/test_batch.bin', {NOT_ADMITTED}"),
        (member("x/a", kind=tarfile.LNKTYPE, target="x/test_batch.bin"), f"SET contains 'x/a', {NOT_ADMITTED}"),
        (member("x/a", kind=tarfile.FIFOTYPE), f"SET contains 'x/a', {NOT_ADMITTED}"),
        (member("x/a", kind=tarfile.CHRTYPE), f"SET contains 'x/a', {NOT_ADMITTED}"),
        (member("x/a", kind=tarfile.GNUTYPE_SPARSE), f"SET contains 'x/a', {NOT_ADMITTED}"),
        (member("x/a", kind=b"Z"), f"SET contains 'x/a', {NOT_ADMITTED}"),
        (member("y/test_batch.bin", BATCH), "SET contains test_batch.bin twice: fetch it again"),
        (b"no header" * 100, "SET is damaged: it has a header that is not a tar header; fetch it again"),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_a_bad_member_is_refused(tmp_path: Path, bad: bytes, sentence: str, first: bool) -> None:
    path = tmp_path / "inner" / "set.tar.gz"
    path.parent.mkdir()
    path.write_bytes(tar_gz(*ALL))
    read_cifar(path, "cifar-10")
    path.write_bytes(tar_gz(bad, *ALL) if first else tar_gz(*ALL, bad))
    assert refusal(path) == sentence
    assert [entry.name for entry in tmp_path.rglob("*")] == ["inner", "set.tar.gz"]  # nothing is unpacked


def test_an_archive_that_is_cut_or_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "set.tar.gz"
    whole = tar_gz(*ALL)
    for content in (whole[:-1], whole[:-9], whole[:1000], whole[:-8] + b"\x00" * 4 + whole[-4:], whole + b"x"):
        path.write_bytes(content)
        assert refusal(path) == "SET is damaged: its gzip stream is cut short or corrupted; fetch it again"
    path.write_bytes(tar_gz(*ALL, end=b""))
    assert refusal(path) == "SET is damaged: it ends too early; fetch it again"
    path.write_bytes(tar_gz(*ALL[:3], ALL[3][:1000], end=b""))
    assert refusal(path) == "SET is damaged: it ends too early; fetch it again"
    for content in (b"", b"hello", b"<html>" * 1000):
        path.write_bytes(content)
        assert refusal(path).startswith("SET is damaged: ")


def test_sizes_in_an_archive_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "set.tar.gz"

    def announcing(name: str, size: int) -> bytes:
        info = tarfile.TarInfo(name)
        info.size = size
        return info.tobuf(tarfile.GNU_FORMAT)

    path.write_bytes(tar_gz(announcing("x/test_batch.bin", 2**40), *ALL))
    assert refusal(path) == "SET/test_batch.bin is too large: 1099511627776 bytes, more than the limit of 536870912"
    path.write_bytes(tar_gz(announcing("x/other", 2**62), *ALL))
    assert refusal(path) == "SET is damaged: it ends too early; fetch it again"
    path.write_bytes(tar_gz(announcing("x/other", -5), *ALL))
    assert refusal(path) == "SET is damaged: it has a member with a negative size; fetch it again"
    path.write_bytes(tar_gz(*ALL, *(member(f"x/{number}") for number in range(cifar.MOST_MEMBERS))))
    assert refusal(path) == "SET contains more than 1000 files: it is not an archive of cifar-10"
    monkeypatch.setattr(cifar, "MOST_BYTES", 100_000)
    for members in (ALL, [ALL[0], b"\x00" * 200_000]):
        path.write_bytes(tar_gz(*members))
        assert "SET is too large: it unpacks to more than the limit of 100000 bytes" in refusal(path)


def peak(function: Callable[[], object]) -> int:
    """The most memory that a call takes, in bytes."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "set.tar.gz"
    zeros = b"\x00" * (64 << 20)
    kinds = (tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME)
    for bomb in (zeros, *(member("x/other", zeros, kind=kind) for kind in kinds)):
        path.write_bytes(tar_gz(bomb))
        assert peak(lambda: refusal(path)) < 8 << 20
    huge = tarfile.TarInfo("x/test_batch.bin")
    huge.size = 2**29
    path.write_bytes(tar_gz(huge.tobuf(tarfile.GNU_FORMAT)))
    assert peak(lambda: refusal(path)) < 8 << 20


@pytest.mark.parametrize("name", ["cifar-10", "cifar-100"])
@pytest.mark.parametrize("writer", ["binary", "Python 2", "protocol 4", "protocol 5"])
def test_no_more_than_about_twice_the_data_is_held(tmp_path: Path, name: Any, writer: str) -> None:
    train, test = (Images(np.zeros((count, 3, 32, 32), np.uint8), *(np.zeros(count, np.int64),) * 2) for count in (2000, 400))
    folder = WRITERS[writer][1](tmp_path / "set", name, train, test)
    archive = pack(tmp_path / "set.tar.gz", folder)
    for path in (folder, archive):
        assert peak(lambda path=path: read_cifar(path, name)) < 2.3 * (train.pixels.nbytes + test.pixels.nbytes)


def harmless(path: Path, name: Any) -> None:
    """Either samples or a sentence, never anything else."""
    try:
        train, test, names = read_cifar(path, name)
    except InputError as error:
        sentence = str(error)
    else:
        sentence = "".join(names)
        for part in (train, test):
            assert part.inputs.shape == (len(part), 3, 32, 32)
            assert part.inputs.dtype == np.uint8
            assert 0 <= part.targets.min() <= part.targets.max() < len(names)
    assert sentence.isprintable()


def damage(content: bytes, data: st.DataObject, within: int) -> bytes:
    """The content with a few bytes changed, perhaps cut."""
    damaged = bytearray(content)
    for place in data.draw(st.lists(st.integers(0, min(len(content), within) - 1), max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    return bytes(damaged[: data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))])


TINY = Images.random(5, 2, (3, 32, 32), 100)


@pytest.fixture
def tiny(tmp_path: Path) -> dict[str, Path]:
    folders = {name: WRITERS[name][1](tmp_path / f"{name}/set", "cifar-100", TINY, TINY) for name in ("binary", "Python 2", "protocol 4")}
    return folders | {f"{name} packed": pack(tmp_path / f"{name}.tar.gz", folder) for name, folder in folders.items()}


@FUZZ(max_examples=150)
@given(st.sampled_from(["binary", "Python 2", "protocol 4"]), st.sampled_from(["names", "train"]), st.data())
def test_flipped_and_missing_bytes_in_a_folder(tiny: dict[str, Path], form: str, which: str, data: st.DataObject) -> None:
    folder = tiny[form]
    binary = form == "binary"
    file = folder / {"names": "fine_label_names.txt" if binary else "meta", "train": "train.bin" if binary else "train"}[which]
    whole = file.read_bytes()
    file.write_bytes(damage(whole, data, 10**6 if which == "names" else 300))
    harmless(folder, "cifar-100")
    file.write_bytes(data.draw(st.binary(max_size=50)))
    harmless(folder, "cifar-100")
    file.write_bytes(whole)


@FUZZ(max_examples=150)
@given(st.sampled_from(["binary packed", "Python 2 packed", "protocol 4 packed"]), st.booleans(), st.data())
def test_flipped_and_missing_bytes_in_an_archive(tiny: dict[str, Path], form: str, inside: bool, data: st.DataObject) -> None:
    path = tiny[form].with_name("damaged.tar.gz")
    content = tiny[form].read_bytes()
    if inside:  # damage behind the checksum: tar headers, records and pickles
        plain = gzip.decompress(content)
        header = data.draw(st.sampled_from([place for place in range(0, len(plain), 512) if plain[place : place + 3] == b"set"]))
        path.write_bytes(gzip.compress(plain[:header] + damage(plain[header:], data, 700), 1))
    else:
        path.write_bytes(damage(content, data, 10**6))
    harmless(path, "cifar-100")


@FUZZ(max_examples=100)
@given(st.binary(max_size=1500), st.booleans())
def test_random_bytes_as_an_archive(tmp_path: Path, content: bytes, zipped: bool) -> None:
    path = tmp_path / "random.tar.gz"
    path.write_bytes(gzip.compress(content, 1) if zipped else content)
    harmless(path, "cifar-10")


@FUZZ(max_examples=150)
@given(st.binary(min_size=12, max_size=12), st.binary(min_size=1, max_size=1), st.binary(min_size=1, max_size=100))
def test_any_header_with_a_right_checksum(tmp_path: Path, size: bytes, kind: bytes, name: bytes) -> None:
    block = bytearray(name.ljust(100, b"\x00") + b"0000644\x00" * 3 + size + b"00000000000\x00" + b" " * 8 + kind + bytes(355))
    block[148:156] = struct.pack("8s", f"{sum(block):06o}\x00 ".encode())
    assert len(block) == 512
    path = tmp_path / "random.tar.gz"
    path.write_bytes(tar_gz(bytes(block), *ALL))
    harmless(path, "cifar-10")
