"""A whole run in memory: the content of its files by name, so that an object can hold a run and write it again. Does not import torch."""

from collections.abc import Mapping
from pathlib import Path

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, read_bytes, write_atomically
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import SPEC

PackedRun = dict[str, bytes]
"""The content of the files of a run, by their paths in the run directory."""


def pack_run(run: RunDirectory) -> PackedRun:
    """Read all files of a run."""
    files = sorted(path for path in run.path.rglob("*") if path.is_file())
    return {path.relative_to(run.path).as_posix(): read_bytes(path) for path in files}


def check_new(path: Path, *, overwrite: bool) -> None:
    """Raise InputError if there is a folder already, in the words of Python; `RunDirectory.check_free` speaks of options of the command."""
    if not overwrite and path.is_dir():
        replaceable = (path / SPEC).exists() or not any(path.iterdir())
        raise InputError(f"{path} already exists: name another folder{', or replace it with overwrite=True' if replaceable else ''}")


def unpack_run(files: Mapping[str, bytes], path: Path, *, overwrite: bool = False) -> RunDirectory:
    """Write a packed run to a folder.

    Args:
        files: What `pack_run` returned.
        path: The run directory to create.
        overwrite: Replace an earlier run there.

    Raises:
        InputError: If the folder cannot be created, or has something else in it.
    """
    check_new(path, overwrite=overwrite)
    RunDirectory.check_free(path, overwrite=overwrite)
    run = RunDirectory(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        run.lock()
        run.remove_files()
        # With the spec, the folder is a run directory, which can be overwritten, whatever happens next.
        for name in sorted(files, key=lambda name: (name != SPEC, name)):
            target = path / name
            if not target.resolve().is_relative_to(path.resolve()):
                raise InputError(f"{name!r} is not the name of a file in a run directory")
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, files[name])
    except OSError as error:
        raise cannot("create", path, error) from error
    finally:
        run.unlock()
    return run
