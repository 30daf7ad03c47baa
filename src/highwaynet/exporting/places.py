"""Where exported files go. Does not import torch."""

import os
from pathlib import Path

from highwaynet.base.errors import InputError
from highwaynet.exporting.names import SUFFIXES, Target


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
