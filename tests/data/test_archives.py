"""Unpacking: what an honest archive holds arrives whole; from any other nothing arrives."""

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwaynet.base.errors import InputError
from highwaynet.data.archives import CHUNK, unpack_tar

FILES = {"set/a.bin": bytes(range(256)) * 40, "set/deep/b.bin": b"", "set/readme.txt": b"read me\n"}


def entry(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def make_tar(*entries: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz", form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def honest(mode: str = "w:gz", form: int = tarfile.PAX_FORMAT) -> bytes:
    folders = [entry(name, type=tarfile.DIRTYPE) for name in ("set", "set/deep")]
    return make_tar(*folders, *(entry(name, content, mode=0o600) for name, content in FILES.items()), mode=mode, form=form)


def unpack(folder: Path, archive: bytes, size_limit: int = 20_000, member_limit: int = 10) -> list[Path]:
    (folder / "archive").write_bytes(archive)
    return unpack_tar(folder / "archive", folder / "out", size_limit=size_limit, member_limit=member_limit)


def refused(folder: Path, archive: bytes, match: str, **limits: int) -> None:
    """The archive is refused in one sentence that names it, and nothing is left of it."""
    with pytest.raises(InputError, match=match) as caught:
        unpack(folder, archive, **limits)
    assert "\n" not in str(caught.value)
    assert str(folder / "archive") in str(caught.value)
    assert sorted(path.name for path in folder.iterdir()) == ["archive"]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_files_arrive_as_they_were(tmp_path: Path, mode: str, form: int) -> None:
    paths = unpack(tmp_path, honest(mode, form))
    assert paths == [tmp_path / "out" / name for name in FILES]
    assert [path.read_bytes() for path in paths] == list(FILES.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "out"]


def test_folders_need_no_entry_and_permissions_are_not_taken_over(tmp_path: Path) -> None:
    (path,) = unpack(tmp_path, make_tar(entry("a/b/c.bin", b"123", mode=0o4777, uid=0)))
    (tmp_path / "plain").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    assert path.read_bytes() == b"123"
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "folder").stat().st_mode


def test_files_larger_than_a_chunk(tmp_path: Path) -> None:
    content = bytes(range(251)) * (3 * CHUNK // 251)
    paths = unpack(tmp_path, make_tar(entry("a", content), entry("b", content)), size_limit=2 * len(content))
    assert [path.read_bytes() == content for path in paths] == [True, True]


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("/etc/evil", "points outside the folder"),
        ("../evil", "points outside the folder"),
        ("set/../../evil", "points outside the folder"),
        ("..", "points outside the folder"),
        ("..\\evil", "points outside the folder"),
        ("C:/evil", "points outside the folder"),
        ("x" * 300, "not a usable file name"),
        ("a/" * 130 + "b", "not a usable file name"),
        (".", "not a usable file name"),
    ],
)
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_that_lead_elsewhere(tmp_path: Path, name: str, match: str, form: int) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    refused(folder, make_tar(entry("good", b"1"), entry(name, b"evil"), form=form), match)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"?"]
)
@pytest.mark.parametrize("link", ["good", "/etc/passwd", "../outside"])
def test_links_and_devices(tmp_path: Path, kind: bytes, link: str) -> None:
    refused(tmp_path, make_tar(entry("good", b"1"), entry("evil", type=kind, linkname=link)), "neither a plain file nor a folder")


def test_a_link_does_not_lead_a_later_file_out(tmp_path: Path) -> None:
    archive = make_tar(entry("door", type=tarfile.SYMTYPE, linkname=".."), entry("door/evil", b"evil"))
    refused(tmp_path, archive, "neither a plain file nor a folder")


def test_sparse_files(tmp_path: Path) -> None:
    headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 50)}
    refused(tmp_path, make_tar(entry("holes", b"1", pax_headers=headers)), "neither a plain file nor a folder")


def test_a_name_twice(tmp_path: Path) -> None:
    refused(tmp_path, make_tar(entry("a", b"1"), entry("a", b"2")), "'a' twice")


def test_a_file_that_is_also_a_folder(tmp_path: Path) -> None:
    refused(tmp_path, make_tar(entry("a", b"1"), entry("a/b", b"2")), "cannot unpack")
    refused(tmp_path, make_tar(entry("a", b"1"), entry("a", type=tarfile.DIRTYPE)), "cannot unpack")
    refused(tmp_path, make_tar(entry("a", type=tarfile.DIRTYPE), entry("a", b"1")), "twice")


def test_limits_hold_to_the_byte_and_to_the_file(tmp_path: Path) -> None:
    archive = make_tar(entry("a", b"12345"), entry("b", b"67890"))
    refused(tmp_path, archive, "more bytes than expected", size_limit=9)
    refused(tmp_path, archive, "more than 1 files", member_limit=1)
    assert len(unpack(tmp_path, archive, size_limit=10, member_limit=2)) == 2


def bomb_in_a_file() -> bytes:
    return make_tar(entry("zeros", bytes(50_000_000)))


def bomb_in_a_header(kind: bytes) -> Callable[[], bytes]:
    """A header whose text is megabytes long, which tarfile would read at once."""
    return lambda: gzip.compress(make_tar(entry("header", b"x" * 30_000_000, type=kind), entry("a", b"1"), mode="w"), 1)


def bomb_behind_the_end() -> bytes:
    return gzip.compress(make_tar(entry("a", b"1"), mode="w") + bytes(50_000_000), 1)


def many_empty_files() -> bytes:
    return make_tar(*(entry(str(number)) for number in range(5_000)))


BOMBS = {
    "file": bomb_in_a_file,
    "name": bomb_in_a_header(tarfile.GNUTYPE_LONGNAME),
    "pax": bomb_in_a_header(tarfile.XHDTYPE),
    "end": bomb_behind_the_end,
    "many": many_empty_files,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_fill_neither_disk_nor_memory(tmp_path: Path, bomb: str) -> None:
    archive = BOMBS[bomb]()
    tracemalloc.start()
    try:
        refused(tmp_path, archive, "more bytes than expected|a header claims|more than 10 files")
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def patched_size(archive: bytes, size: bytes, kind: bytes | None = None) -> bytes:
    """A plain archive whose first header claims another size."""
    header = bytearray(archive[:512])
    header[124:136] = size
    if kind is not None:
        header[156:157] = kind
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + archive[512:]


@pytest.mark.parametrize("kind", [None, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.DIRTYPE])
@pytest.mark.parametrize("size", [-512, -1024, -1, 1 << 40, 1 << 63])
def test_sizes_that_lie(tmp_path: Path, size: int, kind: bytes | None) -> None:
    archive = make_tar(entry("a", b"1" * 600), entry("b", b"2"), mode="w")
    claim = (b"\xff" if size < 0 else b"\x80") + size.to_bytes(11, "big", signed=True)
    refused(tmp_path, patched_size(archive, claim, kind), "damaged|more bytes than expected|cannot unpack")


def test_headers_nested_without_end(tmp_path: Path) -> None:
    name = make_tar(entry("n", b"name\0", type=tarfile.GNUTYPE_LONGNAME), mode="w")[:1024]
    refused(tmp_path, gzip.compress(name * 3_000), "damaged", size_limit=10_000_000)


@pytest.mark.parametrize(
    "archive",
    [b"", b"\x1f\x8b", b"no archive at all", bytes(100), gzip.compress(b""), gzip.compress(b"text " * 500), b"BZh91AY&SY" + bytes(600)],
    ids=["empty", "gzip-magic", "text", "short-zeros", "empty-gzip", "text-gzip", "bzip2"],
)
def test_what_is_no_archive(tmp_path: Path, archive: bytes) -> None:
    refused(tmp_path, archive, "damaged or not a tar archive")


def test_an_archive_without_files(tmp_path: Path) -> None:
    refused(tmp_path, make_tar(), "contains no file")
    refused(tmp_path, make_tar(entry("set", type=tarfile.DIRTYPE)), "contains no file")


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    plain, zipped = honest("w").rstrip(b"\0"), honest("w:gz")
    for archive in (plain, zipped):
        for length in range(0, len(archive), 389):
            refused(tmp_path, archive[:length], "damaged or not a tar archive")
    refused(tmp_path, zipped[:-1], "damaged")


def test_a_damaged_header_in_the_middle_is_not_the_end(tmp_path: Path) -> None:
    archive = bytearray(make_tar(entry("a", b"1"), entry("b", b"2"), mode="w"))
    archive[1024 + 10] ^= 0xFF
    refused(tmp_path, bytes(archive), "the end is missing")


def test_a_damaged_checksum_at_the_end_of_gzip(tmp_path: Path) -> None:
    archive = bytearray(honest())
    archive[-6] ^= 1
    refused(tmp_path, bytes(archive), "damaged")


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(InputError, match=r"out already exists; remove it first$"):
        unpack(tmp_path, honest())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_an_archive_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot unpack .*none: no such file"):
        unpack_tar(tmp_path / "none", tmp_path / "out", size_limit=1, member_limit=1)
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_changed_it_arrives_whole_or_not_at_all(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    archive = bytearray(honest("w", data.draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))))
    # Headers lie at multiples of 512; their fields are in the first 345 bytes.
    for _ in range(data.draw(st.integers(1, 4))):
        place = 512 * data.draw(st.integers(0, len(archive) // 512 - 1)) + data.draw(st.integers(0, 344))
        archive[place] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):  # a right header checksum leads further in
        archive[:] = patched_size(bytes(archive), bytes(archive[124:136]))
    try:
        paths = unpack(folder, bytes(archive))
    except InputError:
        refused(folder, bytes(archive), "archive")
    else:
        assert all(path.is_file() and path.is_relative_to(folder / "out") for path in paths)
        assert sorted(path.name for path in folder.iterdir()) == ["archive", "out"]
