"""Atomic writing of files (a reader finds the old or the new version, never a part), and reading with clear errors."""

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

from highwaynet.base.errors import InputError


def cannot(doing: str, path: Path, error: OSError) -> InputError:
    """Return the error for a failed system call: what was tried, the path, and the system's reason."""
    reason = error.strerror or str(error)
    return InputError(f"cannot {doing} {path}: {reason[:1].lower()}{reason[1:]}")


_durable: ContextVar[bool] = ContextVar("durable", default=True)


@contextmanager
def short_lived() -> Iterator[None]:
    """Context manager: files that are written in it are not synced to disk, because nobody needs them after a power failure."""
    token = _durable.set(False)
    try:
        yield
    finally:
        _durable.reset(token)


def sync(descriptor: int) -> None:
    """Wait until a file is on the disk, unless it is short-lived."""
    if _durable.get():
        os.fsync(descriptor)


def temporary_name(path: Path) -> Path:
    """Return a name in the same folder that cannot be guessed; open it with mode x, so that a file or link that is there is not used."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}.tmp")


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a whole file under a temporary name, sync it, and rename it into place."""
    payload = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    temporary = temporary_name(path)
    try:
        with temporary.open("xb") as stream:
            hold(stream)
            stream.write(payload)
            stream.flush()
            sync(stream.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot("write", path, error) from error
    finally:  # also when interrupted
        with suppress(OSError):
            temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power failure, if the system can sync folders."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of writers that were killed. The folder belongs to one writer, which calls this."""
    for path in folder.glob(".*.tmp"):
        if is_leftover(path):
            with suppress(OSError):
                path.unlink()


def remove_leftovers_of(path: Path) -> None:
    """Remove what killed writers of this file left, in a folder in which others may write; what somebody still holds stays."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.\d+-[0-9a-f]{{16}}\.tmp")
    with suppress(OSError):
        for other in [other for other in path.parent.iterdir() if pattern.fullmatch(other.name)]:
            with suppress(OSError), other.open("rb+") as stream:
                if hold(stream):
                    other.unlink()


def hold(stream: IO[bytes]) -> bool:
    """Lock a file that is being written, until it is closed; False if somebody else holds it, or the system has no such locks."""
    try:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def is_leftover(path: Path) -> bool:
    """Whether a file has the name of a temporary file of `write_atomically`."""
    return re.fullmatch(r"\..+\.\d+(-[0-9a-f]{16})?\.tmp", path.name) is not None


def refuse_pipe(path: Path) -> None:
    """Raise InputError for a pipe or device, from which reading may wait for ever; those that the shell makes, below /dev, are allowed."""
    try:
        mode = path.stat().st_mode
    except OSError:  # opening it reports why
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and path.parts[:2] != ("/", "dev"):
        raise InputError(f"cannot read {path}: it is not a regular file")


def read_bytes(path: Path) -> bytes:
    """Read a file; raises InputError with the reason if that fails."""
    refuse_pipe(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise cannot("read", path, error) from error


def read_text(path: Path) -> str:
    """Read a UTF-8 text file; raises InputError with the reason if that fails."""
    return decoded(read_bytes(path), path)


def decoded(content: bytes, path: Path) -> str:
    """Decode the content of a UTF-8 file; raises InputError, which names `path`, if it is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {path}: it is not UTF-8 text (byte {error.start})") from error


def sha256(content: bytes) -> str:
    """Return the SHA-256 checksum as a hexadecimal string."""
    return hashlib.sha256(content).hexdigest()


def whole_path(path: Any) -> Any:
    """A path from the root on, if there is such a file or folder; anything else as it is."""
    return str(Path(path).resolve()) if isinstance(path, str) and Path(path).exists() else path
