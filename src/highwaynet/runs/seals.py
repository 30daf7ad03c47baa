"""Seals: checksums of the records of a run, by which edited numbers are noticed. Does not import torch.

seals.json in a run directory seals history.jsonl and timing.jsonl, up to what was written when the run was last saved, and
environment.json;
seals.json in its folder analysis seals the records there. Spec, plan, data and weights have their checksums in the sidecars of checkpoints.
A seal shows that a file was changed or damaged. It does not stop somebody who also computes the checksums again.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from highwaynet.base.errors import InputError
from highwaynet.base.files import read_bytes, read_text, sha256, write_atomically
from highwaynet.base.specs import Spec, parsed
from highwaynet.runs.lock import FolderLock

SEALS = "seals.json"

SealState = Literal["sealed", "unsealed", "changed"]
"""unsealed: written by an earlier version, or after the run was last saved."""


class Seal(Spec):
    """What a file contained when it was sealed."""

    length: Annotated[int, Field(ge=0)]
    """Number of bytes; lines may have been added since."""
    sha256: str
    """Checksum of these bytes."""

    @staticmethod
    def of(content: bytes) -> "Seal":
        """Return the seal of these bytes."""
        return Seal(length=len(content), sha256=sha256(content))

    def fits(self, content: bytes, *, whole: bool) -> bool:
        """Whether the content begins with what was sealed; with `whole`, nothing may follow."""
        return (len(content) == self.length if whole else len(content) >= self.length) and sha256(content[: self.length]) == self.sha256


class Seals(Spec):
    """The content of seals.json."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    files: dict[str, Seal]
    """Seals by the name of the file."""
    own_sha256: str = ""
    """Checksum of this record as JSON, without this field."""

    def digest(self) -> str:
        """Return the checksum of the record."""
        return sha256(self.model_dump_json(exclude={"own_sha256"}).encode())


def read_seals(folder: Path) -> dict[str, Seal] | None:
    """Return the seals in a folder; None if there are none. Raises InputError if the file was changed or damaged."""
    path = folder / SEALS
    if not path.is_file():
        return None
    seals = parsed(Seals, read_text(path), str(path))
    if seals.own_sha256 != seals.digest():
        raise InputError(f"{path} was changed after it was written: its own checksum is wrong")
    return seals.files


def write_seals(folder: Path, files: Mapping[str, Seal]) -> None:
    """Replace the seals in a folder."""
    seals = Seals(files=dict(sorted(files.items())))
    write_atomically(folder / SEALS, seals.model_copy(update={"own_sha256": seals.digest()}).model_dump_json(indent=2) + "\n")


def add_seals(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Seal files that were just written, next to those that are sealed already; several processes may do so at the same time."""
    lock = FolderLock(folder)
    lock.acquire()
    try:
        try:
            known = read_seals(folder) or {}
        except InputError:  # a seal that cannot be trusted: what it sealed is computed again
            known = {}
        write_seals(folder, known | {name: Seal.of(content) for name, content in contents.items()})
    finally:
        lock.release()


def seal_states(folder: Path, names: Iterable[str], *, whole: bool) -> dict[str, SealState]:
    """Return the state of the files that exist; `whole` says whether they may have no more lines than were sealed."""
    seals = read_seals(folder)
    states: dict[str, SealState] = {}
    for name in names:
        if (folder / name).is_file():
            seal = (seals or {}).get(name)
            states[name] = "unsealed" if seal is None else "sealed" if seal.fits(read_bytes(folder / name), whole=whole) else "changed"
        elif seals and name in seals and seals[name].length:
            states[name] = "changed"
    return states
