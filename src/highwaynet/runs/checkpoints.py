"""The folder checkpoints/ of a run: NAME.safetensors with NAME.json beside it.

The sidecar comes last and carries the checksums; without it a checkpoint does not count. Names are "start", "final", "objective",
"best-STEP", "step-STEP" and "stop-STEP" (where somebody interrupted the run), each of which is written once: a new checkpoint never
replaces an older one that is still needed.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, read_bytes, read_text, remove_leftovers, sha256, write_atomically
from highwaynet.base.specs import parsed
from highwaynet.runs.records import CheckpointRecord, Kept, RunProgress

FINAL: Kept = "final"
"""The checkpoints of which there is one: the weights after the last epoch, and those with the lowest validation loss."""
STEP, STOP, BEST = "step", "stop", "best"
"""Those of which there are several, each with its step: saved states, states where somebody stopped the run, best weights."""
START = "start"
"""The weights before the first step, of a run that did not start with fresh ones."""
OBJECTIVE = "objective"
"""What an objective with parameters of its own has learned, after the last epoch."""


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: Where they lie.
        belongs_to: The files of the run, by the field that has their checksum, with which a checkpoint must agree.
    """

    def __init__(self, folder: Path, belongs_to: Mapping[str, Path]) -> None:
        self.folder, self._belongs_to = folder, dict(belongs_to)

    def make_folder(self) -> None:
        """Make the folder, and remove what interrupted writers left in it."""
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
        """The names of these kinds ("step", "stop", "best", "final"), the newest first."""
        found = [path.stem for kind in kinds for path in self.folder.glob(f"{kind}*.json")]
        return sorted(found, key=step_in, reverse=True)

    def save(self, name: str, tensors: Mapping[str, Tensor], *, epoch: int, step: int, progress: RunProgress | None = None) -> None:
        """Write tensors, then their sidecar."""
        self.remove(name)  # a run that went back comes to the same step again: the old sidecar must not stand beside new tensors
        content = encode(tensors)
        write_atomically(self.folder / f"{name}.safetensors", content)
        owners = {field: sha256(read_bytes(path)) for field, path in self._belongs_to.items() if path.exists()}
        record = CheckpointRecord.model_validate({"epoch": epoch, "step": step, "sha256": sha256(content), "progress": progress} | owners)
        write_atomically(self.folder / f"{name}.json", record.sealed().model_dump_json(indent=2) + "\n")

    def remove(self, name: str) -> None:
        """Remove a checkpoint, its sidecar first; one that is not there is no error."""
        for suffix in ("json", "safetensors"):
            try:
                (self.folder / f"{name}.{suffix}").unlink(missing_ok=True)
            except OSError as error:
                raise cannot("remove", self.folder / f"{name}.{suffix}", error) from error

    def remove_all(self) -> None:
        """Remove everything that is ours, and the folder if nothing else is in it."""
        for kind in (f"{STEP}-", f"{STOP}-", f"{BEST}-", START, OBJECTIVE, FINAL):
            for path in [*self.folder.glob(f"{kind}*.json"), *self.folder.glob(f"{kind}*.safetensors")]:
                path.unlink(missing_ok=True)
        remove_leftovers(self.folder)
        with suppress(OSError):  # somebody else's files may lie there
            self.folder.rmdir()

    def record(self, name: str) -> CheckpointRecord:
        """The sidecar of a checkpoint; raises InputError if it is missing or damaged."""
        path = self.folder / f"{name}.json"
        record = parsed(CheckpointRecord, read_text(path), str(path))
        if not record.is_intact():
            raise InputError(f"{path} is damaged: its checksum is wrong")
        return record

    def load(self, name: str) -> tuple[dict[str, Tensor], CheckpointRecord]:
        """Tensors and sidecar, after the checksums of both, and of what they belong to, were found right."""
        content, record = self.read(name)
        return decode(content, self.folder / f"{name}.safetensors"), record

    def read(self, name: str) -> tuple[bytes, CheckpointRecord]:
        """The same, with the tensors as they lie in the file."""
        record = self.record(name)
        for field, path in self._belongs_to.items():
            known = getattr(record, field)
            if known != (sha256(read_bytes(path)) if known or path.exists() else ""):
                raise InputError(f"{self.folder / name}.json belongs to another {path.name}: one of them was changed or put here")
        path = self.folder / f"{name}.safetensors"
        content = read_bytes(path)
        if sha256(content) != record.sha256:
            raise InputError(f"{path} is damaged: its checksum is not the one in {name}.json")
        return content, record


def encode(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors as a safetensors file: the same bytes for the same tensors."""
    return safetensors.torch.save({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()})


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """The checksum of tensors, wherever they lie."""
    return sha256(encode(tensors))


def decode(content: bytes, path: Path) -> dict[str, Tensor]:
    """The tensors in a safetensors file; anything else, pickles too, is refused unread."""
    try:
        return safetensors.torch.load(content)
    except safetensors.SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file: {error}") from error


def name_at(kind: str, step: int) -> str:
    """The name of a checkpoint that was made at a step, for instance step-000000500."""
    return f"{kind}-{step:09}"


def step_in(name: str) -> int:
    """The step in a checkpoint's name; −1 where there is none."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1
