"""Files of analysis records: NAME.json, and NAME.npz for arrays. Does not import torch."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from highwaynet.base.arrays import CHECKSUM, array_fields, pack, unpack
from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, read_bytes, sha256, write_atomically
from highwaynet.base.parsing import parse_json
from highwaynet.runs.seals import SEALS, add_seals, read_seals

RecordT = TypeVar("RecordT", bound=BaseModel)


def record_name(question: str, part: str | None = None) -> str:
    """Return the name of the record of a question, with the part of the data if the question is about a part."""
    return question if part is None else f"{question}-{part}"


def records_in(folder: Path) -> Iterator[Path]:
    """Yield the files of all records in a folder: JSON files that have a fingerprint or are damaged, and their .npz files."""
    for path in sorted(folder.glob("*.json")):
        if path.name == SEALS:
            continue
        try:
            content = parse_json(read_bytes(path), path)
        except InputError:
            content = {"fingerprint": "damaged"}
        if isinstance(content, dict) and "fingerprint" in content:
            yield from (path, path.with_suffix(".npz"))


def pack_record(name: str, record: BaseModel) -> dict[str, bytes]:
    """Return the content of a record's files, by name, in the order in which they are to be written."""
    arrays = array_fields(record)
    content, files = json.loads(record.model_dump_json(exclude=set(arrays))), {}
    if arrays:  # they come first, because the JSON file has their checksum
        files[f"{name}.npz"] = packed = pack(arrays)
        content[CHECKSUM] = sha256(packed)
    return files | {f"{name}.json": (json.dumps(content) + "\n").encode()}


def unpack_record(name: str, kind: type[RecordT], read: Callable[[str], bytes]) -> RecordT | None:
    """Read a record; None if it is missing, damaged or of another version.

    Args:
        name: Its name.
        kind: Its class.
        read: Returns the content of a file by name; raises OSError or KeyError if there is none.
    """
    try:
        content = parse_json(read(f"{name}.json"), name)
        if isinstance(content, dict) and (checksum := content.pop(CHECKSUM, None)):
            content |= unpack(read(f"{name}.npz"), checksum)
        return kind.model_validate(content, strict=False)
    except (OSError, KeyError, ValueError, InputError):  # pydantic's ValidationError is a ValueError
        return None


def save_record(folder: Path, name: str, record: BaseModel) -> None:
    """Write the files of a record; raises InputError if that fails."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot("create", folder, error) from error
    files = pack_record(name, record)
    for file, content in files.items():
        write_atomically(folder / file, content)
    add_seals(folder, files)


def load_record(folder: Path, name: str, kind: type[RecordT]) -> RecordT | None:
    """Load a record; None if it is missing, changed, damaged or of another version, so that it is computed again."""
    try:
        seals = read_seals(folder)
    except InputError:
        return None

    def read(file: str) -> bytes:
        content = read_bytes(folder / file)
        if seals is not None and (file not in seals or not seals[file].fits(content, whole=True)):
            raise KeyError(file)
        return content

    return unpack_record(name, kind, read)
