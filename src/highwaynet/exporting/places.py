"""Where exported files go. Does not import torch."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from highwaynet.base.errors import InputError
from highwaynet.base.text import either
from highwaynet.exporting.names import FACTS, SUFFIXES, Target

LONGEST_HEADER = 100_000_000
"""Largest header of a safetensors file, in bytes."""


def default_place(run: Path, to: Target) -> Path:
    """Return the path of a file next to the run, named after it."""
    whole = run.resolve()
    return whole.with_name(whole.name + SUFFIXES[to])


def check_place(path: Path) -> Path:
    """Return the path if a file can be written there; raises InputError otherwise, so that nobody waits in vain."""
    folder = path.parent
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file")
    if not folder.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {folder}; create it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {path}: you may not write into {folder}; name another place")
    return path


def form_of(path: Path | None, to: Target | None) -> Target:
    """Return what a run is exported to: what was asked for, or else what the name of the file ends in; without both, ONNX.

    Raises:
        InputError: If the ending is that of another form, or unknown and no form was asked for.
    """
    by_ending = {suffix: target for target, suffix in SUFFIXES.items()}
    if path is None:
        return to or "onnx"
    ending = path.suffix.lower()
    if to is None and ending not in by_ending:
        raise InputError(f"{path}: the name should end in {either(by_ending)}; or choose the form with --to (in Python, to=...)")
    if to is not None and by_ending.get(ending, to) != to:
        raise InputError(f"{path}: the ending {ending} is that of {by_ending[ending]}, not of {to}; change one of them")
    return to or by_ending[ending]


def check_replaced(path: Path, what: str, own: Callable[[Path], bool], *, data: Path | None, overwrite: bool) -> None:
    """Raise InputError if a file exists there that should not be replaced.

    Args:
        path: The file to write.
        what: What an earlier file of the command is, in words.
        own: Whether a file is one.
        data: The data of the run, which are never replaced; None if they are not the user's own.
        overwrite: Whether other files are replaced.
    """
    if not path.exists():
        return
    if not path.is_file():
        raise InputError(f"--out {path}: this is not a regular file; name another file")
    if data is not None and data.exists() and path.samefile(data):
        raise InputError(f"--out {path}: this is the data file of the run; name another file")
    if not overwrite and path.stat().st_size and not own(path):
        raise InputError(f"--out {path}: the file exists and is not {what}; name another file, or replace it with --overwrite")


def is_export(path: Path, to: Target) -> bool:
    """Whether a file is an earlier export to this form."""
    try:
        if to == "torch":
            with ZipFile(path) as archive:
                return any(name.endswith(FACTS) for name in archive.namelist())
        with path.open("rb") as stream:
            start = stream.read(64)
            if to == "onnx":
                return b"highwaynet" in start  # the producer
            stream.seek(8)
            header = json.loads(stream.read(min(int.from_bytes(start[:8], "little"), LONGEST_HEADER)))
            return "fingerprint" in header["__metadata__"]
    except (OSError, BadZipFile, ValueError, KeyError, TypeError):
        return False
