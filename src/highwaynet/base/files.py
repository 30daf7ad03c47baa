"""Writing files so that a reader finds either the old one or the new one, never half of one."""

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from highwaynet.base.errors import InputError


def cannot(doing: str, path: Path, error: OSError) -> InputError:
    """The sentence for a failed system call: what was tried, where, and the system's reason."""
    reason = error.strerror or str(error)
    return InputError(f"cannot {doing} {path}: {reason[:1].lower()}{reason[1:]}")


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a whole file under a temporary name, sync it, and rename it into place."""
    payload = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(payload)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot("write", path, error) from error
    finally:  # also when interrupted
        with suppress(OSError):
            temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power failure, where the system lets folders be synced."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of writers that were killed."""
    for path in folder.glob(".*.tmp"):
        if is_leftover(path):
            with suppress(OSError):
                path.unlink()


def is_leftover(path: Path) -> bool:
    """Whether a file is a temporary one of `write_atomically`, by its name."""
    return re.fullmatch(r"\..+\.\d+\.tmp", path.name) is not None


def read_bytes(path: Path) -> bytes:
    """The content of a file, or a sentence that says why there is none."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise cannot("read", path, error) from error


def read_text(path: Path) -> str:
    """The content of a UTF-8 text file, or a sentence that says why there is none."""
    return decoded(read_bytes(path), path)


def decoded(content: bytes, path: Path) -> str:
    """The text of a UTF-8 file with this content, or a sentence that says why there is none."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {path}: it is not UTF-8 text (byte {error.start})") from error


def sha256(content: bytes) -> str:
    """The checksum under which files are remembered."""
    return hashlib.sha256(content).hexdigest()


def whole_path(path: Any) -> Any:
    """A path from the root on, if there is such a file or folder; anything else as it is."""
    return str(Path(path).resolve()) if isinstance(path, str) and Path(path).exists() else path
