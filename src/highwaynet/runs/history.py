"""The files history.jsonl and timing.jsonl of a run, to which a line is added for each epoch. Does not import torch."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, read_bytes, refuse_pipe, sync
from highwaynet.base.specs import parsed
from highwaynet.runs.run_records import EpochRecord
from highwaynet.runs.seals import Seal, read_seals, write_seals

HISTORY, TIMING, ENVIRONMENT = "history.jsonl", "timing.jsonl", "environment.json"
SEALED = (HISTORY, TIMING, ENVIRONMENT)
"""The files that seals.json in a run directory seals."""


def seal_history(folder: Path) -> tuple[int, int]:
    """Seal the history; return the lengths of history.jsonl and timing.jsonl in bytes, after syncing them to disk."""
    sizes = _synced_size(folder / HISTORY), _synced_size(folder / TIMING)
    _seal(folder, dict(zip((HISTORY, TIMING), sizes, strict=True)))
    return sizes


def cut_history(folder: Path, history_bytes: int, timing_bytes: int, epochs: int) -> None:
    """Truncate history.jsonl and timing.jsonl to earlier lengths.

    Raises:
        InputError: If one is shorter or was changed, or an epoch is missing.
    """
    lengths, seals = {HISTORY: history_bytes, TIMING: timing_bytes}, read_seals(folder) or {}
    for name, length in lengths.items():
        size = _synced_size(folder / name)
        if size < length:
            raise InputError(f"{folder / name} is damaged: it is shorter than when the checkpoint was made")
        if name in seals and seals[name].length <= size and not seals[name].fits(read_bytes(folder / name), whole=False):
            raise InputError(f"{folder / name} was changed after it was written: restore it, or start again with --overwrite")
    if history_bytes:
        kept = read_bytes(folder / HISTORY)[:history_bytes].decode("utf-8", "replace")
        if len(parse_history(kept.splitlines(), folder / HISTORY)) != epochs:
            raise InputError(f"{folder / HISTORY} is damaged: it does not have the {epochs} epochs of the checkpoint")
    _seal(folder, lengths)  # before the files are cut, so that they never have less than was sealed
    for name, length in lengths.items():
        if length or (folder / name).exists():
            try:
                os.truncate(folder / name, length)
            except OSError as error:
                raise cannot("write", folder / name, error) from error


def complete_lines(text: str) -> list[str]:
    """Return the lines of a text without an incomplete last line, which a killed writer or a full disk may have left."""
    return text[: text.rfind("\n") + 1].splitlines()


def parse_history(lines: list[str], path: Path) -> list[EpochRecord]:
    """Parse the lines of a history; raises InputError, which names the file, if one is damaged or missing."""
    history = []
    for number, line in enumerate(lines, start=1):
        record = parsed(EpochRecord, line, f"{path}, line {number},")
        if record.epoch != number:
            raise InputError(f"{path}, line {number}, is damaged: it is about epoch {record.epoch}")
        history.append(record)
    return history


def epoch_in(history: Sequence[EpochRecord], epoch: int, run: Path) -> EpochRecord | None:
    """Return an epoch of a history; None for epoch 0. Raises InputError if the history does not reach it."""
    if epoch > len(history):
        raise InputError(f"{run} is damaged: its weights are of epoch {epoch}, and {HISTORY} has {len(history)} epochs")
    return history[epoch - 1] if epoch else None


def _seal(folder: Path, lengths: Mapping[str, int]) -> None:
    """Seal the beginnings of files, and environment.json as a whole."""
    contents = {name: read_bytes(folder / name) for name in SEALED if (folder / name).is_file()}
    write_seals(folder, {name: Seal.of(content[: lengths.get(name)]) for name, content in contents.items()})


def _synced_size(path: Path) -> int:
    refuse_pipe(path)
    try:
        with path.open("rb+") as stream:
            sync(stream.fileno())
            return os.fstat(stream.fileno()).st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise cannot("write", path, error) from error
