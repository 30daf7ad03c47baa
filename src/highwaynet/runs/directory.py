"""The run directory. This is the only code that knows the names of its files.

spec.toml              everything the run depends on
history.jsonl          a line per epoch; equal runs have equal histories
timing.jsonl           a line per epoch; what depends on the clock
environment.json       versions, machine, threads, kernel
events.log             what happened when
checkpoints/           NAME.safetensors with NAME.json beside it (checksum)
analysis/              records made from the finished run
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import safetensors
import safetensors.torch
from pydantic import BaseModel, ValidationError
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, read_bytes, read_text, sha256, write_atomically
from highwaynet.data.preparation import Preparation
from highwaynet.runs.records import CheckpointRecord, EpochRecord, StoredData, TimingRecord
from highwaynet.runs.spec import SPEC, RunSpec, read_spec_values, spec_from_values

RecordT = TypeVar("RecordT", bound=BaseModel)

FINAL = "final"
DATA = "data.json"
ANALYSES = ("evaluation", "gates", "lesions")
"""The records that may lie in analysis/."""


class RunDirectory:
    """One run on disk. Make it with `create` or `open`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def check_free(cls, path: Path, *, overwrite: bool) -> None:
        """Raise InputError where `create` would refuse, without touching anything."""
        if not path.exists():
            return
        if not path.is_dir():
            raise InputError(f"{path} is a file: name a folder for the run")
        if not overwrite:
            way = ", or replace it with --overwrite" if (path / SPEC).exists() or not any(path.iterdir()) else ""
            raise InputError(f"{path} exists already: name another folder with --out{way}")
        if any(path.iterdir()) and not (path / SPEC).exists():
            raise InputError(f"{path} is not a run directory (it has no {SPEC}): nothing is overwritten there")

    @classmethod
    def create(cls, path: Path, spec: RunSpec, environment: Mapping[str, Any], *, overwrite: bool = False) -> "RunDirectory":
        """Start a run directory; with `overwrite`, the files of an earlier run there are removed first."""
        cls.check_free(path, overwrite=overwrite)
        run = cls(path)
        try:
            run._remove_own_files()
            path.mkdir(parents=True, exist_ok=True)
            # The spec comes first: with it the folder counts as a run directory and can be overwritten, whatever happens next.
            write_atomically(path / SPEC, spec.to_toml())
            run._checkpoints.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot("create", path, error) from error
        write_atomically(path / "environment.json", json.dumps(environment, indent=2) + "\n")
        return run

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """An existing run directory; raises InputError if it is none."""
        if not path.is_dir():
            raise InputError(f"{path}: no such run directory")
        if not (path / SPEC).is_file():
            raise InputError(f"{path} is not a run directory: it has no {SPEC}")
        return cls(path)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.resolve().name

    @property
    def _checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def _analysis(self) -> Path:
        return self.path / "analysis"

    def _remove_own_files(self) -> None:
        # The spec goes last: as long as it is there, the folder counts as a run directory and can be overwritten.
        own = [self._checkpoints / f"{FINAL}.{suffix}" for suffix in ("json", "safetensors")]
        own += [self._analysis / f"{name}.json" for name in ANALYSES]
        names = ("history.jsonl", "timing.jsonl", "environment.json", DATA, "data.safetensors", "events.log", SPEC)
        own += [self.path / name for name in names]
        for path in own:
            path.unlink(missing_ok=True)
        for folder in (self._checkpoints, self._analysis):
            with suppress(OSError):  # somebody else's files may lie there
                folder.rmdir()

    def log(self, event: str) -> None:
        """Add a line with the time to events.log."""
        self._append("events.log", f"{datetime.now(UTC).isoformat(timespec='seconds')} {event}")

    def add_epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """Add the lines of one epoch."""
        self._append("history.jsonl", record.model_dump_json(exclude_none=True))
        self._append("timing.jsonl", timing.model_dump_json())

    def _append(self, name: str, line: str) -> None:
        try:
            with (self.path / name).open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")
        except OSError as error:
            raise cannot("write", self.path / name, error) from error

    def read_spec(self) -> RunSpec:
        """What was run."""
        return spec_from_values(read_spec_values(self.path / SPEC), self.path / SPEC)

    def read_history(self) -> list[EpochRecord]:
        """The epochs, in order; raises InputError if the file is missing, empty or damaged."""
        path = self.path / "history.jsonl"
        history = []
        for number, line in enumerate(read_text(path).splitlines(), start=1):
            record = _parsed(EpochRecord, line, f"{path}, line {number},")
            if record.epoch != number:
                raise InputError(f"{path}, line {number}, is damaged: it is about epoch {record.epoch}")
            history.append(record)
        if not history:
            raise InputError(f"{path} is empty: no epoch of this run was finished; train it again")
        if (self._checkpoints / f"{FINAL}.json").is_file() and (epochs := self.checkpoint_record().epoch) != len(history):
            raise InputError(f"{path} is damaged: it has {len(history)} of the run's {epochs} epochs")
        return history

    def read_seconds(self) -> float:
        """The time that the training took so far."""
        path = self.path / "timing.jsonl"
        return sum(_parsed(TimingRecord, line, str(path)).seconds for line in read_text(path).splitlines())

    def read_environment(self) -> dict[str, Any]:
        """Where it was run."""
        path = self.path / "environment.json"
        try:
            environment = json.loads(read_text(path))
        except ValueError as error:
            raise InputError(f"{path} is damaged: {error}") from error
        if not isinstance(environment, dict):
            raise InputError(f"{path} is damaged: it does not hold an object")
        return environment

    def save_preparation(self, preparation: Preparation) -> None:
        """Keep what was learned from the training samples; the record comes last and carries the checksum of the tensors."""
        content = safetensors.torch.save(dict(preparation.preprocessing.state))
        write_atomically(self.path / "data.safetensors", content)
        stored = StoredData(record=preparation.record, sha256=sha256(content))
        write_atomically(self.path / DATA, stored.model_dump_json(indent=2) + "\n")

    def load_preparation(self) -> Preparation:
        """What was learned from the training samples; raises InputError if it is missing or damaged."""
        stored = _parsed(StoredData, read_text(self.path / DATA), str(self.path / DATA))
        return Preparation.restore(stored.record, _checked_tensors(self.path / "data.safetensors", stored.sha256))

    def save_checkpoint(self, name: str, tensors: Mapping[str, Tensor], *, epoch: int, step: int) -> None:
        """Write tensors and their sidecar; the sidecar comes last, and without it a checkpoint does not count."""
        content = safetensors.torch.save({key: tensor.contiguous() for key, tensor in tensors.items()})
        write_atomically(self._checkpoints / f"{name}.safetensors", content)
        record = CheckpointRecord(
            epoch=epoch,
            step=step,
            sha256=sha256(content),
            spec_sha256=sha256(read_bytes(self.path / SPEC)),
            data_sha256=sha256(read_bytes(self.path / DATA)),
        )
        write_atomically(self._checkpoints / f"{name}.json", record.model_dump_json(indent=2) + "\n")

    def checkpoint_record(self, name: str = FINAL) -> CheckpointRecord:
        """The sidecar of a checkpoint; raises InputError if the run has none."""
        path = self._checkpoints / f"{name}.json"
        if not path.is_file():
            raise InputError(f"{self.path} has no checkpoint {name!r} ({path.name} is missing): the run did not finish; train it again")
        return _parsed(CheckpointRecord, read_text(path), str(path))

    def load_checkpoint(self, name: str = FINAL) -> dict[str, Tensor]:
        """The tensors of a checkpoint, after its checksum and that of its spec were found right."""
        record = self.checkpoint_record(name)
        for file, checksum in ((SPEC, record.spec_sha256), (DATA, record.data_sha256)):
            if sha256(read_bytes(self.path / file)) != checksum:
                raise InputError(f"{self.path / file} was changed after the run was made: what it says does not belong to the weights")
        return _checked_tensors(self._checkpoints / f"{name}.safetensors", record.sha256)

    def fingerprint(self) -> str:
        """Changes when the spec, the learned statistics or the final weights change; records of analyses are kept under it."""
        parts = (read_bytes(self.path / SPEC), read_bytes(self.path / DATA), self.checkpoint_record().sha256.encode())
        return sha256(b"\n".join(parts))

    def save_record(self, name: str, record: BaseModel) -> None:
        """Keep the record of an analysis."""
        try:
            self._analysis.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot("create", self._analysis, error) from error
        write_atomically(self._analysis / f"{name}.json", record.model_dump_json() + "\n")

    def load_record(self, name: str, kind: type[RecordT]) -> RecordT | None:
        """The record of an analysis, or None where it is missing, damaged or of another version: it can be made again."""
        try:
            return kind.model_validate_json((self._analysis / f"{name}.json").read_bytes())
        except (OSError, ValidationError):
            return None


def _checked_tensors(path: Path, checksum: str) -> dict[str, Tensor]:
    content = read_bytes(path)
    if sha256(content) != checksum:
        raise InputError(f"{path} is damaged: its checksum is not the one in {path.stem}.json; train the run again")
    try:
        return safetensors.torch.load(content)
    except safetensors.SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file: {error}") from error


def _parsed(kind: type[RecordT], text: str, place: str) -> RecordT:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        detail = error.errors()[0]
        field = ".".join(str(part) for part in detail["loc"])
        raise InputError(f"{place} is damaged: {field + ': ' if field else ''}{detail['msg']}") from error
