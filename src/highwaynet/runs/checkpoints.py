"""The folder checkpoints/ of a run: NAME.safetensors with a sidecar NAME.json.

The sidecar is written last and has the checksums; without it a checkpoint does not count. Names are "start", "final", "average",
"objective", "best-STEP", "step-STEP" and "stop-STEP" (made when somebody interrupted the run). Each is written once: a new checkpoint
never replaces an older one that is still needed.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, read_bytes, read_text, remove_leftovers, sha256, write_atomically
from highwaynet.base.specs import parsed
from highwaynet.runs.names import Kept
from highwaynet.runs.run_records import CheckpointRecord, RunProgress

if TYPE_CHECKING:  # listing runs reads only sidecars, without torch
    from torch import Tensor

FINAL: Kept = "final"
"""The weights after the last epoch."""
AVERAGE: Kept = "average"
"""The average of the weights over the steps, of a run that keeps one."""
STEP, STOP, BEST = "step", "stop", "best"
"""Checkpoints with a step in their name: saved states, states of an interrupted run, best weights."""
START = "start"
"""The weights before the first step, of a run that did not start with new ones."""
OBJECTIVE = "objective"
"""The parameters of an objective that has any, after the last epoch."""


class Checkpoints:
    """The checkpoints of one run.

    Args:
        run: Returns the run directory, which may move.
        belongs_to: Files of the run whose checksums every checkpoint stores, by the field of the checksum; loading compares them.
    """

    def __init__(self, run: Callable[[], Path], belongs_to: Mapping[str, str]) -> None:
        self._run, self._names = run, dict(belongs_to)

    @property
    def folder(self) -> Path:
        """Their folder."""
        return self._run() / "checkpoints"

    @property
    def _belongs_to(self) -> dict[str, Path]:
        run = self._run()
        return {field: run / name for field, name in self._names.items()}

    def make_folder(self) -> None:
        """Create the folder, and remove the files of interrupted writers."""
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot("create", self.folder, error) from error
        remove_leftovers(self.folder)
        for kind in (STEP, STOP, BEST):
            for path in self.folder.glob(f"{kind}-*.safetensors"):
                if not path.with_suffix(".json").exists():
                    with suppress(OSError):
                        path.unlink()

    def names(self, *kinds: str) -> list[str]:
        """Return the names of these kinds ("step", "stop", "best", "final"), the newest first."""
        found = [path.stem for kind in kinds for path in self.folder.glob(f"{kind}*.json")]
        return sorted(found, key=step_in, reverse=True)

    def save(
        self,
        name: str,
        tensors: Mapping[str, "Tensor"],
        *,
        epoch: int,
        step: int,
        progress: RunProgress | None = None,
        best_step: int | None = None,
    ) -> None:
        """Write tensors, then their sidecar."""
        self.remove(name)  # after a rewind, a run reaches the same step again: an old sidecar must not be next to new tensors
        content = encode(tensors)
        write_atomically(self.folder / f"{name}.safetensors", content)
        owners = {field: sha256(read_bytes(path)) for field, path in self._belongs_to.items() if path.exists()}
        about = {"epoch": epoch, "step": step, "sha256": sha256(content), "progress": progress, "best_step": best_step}
        record = CheckpointRecord.model_validate(about | owners)
        write_atomically(self.folder / f"{name}.json", record.sealed().model_dump_json(indent=2) + "\n")

    def remove(self, name: str) -> None:
        """Remove a checkpoint, its sidecar first; does nothing if there is none."""
        for suffix in ("json", "safetensors"):
            try:
                (self.folder / f"{name}.{suffix}").unlink(missing_ok=True)
            except OSError as error:
                raise cannot("remove", self.folder / f"{name}.{suffix}", error) from error

    def remove_all(self) -> None:
        """Remove all checkpoints, and the folder if it is empty then."""
        for kind in (f"{STEP}-", f"{STOP}-", f"{BEST}-", START, OBJECTIVE, AVERAGE, FINAL):
            for path in [*self.folder.glob(f"{kind}*.json"), *self.folder.glob(f"{kind}*.safetensors")]:
                path.unlink(missing_ok=True)
        remove_leftovers(self.folder)
        with suppress(OSError):  # the user may have other files there
            self.folder.rmdir()

    def record(self, name: str) -> CheckpointRecord:
        """Read the sidecar of a checkpoint; raises InputError if it is missing or damaged."""
        path = self.folder / f"{name}.json"
        record = parsed(CheckpointRecord, read_text(path), str(path))
        if not record.is_intact():
            raise InputError(f"{path} is damaged: its checksum is wrong")
        return record

    def has_best(self, name: str) -> bool:
        """Whether there is a best checkpoint; raises InputError if the sidecar of a checkpoint names one that is gone."""
        best = self.record(name).best_step
        if best is not None and name_at(BEST, best) not in self.names(BEST):
            path = self.folder / f"{name_at(BEST, best)}.json"
            raise InputError(f"{path} is missing, with the weights that the run answers with: restore it, or use --checkpoint final")
        return bool(self.names(BEST))

    def load(self, name: str) -> tuple[dict[str, "Tensor"], CheckpointRecord]:
        """Read tensors and sidecar; raises InputError if a checksum, also of the run's spec, data or plan, does not match."""
        content, record = self.read(name)
        return decode(content, self.folder / f"{name}.safetensors"), record

    def read(self, name: str) -> tuple[bytes, CheckpointRecord]:
        """Do the same as `load`, but return the tensors as the bytes of the file."""
        record = self.record(name)
        for field, path in self._belongs_to.items():
            known = getattr(record, field)
            if known != (sha256(read_bytes(path)) if known or path.exists() else ""):
                raise InputError(f"{self.folder / name}.json belongs to another {path.name}: one of them was changed or replaced")
        path = self.folder / f"{name}.safetensors"
        content = read_bytes(path)
        if sha256(content) != record.sha256:
            raise InputError(f"{path} is damaged: its checksum is not the one in {name}.json")
        return content, record


def encode(tensors: Mapping[str, "Tensor"]) -> bytes:
    """Return the bytes of a safetensors file; equal tensors give equal bytes."""
    from safetensors.torch import save

    return save({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()})


def checksum(tensors: Mapping[str, "Tensor"]) -> str:
    """Return the checksum of tensors; it does not depend on their device or memory layout."""
    return sha256(encode(tensors))


def decode(content: bytes, path: Path) -> dict[str, "Tensor"]:
    """Read the tensors in a safetensors file; raises InputError for anything else, for instance pickles."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file: {error}") from error


def name_at(kind: str, step: int) -> str:
    """The name of a checkpoint that was made at a step, for instance step-000000500."""
    return f"{kind}-{step:09}"


def step_in(name: str) -> int:
    """Return the step in a checkpoint's name; −1 if there is none."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1
