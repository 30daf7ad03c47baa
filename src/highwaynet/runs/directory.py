"""The run directory. This room is the only code that knows the names of its files.

spec.toml              all settings of the run
plan.json              the network that was built, part by part
history.jsonl          a line for each epoch; equal runs have equal histories
timing.jsonl           a line for each epoch, with times
environment.json       versions, machine, threads, kernel
data.json              form of the data and what was learned from them; statistics in data.safetensors
events.log             events with their times
checkpoints/           NAME.safetensors with a sidecar NAME.json (checksums); see checkpoints.py
seals.json             checksums of history, timing and environment, and in analysis/ of the records there
analysis/              records of analyses of the trained network
tensorboard/           TensorBoard events, on request
"""

import json
import shlex
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, is_leftover, read_bytes, read_text, remove_leftovers, sha256, write_atomically
from highwaynet.base.parsing import parse_json
from highwaynet.base.specs import parsed
from highwaynet.base.text import either
from highwaynet.data.record import DataRecord
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.plan import Plan
from highwaynet.runs.checkpoints import FINAL, Checkpoints
from highwaynet.runs.history import ENVIRONMENT, HISTORY, SEALED, TIMING, complete_lines, cut_history, parse_history, seal_history
from highwaynet.runs.lock import FolderLock
from highwaynet.runs.names import Kept
from highwaynet.runs.record_files import RecordT, load_record, records_in, save_record
from highwaynet.runs.replacing import MARK, clear_aside, earlier_runs, set_aside, take_back
from highwaynet.runs.run_records import EpochRecord, TimingRecord
from highwaynet.runs.seals import SEALS, SealState, read_seals, seal_states
from highwaynet.runs.spec import SPEC, RunSpec, read_spec_values, spec_from_values

if TYPE_CHECKING:  # listing runs does not need torch
    from highwaynet.data.preparation import Preparation

DATA, STATISTICS, PLAN = "data.json", "data.safetensors", "plan.json"
EVENTS = "events.log"
ANALYSIS, CHECKPOINTS, TENSORBOARD = "analysis", "checkpoints", "tensorboard"
FILES = (*SEALED, SEALS, DATA, STATISTICS, PLAN, EVENTS, SPEC)
OWN = frozenset({*FILES, ANALYSIS, CHECKPOINTS, TENSORBOARD, MARK})
"""What a run directory consists of."""


class RunDirectory:
    """A run on disk: settings, history, weights and records. It can be used as a path.

    `train` returns it. `RunDirectory.open(path)` opens an existing one.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self._lock = FolderLock(path)
        self.checkpoints = Checkpoints(lambda: self.path, {"spec_sha256": SPEC, "data_sha256": DATA, "plan_sha256": PLAN})

    @property
    def path(self) -> Path:
        """The folder. A locked one is followed if somebody renames it, so that nothing is written to another run in its place."""
        return self._lock.folder

    @classmethod
    def check_free(cls, path: Path, *, overwrite: bool, resume: bool = False) -> None:
        """Raise InputError if `start` would, without changing anything. With `resume`, an empty folder is allowed: that of a killed run."""
        try:
            if not path.exists():
                return
        except (OSError, ValueError) as error:  # a name that is too long, or invalid
            raise InputError(f"cannot create {str(path)[:80]!r}: {getattr(error, 'strerror', None) or error}") from error
        if not path.is_dir():
            raise InputError(f"{path} is a file: name a folder for the run")
        others = not all(is_leftover(inner) for inner in path.iterdir())
        is_run = (path / SPEC).exists()
        if not overwrite and (is_run or not resume):
            way = ", continue the run with --resume, or replace it with --overwrite" if is_run else ""
            way = way or ("" if others else ", or replace it with --overwrite")
            raise InputError(f"{path} already exists: name another folder with --out{way}")
        if others and not is_run:
            raise InputError(f"{path} is not a run directory (it has no {SPEC}) and is not overwritten: name another folder with --out")

    @classmethod
    def create(cls, path: Path, spec: RunSpec, environment: Mapping[str, Any], *, overwrite: bool = False) -> "RunDirectory":
        """Create a run directory; see `start`."""
        run = cls(path)
        run.start(spec, environment, overwrite=overwrite)
        return run

    def start(self, spec: RunSpec, environment: Mapping[str, Any], *, overwrite: bool = False, resume: bool = False) -> None:
        """Create the folder, lock it, and write spec and environment.

        With `overwrite`, an earlier run there is renamed first, and stays until `forget_earlier`.
        """
        self.check_free(self.path, overwrite=overwrite, resume=resume)
        try:
            aside = self._set_aside() if overwrite and (self.path / SPEC).is_file() else None
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock()
            self.check_free(self.path, overwrite=overwrite, resume=True)  # another process may have started a run meanwhile
            self.remove_files()
        except OSError as error:
            raise cannot("create", self.path, error) from error
        # The spec is written first: with it, the folder is a run directory, which can be overwritten, whatever happens next.
        write_atomically(self.path / SPEC, spec.to_toml())
        if aside is not None:
            take_back(aside, self.path, OWN)
        self.checkpoints.make_folder()
        write_atomically(self.path / ENVIRONMENT, json.dumps(environment, indent=2) + "\n")

    def _set_aside(self, *, always: bool = False) -> Path | None:
        """Rename the earlier run; None if it is an unfinished run that was to replace another one, which is not kept unless `always`."""
        place = self.path
        self.lock()
        try:
            return None if earlier_runs(place) and not self.finished and not always else set_aside(place)
        finally:
            self._lock.release(place)

    def make_way(self) -> None:
        """Set an earlier run there aside, as `start` does with `overwrite`, for a run that will be started there later."""
        try:
            if (self.path / SPEC).is_file():
                self._set_aside(always=True)
        except OSError as error:
            raise cannot("rename", self.path, error) from error

    def forget_earlier(self) -> None:
        """Remove the run that this one has replaced, if there is one and no other process writes to it."""
        for path in earlier_runs(self.path):
            earlier = RunDirectory(path)
            if earlier._lock.attempt():
                try:
                    with suppress(OSError):  # what is left is not part of the run
                        earlier.remove_files()
                        clear_aside(path, self.path)
                finally:
                    earlier.unlock()

    def take_up(self, environment: Mapping[str, Any]) -> None:
        """Lock a run to resume it, remove leftovers of a killed writer, and write the environment if the run had not got that far."""
        self.lock()
        remove_leftovers(self.path)
        self.checkpoints.make_folder()
        if not (self.path / ENVIRONMENT).exists():
            write_atomically(self.path / ENVIRONMENT, json.dumps(environment, indent=2) + "\n")

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Open an existing run directory; raises InputError if there is none."""
        if not path.is_dir():
            raise InputError(f"{path}: no such run directory")
        if not (path / SPEC).is_file():
            raise InputError(f"{path} is not a run directory: it has no {SPEC}")
        return cls(path)

    def lock(self) -> None:
        """Lock the directory for writing until `unlock` or the end of the process; raises InputError if another process holds the lock."""
        self._lock.acquire()

    def unlock(self) -> None:
        """Release the lock."""
        self._lock.release()

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"

    def __fspath__(self) -> str:
        """Return its path, so that it can be used as a path."""
        return str(self.path)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.resolve().name

    @property
    def tensorboard_folder(self) -> Path:
        """The folder of TensorBoard events."""
        return self.path / TENSORBOARD

    @property
    def _analysis(self) -> Path:
        return self.path / ANALYSIS

    def remove_files(self) -> None:
        """Remove the files of a run in this folder; other files stay."""
        # The spec is removed last: as long as it exists, the folder is a run directory, which can be overwritten.
        self.checkpoints.remove_all()
        own = list(records_in(self._analysis))
        own += [self.path / name for name in FILES]
        own += self.tensorboard_folder.glob("events.out.tfevents.*")
        own += [self._analysis / SEALS]
        for path in own:
            path.unlink(missing_ok=True)
        remove_leftovers(self.path)
        for folder in (self._analysis, self.tensorboard_folder):
            with suppress(OSError):  # the user may have other files there
                folder.rmdir()

    def log(self, event: str) -> None:
        """Append an event with the time to events.log."""
        self._append(EVENTS, f"{datetime.now(UTC).isoformat(timespec='seconds')} {event}")

    def add_epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """Append the lines of one epoch to history.jsonl and timing.jsonl."""
        self._append(HISTORY, record.model_dump_json(exclude_none=True))
        self._append(TIMING, timing.model_dump_json())

    def seal_history(self) -> tuple[int, int]:
        """Seal the history; return the lengths of history.jsonl and timing.jsonl in bytes, after syncing them to disk."""
        return seal_history(self.path)

    def seal_states(self) -> dict[str, SealState]:
        """Return which of history, timing, environment and records are sealed, unsealed or changed; an InputError if a seal is damaged."""
        states = seal_states(self.path, SEALED, whole=self.finished)
        records = [path.name for path in records_in(self._analysis) if path.is_file()]
        inner = seal_states(self._analysis, [*records, *(read_seals(self._analysis) or {})], whole=True)
        return states | {f"{ANALYSIS}/{name}": state for name, state in inner.items()}

    def _check_seal(self, name: str) -> None:
        if seal_states(self.path, [name], whole=self.finished).get(name) == "changed":
            raise InputError(f"{self.path / name} was changed after it was written, so that its numbers may be wrong: restore it")

    def cut_history(self, history_bytes: int, timing_bytes: int, epochs: int) -> None:
        """Truncate history.jsonl and timing.jsonl to earlier lengths; raises InputError if one is shorter, or an epoch is missing."""
        cut_history(self.path, history_bytes, timing_bytes, epochs)

    def _append(self, name: str, line: str) -> None:
        try:
            with (self.path / name).open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")
        except OSError as error:
            raise cannot("write", self.path / name, error) from error

    def read_spec(self) -> RunSpec:
        """Read the settings of the run."""
        return spec_from_values(read_spec_values(self.path / SPEC), self.path / SPEC)

    def read_history(self) -> list[EpochRecord]:
        """Read the epochs, in order; empty if the run has epochs = 0. Raises InputError if the file is missing, empty or damaged."""
        path = self.path / HISTORY
        if self.finished and self.checkpoints.record(FINAL).epoch == 0:
            return []
        if not path.exists() and not self.finished:
            raise InputError(f"{path} does not exist: no epoch of this run was finished")
        history = parse_history(self._lines(HISTORY), path)
        if not history:
            raise InputError(f"{path} is empty: no epoch of this run was finished; train it again")
        if self.finished and (epochs := self.checkpoints.record(FINAL).epoch) != len(history):
            raise InputError(f"{path} is damaged: it has {len(history)} of the run's {epochs} epochs")
        self._check_seal(HISTORY)
        return history

    def resolve(self, kind: Kept) -> str:
        """Return the name of the final, best or average checkpoint; raises InputError, which says what to do, if there is none."""
        if kind not in get_args(Kept):
            raise InputError(f"checkpoint = {kind!r}: choose {either(get_args(Kept))}")
        if names := self.checkpoints.names(kind):
            return names[0]
        if kind == "average" and self.finished:
            raise InputError(f"{self.path} has no checkpoint 'average': it was trained without training.weight_average")
        if kind == "best":
            raise InputError(f"{self.path} has no checkpoint 'best': the run has no validation data, or stopped too early; use 'final'")
        missing = f"{self.path} has no checkpoint 'final' (final.json is missing)"
        if self.has_diverged:
            other = ", or use 'best'" if self.checkpoints.names("best") else ""
            raise InputError(f"{missing}: the run diverged; train it again with other settings (see events.log){other}")
        raise InputError(f"{missing}: the run did not finish; continue it with: highway train {shlex.quote(str(self.path))} --resume")

    @property
    def has_diverged(self) -> bool:
        """Whether the run ended because the loss was not finite: the last event says so."""
        return "".join(self.read_events()[-1:]).startswith("diverged")

    @property
    def has_history(self) -> bool:
        """Whether an epoch was finished."""
        return self.epochs_written > 0

    @property
    def epochs_written(self) -> int:
        """Number of finished epochs; fast, because the lines of the history are not parsed."""
        return len(self._lines(HISTORY)) if (self.path / HISTORY).is_file() else 0

    def light_files(self) -> list[str]:
        """Return the names of the existing files that describe the run, without weights, statistics and analyses."""
        return [name for name in (SPEC, PLAN, HISTORY, TIMING, ENVIRONMENT, DATA) if (self.path / name).is_file()]

    @property
    def finished(self) -> bool:
        """Whether the checkpoint after the last epoch exists."""
        return FINAL in self.checkpoints.names(FINAL)

    def read_seconds(self) -> float:
        """Return the training time so far in seconds; 0 before the end of the first epoch."""
        if not self.has_history:
            return 0.0
        seconds = sum(parsed(TimingRecord, line, str(self.path / TIMING)).seconds for line in self._lines(TIMING))
        self._check_seal(TIMING)
        return seconds

    def read_events(self) -> list[str]:
        """Read the events, without their times; empty if there are none."""
        path = self.path / EVENTS
        return [line.partition(" ")[2] for line in self._lines(EVENTS)] if path.is_file() else []

    def _lines(self, name: str) -> list[str]:
        """Read the complete lines of a file to which lines are appended."""
        return complete_lines(read_text(self.path / name))

    def read_environment(self) -> dict[str, Any]:
        """Read the environment in which the run was trained: versions, machine, threads, kernel."""
        path = self.path / ENVIRONMENT
        environment = parse_json(read_text(path), path)
        if not isinstance(environment, dict):
            raise InputError(f"{path} is damaged: it is not a JSON object")
        self._check_seal(ENVIRONMENT)
        return environment

    def save_preparation(self, preparation: "Preparation") -> None:
        """Store the preparation; the record is written last and has the checksum of the tensors."""
        from highwaynet.runs.stored_data import pack_preparation

        text, content = pack_preparation(preparation)
        write_atomically(self.path / STATISTICS, content)
        write_atomically(self.path / DATA, text)

    @property
    def has_preparation(self) -> bool:
        """Whether the preparation is stored."""
        return (self.path / DATA).is_file()

    def load_preparation(self) -> "Preparation":
        """Load the preparation; raises InputError if it is missing or damaged."""
        from highwaynet.runs.stored_data import unpack_preparation

        return unpack_preparation(read_text(self.path / DATA), read_bytes(self.path / STATISTICS), self.path / "data")

    @property
    def answer(self) -> Kept:
        """The checkpoint that is used by default: `training.answer`, else that with the lowest validation loss, if there is one."""
        training = self.read_spec().training
        if training.answer is not None:
            return training.answer
        if self.finished and self.checkpoints.has_best(FINAL):
            return "best"
        return "final" if training.weight_average is None else "average"

    def save_plan(self, plan: Plan) -> None:
        """Store the plan of the network."""
        write_atomically(self.path / PLAN, plan.model_dump_json(indent=2) + "\n")

    @property
    def has_plan(self) -> bool:
        """Whether the plan is stored; for older runs without one, it follows from the spec."""
        return (self.path / PLAN).is_file()

    def load_plan(self, data: DataRecord | None = None) -> Plan:
        """Load the plan of the network; raises InputError if it is damaged.

        `data` is the record of the run's preparation, if the caller has already read it.
        """
        if self.has_plan:
            return parsed(Plan, read_text(self.path / PLAN), str(self.path / PLAN))
        known = data or self.load_preparation().record
        return plan_of(self.read_spec().network, known.network_shape, known.outputs)

    def fingerprint(self, checkpoint: Kept | None = None) -> str:
        """Return a checksum of spec, plan, preparation and weights; records store it, so that outdated ones are detected."""
        weights = self.checkpoints.record(self.resolve(checkpoint or self.answer))
        names = (SPEC, DATA, *([PLAN] if self.has_plan else []))
        return sha256(b"\n".join([*(read_bytes(self.path / name) for name in names), weights.sha256.encode()]))

    def save_record(self, name: str, record: BaseModel) -> None:
        """Store the record of an analysis."""
        save_record(self._analysis, name, record)

    def has_record(self, name: str) -> bool:
        """Whether a record of this analysis exists, for any weights."""
        return (self._analysis / f"{name}.json").is_file()

    def load_record(self, name: str, kind: type[RecordT]) -> RecordT | None:
        """Load the record of an analysis; None if it is missing, damaged or of another version, so that it is computed again."""
        return load_record(self._analysis, name, kind)
