"""Records of analyses as files: NAME.json, and NAME.npz beside it for arrays. Free of torch."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from highwaynet.base.arrays import CHECKSUM, array_fields, pack, unpack
from highwaynet.base.files import cannot, sha256, write_atomically

RecordT = TypeVar("RecordT", bound=BaseModel)


def record_name(question: str, part: str | None = None) -> str:
    """The name under which the answer to a question is kept: with the part of the data, if it can be asked about any part."""
    return question if part is None else f"{question}-{part}"


def records_in(folder: Path) -> Iterator[Path]:
    """The files of all records in a folder: those whose JSON has a fingerprint, with their arrays."""
    for path in folder.glob("*.json"):
        with suppress(OSError, ValueError, RecursionError):
            content = json.loads(path.read_bytes())
            if isinstance(content, dict) and "fingerprint" in content:
                yield path
                if CHECKSUM in content:
                    yield path.with_suffix(".npz")


def save_record(folder: Path, name: str, record: BaseModel) -> None:
    """Keep a record; raises InputError where that cannot be done."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot("create", folder, error) from error
    arrays = array_fields(record)
    content = json.loads(record.model_dump_json(exclude=set(arrays)))
    if arrays:  # they come first: the JSON file carries their checksum
        packed = pack(arrays)
        write_atomically(folder / f"{name}.npz", packed)
        content[CHECKSUM] = sha256(packed)
    write_atomically(folder / f"{name}.json", json.dumps(content) + "\n")


def load_record(folder: Path, name: str, kind: type[RecordT]) -> RecordT | None:
    """A record, or None where it is missing, damaged or of another version: it can be made again."""
    try:
        content = json.loads((folder / f"{name}.json").read_bytes())
        if isinstance(content, dict) and (checksum := content.pop(CHECKSUM, None)):
            content |= unpack((folder / f"{name}.npz").read_bytes(), checksum)
        return kind.model_validate(content, strict=False)
    except (OSError, ValueError):  # pydantic's ValidationError is a ValueError
        return None
