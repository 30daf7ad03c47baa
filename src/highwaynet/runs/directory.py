"""The run directory. This is the only code that knows the names of its files.

spec.toml              everything the run depends on
plan.json              the network that was built, part by part
history.jsonl          a line per epoch; equal runs have equal histories
timing.jsonl           a line per epoch; what depends on the clock
environment.json       versions, machine, threads, kernel
events.log             what happened when
checkpoints/           NAME.safetensors with NAME.json beside it (checksums); see checkpoints.py
analysis/              records made from the finished run
tensorboard/           TensorBoard events, on request
"""

import json
import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, is_leftover, read_bytes, read_text, remove_leftovers, sha256, write_atomically
from highwaynet.base.specs import parsed
from highwaynet.data.preparation import Preparation
from highwaynet.data.record import DataRecord
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.plan import Plan
from highwaynet.runs.checkpoints import FINAL, Checkpoints
from highwaynet.runs.lock import FolderLock
from highwaynet.runs.record_files import RecordT, load_record, records_in, save_record
from highwaynet.runs.records import EpochRecord, Kept, TimingRecord
from highwaynet.runs.spec import SPEC, RunSpec, read_spec_values, spec_from_values
from highwaynet.runs.stored_data import pack_preparation, unpack_preparation

DATA, STATISTICS, PLAN = "data.json", "data.safetensors", "plan.json"
HISTORY, TIMING, EVENTS, ENVIRONMENT = "history.jsonl", "timing.jsonl", "events.log", "environment.json"
ANALYSIS = "analysis"


class RunDirectory:
    """A run on disk: settings, history, weights and records. It can be given wherever a path can.

    `train` returns it; `RunDirectory.open(path)` checks that there is one.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FolderLock(path)
        owners = {"spec_sha256": path / SPEC, "data_sha256": path / DATA, "plan_sha256": path / PLAN}
        self.checkpoints = Checkpoints(path / "checkpoints", owners)

    @classmethod
    def check_free(cls, path: Path, *, overwrite: bool, resume: bool = False) -> None:
        """Raise InputError where `start` would refuse, without touching anything. To resume, an empty folder will do: a killed run's."""
        try:
            if not path.exists():
                return
        except (OSError, ValueError) as error:  # a name that is too long, or impossible
            raise InputError(f"cannot create {str(path)[:80]!r}: {getattr(error, 'strerror', None) or error}") from error
        if not path.is_dir():
            raise InputError(f"{path} is a file: name a folder for the run")
        others = not all(is_leftover(inner) for inner in path.iterdir())
        is_run = (path / SPEC).exists()
        if not overwrite and (is_run or not resume):
            way = ", go on with it with --resume, or replace it with --overwrite" if is_run else ""
            way = way or ("" if others else ", or replace it with --overwrite")
            raise InputError(f"{path} exists already: name another folder with --out{way}")
        if others and not is_run:
            raise InputError(f"{path} is not a run directory (it has no {SPEC}): nothing is overwritten there")

    @classmethod
    def create(cls, path: Path, spec: RunSpec, environment: Mapping[str, Any], *, overwrite: bool = False) -> "RunDirectory":
        """Start a run directory; see `start`."""
        run = cls(path)
        run.start(spec, environment, overwrite=overwrite)
        return run

    def start(self, spec: RunSpec, environment: Mapping[str, Any], *, overwrite: bool = False, resume: bool = False) -> None:
        """Make the folder and lock it; with `overwrite`, the files of an earlier run there are removed first."""
        self.check_free(self.path, overwrite=overwrite, resume=resume)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock()
            self.check_free(self.path, overwrite=overwrite, resume=True)  # another process may have begun a run meanwhile
            self._remove_own_files()
        except OSError as error:
            raise cannot("create", self.path, error) from error
        # The spec comes first: with it the folder counts as a run directory and can be overwritten, whatever happens next.
        write_atomically(self.path / SPEC, spec.to_toml())
        self.checkpoints.make_folder()
        write_atomically(self.path / ENVIRONMENT, json.dumps(environment, indent=2) + "\n")

    def take_up(self, environment: Mapping[str, Any]) -> None:
        """Lock a run that is to be resumed, and clear away what a killed writer left; it may not have come as far as the environment."""
        self.lock()
        remove_leftovers(self.path)
        self.checkpoints.make_folder()
        if not (self.path / ENVIRONMENT).exists():
            write_atomically(self.path / ENVIRONMENT, json.dumps(environment, indent=2) + "\n")

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """An existing run directory; raises InputError if there is none."""
        if not path.is_dir():
            raise InputError(f"{path}: no such run directory")
        if not (path / SPEC).is_file():
            raise InputError(f"{path} is not a run directory: it has no {SPEC}")
        return cls(path)

    def lock(self) -> None:
        """Be the only writer until `unlock`, or until the process ends; raises InputError where another process writes."""
        self._lock.acquire()

    def unlock(self) -> None:
        """Let others write."""
        self._lock.release()

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"

    def __fspath__(self) -> str:
        """Its path, so that it can be given wherever a path can."""
        return str(self.path)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.resolve().name

    @property
    def tensorboard_folder(self) -> Path:
        """Where TensorBoard events go."""
        return self.path / "tensorboard"

    @property
    def _analysis(self) -> Path:
        return self.path / ANALYSIS

    def _remove_own_files(self) -> None:
        # The spec goes last: as long as it is there, the folder counts as a run directory and can be overwritten.
        self.checkpoints.remove_all()
        own = list(records_in(self._analysis))
        names = (HISTORY, TIMING, ENVIRONMENT, DATA, STATISTICS, PLAN, EVENTS, SPEC)
        own += [self.path / name for name in names]
        own += self.tensorboard_folder.glob("events.out.tfevents.*")
        for path in own:
            path.unlink(missing_ok=True)
        remove_leftovers(self.path)
        for folder in (self._analysis, self.tensorboard_folder):
            with suppress(OSError):  # somebody else's files may lie there
                folder.rmdir()

    def log(self, event: str) -> None:
        """Add a line with the time to events.log."""
        self._append(EVENTS, f"{datetime.now(UTC).isoformat(timespec='seconds')} {event}")

    def add_epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """Add the lines of one epoch."""
        self._append(HISTORY, record.model_dump_json(exclude_none=True))
        self._append(TIMING, timing.model_dump_json())

    def history_sizes(self) -> tuple[int, int]:
        """How long history.jsonl and timing.jsonl are, after what was written to them has reached the disk."""
        return self._synced_size(HISTORY), self._synced_size(TIMING)

    def cut_history(self, history_bytes: int, timing_bytes: int, epochs: int) -> None:
        """Take history.jsonl and timing.jsonl back to earlier lengths; raises InputError where one is shorter, or lacks an epoch."""
        lengths = {HISTORY: history_bytes, TIMING: timing_bytes}
        for name, length in lengths.items():
            if self._synced_size(name) < length:
                raise InputError(f"{self.path / name} is damaged: it is shorter than when the checkpoint was made")
        if history_bytes:
            kept = read_bytes(self.path / HISTORY)[:history_bytes].decode("utf-8", "replace")
            if len(parse_history(kept.splitlines(), self.path / HISTORY)) != epochs:
                raise InputError(f"{self.path / HISTORY} is damaged: it does not have the {epochs} epochs of the checkpoint")
        for name, length in lengths.items():
            if length or (self.path / name).exists():
                try:
                    os.truncate(self.path / name, length)
                except OSError as error:
                    raise cannot("write", self.path / name, error) from error

    def _synced_size(self, name: str) -> int:
        try:
            with (self.path / name).open("rb+") as stream:
                os.fsync(stream.fileno())
                return os.fstat(stream.fileno()).st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise cannot("write", self.path / name, error) from error

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
        """The epochs, in order, none if the run was to have none; raises InputError if the file is missing, empty or damaged."""
        path = self.path / HISTORY
        if self.finished and self.checkpoints.record(FINAL).epoch == 0:
            return []
        if not path.exists() and not self.finished:
            raise InputError(f"{path} is not there: no epoch of this run was finished")
        history = parse_history(self._lines(HISTORY), path)
        if not history:
            raise InputError(f"{path} is empty: no epoch of this run was finished; train it again")
        if self.finished and (epochs := self.checkpoints.record(FINAL).epoch) != len(history):
            raise InputError(f"{path} is damaged: it has {len(history)} of the run's {epochs} epochs")
        return history

    def resolve(self, kind: Kept) -> str:
        """The name of the final or the best checkpoint; raises InputError if the run has none, with what to do."""
        if kind not in get_args(Kept):
            raise InputError(f"checkpoint = {kind!r}: choose {' or '.join(get_args(Kept))}")
        if names := self.checkpoints.names(kind):
            return names[0]
        if kind == "best":
            raise InputError(f"{self.path} has no checkpoint 'best': it kept no validation data, or was stopped before it saved any")
        missing = f"{self.path} has no checkpoint 'final' (final.json is missing)"
        if self.has_diverged:
            raise InputError(f"{missing}: the run diverged; train it again with other settings (events.log says more), or take the best")
        raise InputError(f"{missing}: the run did not finish; go on with: highway train {shlex.quote(str(self.path))} --resume")

    @property
    def has_diverged(self) -> bool:
        """Whether the last thing that happened was that the loss was not finite."""
        return "".join(self.read_events()[-1:]).startswith("diverged")

    @property
    def has_history(self) -> bool:
        """Whether an epoch ended."""
        return self.epochs_written > 0

    @property
    def epochs_written(self) -> int:
        """How many epochs ended, without reading what is written about them: somebody may look often."""
        return len(self._lines(HISTORY)) if (self.path / HISTORY).is_file() else 0

    def light_files(self) -> list[str]:
        """What tells about the run without weights, samples or analyses: names within the directory."""
        return [name for name in (SPEC, PLAN, HISTORY, TIMING, ENVIRONMENT, DATA) if (self.path / name).is_file()]

    @property
    def finished(self) -> bool:
        """Whether the weights after the last epoch are there."""
        return FINAL in self.checkpoints.names(FINAL)

    def read_seconds(self) -> float:
        """The time that the training took so far; 0 before the first epoch ended."""
        if not self.has_history:
            return 0.0
        return sum(parsed(TimingRecord, line, str(self.path / TIMING)).seconds for line in self._lines(TIMING))

    def read_events(self) -> list[str]:
        """What happened, without the times; empty where nothing is written."""
        path = self.path / EVENTS
        return [line.partition(" ")[2] for line in self._lines(EVENTS)] if path.is_file() else []

    def _lines(self, name: str) -> list[str]:
        """The lines of a file to which lines are added."""
        return complete_lines(read_text(self.path / name))

    def read_environment(self) -> dict[str, Any]:
        """Where it was run."""
        path = self.path / ENVIRONMENT
        try:
            environment = json.loads(read_text(path))
        except ValueError as error:
            raise InputError(f"{path} is damaged: {error}") from error
        if not isinstance(environment, dict):
            raise InputError(f"{path} is damaged: it does not hold an object")
        return environment

    def save_preparation(self, preparation: Preparation) -> None:
        """Keep what was learned from the training samples; the record comes last and carries the checksum of the tensors."""
        text, content = pack_preparation(preparation)
        write_atomically(self.path / STATISTICS, content)
        write_atomically(self.path / DATA, text)

    @property
    def has_preparation(self) -> bool:
        """Whether the run came as far as keeping what was learned from the training samples."""
        return (self.path / DATA).is_file()

    def load_preparation(self) -> Preparation:
        """What was learned from the training samples; raises InputError if it is missing or damaged."""
        return unpack_preparation(read_text(self.path / DATA), read_bytes(self.path / STATISTICS), self.path / "data")

    @property
    def answer(self) -> Kept:
        """Which weights are used unless others are asked for: those after the last epoch."""
        return FINAL

    def save_plan(self, plan: Plan) -> None:
        """Keep what was built."""
        write_atomically(self.path / PLAN, plan.model_dump_json(indent=2) + "\n")

    @property
    def has_plan(self) -> bool:
        """Whether the plan is stored; runs that were made before there were plans have the one of their spec."""
        return (self.path / PLAN).is_file()

    def load_plan(self, data: DataRecord | None = None) -> Plan:
        """What was built; raises InputError if it is missing or damaged.

        `data` is the record of the run's preparation, if the caller has read it already.
        """
        if self.has_plan:
            return parsed(Plan, read_text(self.path / PLAN), str(self.path / PLAN))
        known = data or self.load_preparation().record
        return plan_of(self.read_spec().network, known.input_shape, known.outputs)

    def fingerprint(self, checkpoint: Kept | None = None) -> str:
        """Changes when the spec, the plan, the learned statistics or the checkpoint's weights change; records are kept under it."""
        weights = self.checkpoints.record(self.resolve(checkpoint or self.answer))
        names = (SPEC, DATA, *([PLAN] if self.has_plan else []))
        return sha256(b"\n".join([*(read_bytes(self.path / name) for name in names), weights.sha256.encode()]))

    def save_record(self, name: str, record: BaseModel) -> None:
        """Keep the record of an analysis."""
        save_record(self._analysis, name, record)

    def has_record(self, name: str) -> bool:
        """Whether an analysis was made, of these weights or of others."""
        return (self._analysis / f"{name}.json").is_file()

    def load_record(self, name: str, kind: type[RecordT]) -> RecordT | None:
        """The record of an analysis, or None where it is missing, damaged or of another version: it can be made again."""
        return load_record(self._analysis, name, kind)


def complete_lines(text: str) -> list[str]:
    """The lines of a text without half a line at its end: a writer that was killed or ran out of room may have left one."""
    return text[: text.rfind("\n") + 1].splitlines()


def parse_history(lines: list[str], path: Path) -> list[EpochRecord]:
    """The epochs in the lines of a history; raises InputError, which names the file, if one is damaged or missing."""
    history = []
    for number, line in enumerate(lines, start=1):
        record = parsed(EpochRecord, line, f"{path}, line {number},")
        if record.epoch != number:
            raise InputError(f"{path}, line {number}, is damaged: it is about epoch {record.epoch}")
        history.append(record)
    return history
