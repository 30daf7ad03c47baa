"""runs.zip: what was kept comes back, equal files give equal bytes, and archives that somebody else made are read with care."""

import io
import os
import stat
import struct
import time
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwaynet.base.errors import InputError
from highwaynet.experiments import kept_runs as module
from highwaynet.experiments.kept_runs import ARCHIVE, WAY_OUT, pack, read_runs, unpack, write_runs
from highwaynet.runs.kept import KeptRun

FILES = {
    "tame-1/analysis/gates.npz": bytes(range(256)) * 20,
    "tame-1/history.jsonl": b'{"epoch": 1}\n' * 300,
    "tame-1/spec.toml": 'title = "Über"\n'.encode(),
    "wild/spec.toml": b"",
}
RUNS = {
    "wild": {"spec.toml": b""},
    "tame-1": {name.removeprefix("tame-1/"): content for name, content in FILES.items() if name.startswith("tame-1/")},
}


def kept() -> dict[str, KeptRun]:
    return {label: KeptRun(Path("somewhere", label), files) for label, files in RUNS.items()}


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes], way: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", way) as archive:
        for member, content in members:
            archive.writestr(member, content, way)
    return buffer.getvalue()


def refused(content: bytes, match: str) -> None:
    """The archive is refused in one sentence that names it and the way out."""
    with pytest.raises(InputError, match=match) as caught:
        unpack(content, Path("fig1", ARCHIVE))
    message = str(caught.value)
    assert message.startswith(f"fig1/{ARCHIVE} ")
    assert message.endswith(f": {WAY_OUT}")
    assert "\n" not in message


def test_runs_come_back_as_they_went(tmp_path: Path) -> None:
    write_runs(tmp_path, kept())
    assert [path.name for path in tmp_path.iterdir()] == [ARCHIVE]
    found = read_runs(tmp_path, ["tame-1", "wild"])
    assert list(found) == ["tame-1", "wild"]
    assert {label: run.files for label, run in found.items()} == RUNS
    assert found["wild"].place == tmp_path / ARCHIVE / "wild"
    assert list(read_runs(tmp_path, ["wild"])) == ["wild"]
    assert unpack((tmp_path / ARCHIVE).read_bytes(), tmp_path) == FILES


def test_equal_files_give_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = pack(FILES)
    assert len(content) < sum(map(len, FILES.values())) / 2
    monkeypatch.setattr(time, "time", lambda: 2e9)
    monkeypatch.setattr("sys.platform", "win32")
    mask = os.umask(0o077)
    try:
        assert pack(dict(reversed(FILES.items()))) == content
        write_runs(tmp_path, kept())
    finally:
        os.umask(mask)
    assert (tmp_path / ARCHIVE).read_bytes() == content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == sorted(FILES)
        for member in archive.infolist():
            assert member.date_time == (1980, 1, 1, 0, 0, 0)
            assert (member.external_attr >> 16, member.create_system) == (stat.S_IFREG | 0o644, 3)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"runs\.zip is missing: get the file again, or run `highway reproduce` again"):
        read_runs(tmp_path, ["tame-1"])
    write_runs(tmp_path, kept())
    with pytest.raises(InputError, match=r"runs\.zip does not hold the run tame-2: get the file again"):
        read_runs(tmp_path, ["tame-1", "tame-2"])
    (tmp_path / ARCHIVE).unlink()
    (tmp_path / ARCHIVE).mkdir()
    with pytest.raises(InputError, match=r"cannot read .*runs\.zip: is a directory"):
        read_runs(tmp_path, ["tame-1"])


def test_the_file_is_preferred_to_folders_from_before(tmp_path: Path) -> None:
    (tmp_path / "runs" / "wild").mkdir(parents=True)
    (tmp_path / "runs" / "wild" / "spec.toml").write_bytes(b"old")
    assert read_runs(tmp_path, ["wild"])["wild"].files == {"spec.toml": b"old"}
    (tmp_path / ARCHIVE).write_bytes(pack(FILES))
    assert read_runs(tmp_path, ["wild"])["wild"].files == {"spec.toml": b""}
    assert (tmp_path / "runs").exists(), "reading removes nothing"
    (tmp_path / ARCHIVE).write_bytes(b"")
    with pytest.raises(InputError, match=r"runs\.zip is damaged"):
        read_runs(tmp_path, ["wild"])
    write_runs(tmp_path, kept())
    assert [path.name for path in tmp_path.iterdir()] == [ARCHIVE]


def test_only_kept_runs_are_removed(tmp_path: Path) -> None:
    old, elsewhere = tmp_path / "claim" / "runs", tmp_path / "elsewhere"
    for path in (old / "kept" / "analysis", old / "trained" / "checkpoints", elsewhere):
        path.mkdir(parents=True)
    (old / "notes.txt").touch()
    (old / "link").symlink_to(elsewhere)
    write_runs(tmp_path / "claim", kept())
    assert sorted(path.name for path in old.iterdir()) == ["link", "notes.txt", "trained"]
    assert elsewhere.is_dir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "runs").symlink_to(old)
    write_runs(tmp_path / "linked", kept())
    assert (old / "trained").is_dir()


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("/etc/evil", "points outside the folder"),
        ("../evil", "points outside the folder"),
        ("tame-1/../../evil", "points outside the folder"),
        ("tame-1\\..\\evil", "points outside the folder"),
        ("C:/evil", "points outside the folder"),
        ("tame-1/" + "x" * 300, "is not a usable file name"),
        ("spec.toml", "is not a usable file name"),
        ("tame-1//spec.toml", "is not a usable file name"),
        ("./tame-1/spec.toml", "is not a usable file name"),
        ("tame-1/", "is not a plain file"),
    ],
)
def test_names_that_lead_elsewhere(name: str, match: str) -> None:
    refused(zipped(("tame-1/spec.toml", b"1"), (name, b"evil" if not name.endswith("/") else b"")), match)


def test_a_member_without_a_name() -> None:
    content = bytearray(zipped(("ab", b"")).replace(b"ab", b""))
    for mark, offset in ((b"PK\3\4", 26), (b"PK\1\2", 28), (b"PK\5\6", 16)):  # lengths of the name, place of the directory
        content[content.index(mark) + offset] -= 2
    content[content.index(b"PK\5\6") + 12] -= 2  # length of the directory
    refused(bytes(content), "is not a usable file name|damaged")


def test_names_that_are_two() -> None:
    content = zipped(("tame-1/spec.tomlX", b"1"))
    refused(content.replace(b"spec.tomlX", b"spec.toml\0"), "points outside the folder")
    local, central = content.split(b"PK\1\2")
    refused(b"PK\1\2".join([local, central.replace(b"tame-1", b"tame-2")]), "is damaged or not a zip archive .*differ")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_links_and_devices(kind: int) -> None:
    member = zipfile.ZipInfo("tame-1/spec.toml")
    member.external_attr = (kind | 0o644) << 16
    refused(zipped((member, b"/etc/passwd")), "is not a plain file")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice() -> None:
    refused(zipped(("a/b", b"1"), ("a/b", b"2")), "'a/b' twice")


@pytest.mark.parametrize("way", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_to_compress(way: int) -> None:
    refused(zipped(("a/b", b"1" * 100), way=way), "compressed in another way")


def test_encrypted_members() -> None:
    content = bytearray(zipped(("a/b", b"1")))
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(mark) + offset] |= 1
    refused(bytes(content), "damaged .*encrypted")


def test_bombs_are_refused_without_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MEMBER_BYTES", 2**20)
    monkeypatch.setattr(module, "MOST_BYTES", 3 * 2**20)
    large = zipped(("a/b", bytes(2**25)))
    several = zipped(*((f"a/{number}", bytes(2**20)) for number in range(4)))
    assert unpack(zipped(*((f"a/{number}", bytes(2**20)) for number in range(3))), Path()).keys() == {"a/0", "a/1", "a/2"}
    # The announced size is a lie: what is unpacked is counted, and compared with it.
    small = large.replace(struct.pack("<L", 2**25), struct.pack("<L", 1000))
    longer = zipped(("a/b", b"123")).replace(struct.pack("<L", 3), struct.pack("<L", 2000))
    tracemalloc.start()
    try:
        for content, match in ((large, "more than"), (several, "more than"), (small, "damaged"), (longer, "damaged")):
            refused(content, match)
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()


def test_too_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MEMBERS", 3)
    unpack(zipped(*((f"a/{number}", b"") for number in range(3))), Path())
    refused(zipped(*((f"a/{number}", b"") for number in range(4))), "more than 3 files")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    (tmp_path / ARCHIVE).write_bytes(bytes(1001))
    with pytest.raises(InputError, match=r"runs\.zip holds more than 64 MiB in a file or 0 MiB in all: get the file again"):
        read_runs(tmp_path, ["a"])


def test_what_could_not_be_read_again_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs" / "wild").mkdir(parents=True)
    monkeypatch.setattr(module, "MOST_MEMBER_BYTES", 1000)
    with pytest.raises(InputError, match=r"runs\.zip holds more than"):
        write_runs(tmp_path, kept())
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive" * 100, pack(FILES) + b"more", b"more" + pack(FILES), pack(FILES)[:-1]])
def test_no_archives(content: bytes) -> None:
    refused(content, "is damaged or not a zip archive")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damage_is_found_or_does_no_harm(data: st.DataObject) -> None:
    content, changed = bytearray(pack(FILES)), set[int]()
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        value = data.draw(st.integers(0, 255))
        changed |= {place} if value != content[place] else set()
        content[place] = value
    content = content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))]
    with suppress(InputError):  # any other error fails the test
        found = unpack(bytes(content), Path(ARCHIVE))
        assert sorted(found.values()) == sorted(FILES.values())
        # A zip archive has each name twice, without a checksum: only the same change of both copies stays unnoticed.
        assert found == FILES or (len(changed) > 1 and len(found.keys() - FILES.keys()) == 1)


def test_a_name_that_is_changed_in_both_places_is_another_name() -> None:
    """The limit of what the archive can notice; contents have checksums."""
    name = next(name for name in FILES if "/" in name)
    content = pack(FILES).replace(name.encode(), b"X" + name.encode()[1:])
    found = unpack(content, Path(ARCHIVE))
    assert found == {("X" + key[1:] if key == name else key): value for key, value in FILES.items()}


def test_a_length_that_hides_members_is_noticed() -> None:
    content = bytearray(pack(FILES))
    content[679] = 122  # the length of the comment of the second member
    refused(bytes(content), "is damaged or not a zip archive")
