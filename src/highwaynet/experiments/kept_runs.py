"""The archive runs.zip with what is kept of a claim's runs; its members are LABEL/FILE.

Earlier versions wrote a folder runs/LABEL for each run instead; it can still be read.
"""

import io
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, refuse_pipe, write_atomically
from highwaynet.data.archives import LONGEST_NAME, UNUSABLE, wrong_name
from highwaynet.experiments.pool import RUNS
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.kept import KeptRun

ARCHIVE = "runs.zip"
UNFINISHED = "ended.zip"
"""The same for the runs that have ended while others are still being made; until the record is written, runs.zip stays as it was."""
MOST_BYTES = 512 * 2**20
"""Largest size of the archive, and of all members together; claims at scale paper need less than a fifth of it."""
MOST_MEMBER_BYTES = 64 * 2**20
MOST_MEMBERS = 30_000
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every member, which is the earliest that the format allows, so that equal files give equal bytes."""
WAY_OUT = "get the file again, or run `highway reproduce` again, which writes it again"

_END = struct.Struct("<4s4H2LH")
"""The record at the end of an archive: mark, disks, numbers of members, length and position of the directory, length of a comment."""
_ENTRY_BYTES = 46 + LONGEST_NAME
"""The longest entry of the directory that `pack` writes."""
# What the standard library raises for damaged archives; RuntimeError for features that zipfile does not support.
_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, LookupError, ArithmeticError, RuntimeError)


def write_runs(folder: Path, runs: Mapping[str, KeptRun]) -> None:
    """Write the runs of a claim, by label, to its folder; what an unfinished claim or an earlier version kept is then removed."""
    write_archive(folder / ARCHIVE, runs)
    (folder / UNFINISHED).unlink(missing_ok=True)
    _remove_old_runs(folder / RUNS)


def write_archive(path: Path, runs: Mapping[str, KeptRun]) -> None:
    """Write runs, by label, to an archive."""
    content = pack({f"{label}/{name}": content for label, run in runs.items() for name, content in run.files.items()})
    unpack(content, path)  # an archive that cannot be read must not replace an existing one
    write_atomically(path, content)


def read_runs(folder: Path, labels: Iterable[str]) -> dict[str, KeptRun]:
    """Return the runs of a claim with these labels; raises InputError if one is missing, or the archive is damaged."""
    path, wanted = folder / ARCHIVE, list(labels)
    if not path.exists():
        if not (folder / RUNS).is_dir():
            raise InputError(f"{path} is missing: {WAY_OUT}")
        return {label: KeptRun.in_folder(folder / RUNS / label) for label in wanted}
    found = read_archive(path)
    if missing := [label for label in wanted if label not in found]:
        raise InputError(f"{path} does not hold the run {missing[0]}: {WAY_OUT}")
    return {label: found[label] for label in wanted}


def read_archive(path: Path) -> dict[str, KeptRun]:
    """Return all runs in an archive, by label; empty if there is none. Raises InputError if it is damaged."""
    if not path.exists():
        return {}
    found: dict[str, dict[str, bytes]] = {}
    for member, content in unpack(_read(path), path).items():
        label, _, name = member.partition("/")
        found.setdefault(label, {})[name] = content
    return {label: KeptRun(path / label, files) for label, files in found.items()}


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return an archive with these files; the same files give the same bytes (with the same version of zlib)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(name, EARLIEST)
            member.create_system = 3  # Unix, also on Windows
            member.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(member, files[name], zipfile.ZIP_DEFLATED, compresslevel=9)
    return buffer.getvalue()


def unpack(content: bytes, path: Path) -> dict[str, bytes]:
    """Return the files in an archive by name. Its metadata are not trusted, and nothing is written to disk.

    Args:
        content: The archive.
        path: Where it is from, for error messages.

    Raises:
        InputError: The archive is damaged, too large, or holds something that `pack` does not write.
    """
    try:
        members = _check_end(content, path)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if len(archive.infolist()) != members:  # a damaged length hides the members that follow
                raise zipfile.BadZipFile(f"{len(archive.infolist())} of its {members} files are listed")
            files: dict[str, bytes] = {}
            left = MOST_BYTES
            for member in archive.infolist():
                _check(member, path)
                if member.filename in files:
                    raise InputError(f"{path} holds {member.filename!r} twice: {WAY_OUT}")
                files[member.filename] = _unpack(archive, member, min(left, MOST_MEMBER_BYTES), path)
                left -= len(files[member.filename])
            return files
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(f"{path} is damaged or not a zip archive ({reason}): {WAY_OUT}") from error


def _read(path: Path) -> bytes:
    refuse_pipe(path)
    try:
        with path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise cannot("read", path, error) from error
    if len(content) > MOST_BYTES:
        raise _too_large(path)
    return content


def _check_end(content: bytes, path: Path) -> int:
    """Return the number of members; refuse a directory too large for memory, and anything before or after what `pack` writes."""
    mark, *_, members, length, position, comment = _END.unpack(content[-_END.size :])
    if mark != b"PK\5\6" or comment or position + length + _END.size != len(content) or content[-_END.size - 20 :].startswith(b"PK\6\7"):
        raise zipfile.BadZipFile("its end is not where it should be")
    if members > MOST_MEMBERS or length > MOST_MEMBERS * _ENTRY_BYTES:
        raise InputError(f"{path} holds more than {MOST_MEMBERS:,} files: {WAY_OUT}")
    return int(members)


def _check(member: zipfile.ZipInfo, path: Path) -> None:
    """Refuse a member that is not a plain file LABEL/FILE."""
    name = member.orig_filename  # the stored name; `filename` may be cut off or replaced
    shown = f"{path} holds {name[:80]!r}, which"
    if stat.S_IFMT(member.external_attr >> 16) not in {0, stat.S_IFREG} or member.is_dir():
        raise InputError(f"{shown} is not a plain file: {WAY_OUT}")
    if wrong := wrong_name(name):
        raise InputError(f"{shown} {wrong}: {WAY_OUT}")
    plain = PurePosixPath(name)
    if name != member.filename or name != str(plain) or len(plain.parts) < 2:
        raise InputError(f"{shown} {UNUSABLE}: {WAY_OUT}")


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int, path: Path) -> bytes:
    if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise zipfile.BadZipFile(f"{member.filename!r} is compressed in another way than by deflate")
    if member.flag_bits & 1:
        raise zipfile.BadZipFile(f"{member.filename!r} is encrypted")
    if member.file_size > limit:
        raise _too_large(path)
    with archive.open(member) as stream:
        content = stream.read(limit + 1)  # up to the end, where the checksum is compared, but not beyond the limit
    if len(content) > limit:
        raise _too_large(path)
    if len(content) != member.file_size:
        raise zipfile.BadZipFile(f"{member.filename!r} has {len(content):,} of {member.file_size:,} bytes")
    return content


def _too_large(path: Path) -> InputError:
    limits = f"{MOST_MEMBER_BYTES // 2**20} MiB in a file or {MOST_BYTES // 2**20} MiB in all"
    return InputError(f"{path} holds more than {limits}: {WAY_OUT}")


def _remove_old_runs(folder: Path) -> None:
    """Remove the kept runs of an earlier version; a run directory with weights, which a user may have put there, is kept."""
    if not folder.is_dir() or folder.is_symlink():
        return
    try:
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink() and not RunDirectory(path).checkpoints.folder.exists():
                shutil.rmtree(path)
    except OSError as error:
        raise cannot("remove", folder, error) from error
    with suppress(OSError):  # the folder is not empty
        folder.rmdir()
