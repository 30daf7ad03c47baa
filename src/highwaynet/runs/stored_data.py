"""A preparation as text and bytes, for data.json and data.safetensors of a run, and for sending it to other processes."""

from pathlib import Path

import safetensors.torch

from highwaynet.base.errors import InputError
from highwaynet.base.files import sha256
from highwaynet.base.specs import parsed
from highwaynet.data.preparation import Preparation
from highwaynet.runs.checkpoints import decode
from highwaynet.runs.run_records import StoredData


def pack_preparation(preparation: Preparation) -> tuple[str, bytes]:
    """Return the record as JSON, with the checksum of the statistics, and the statistics as bytes."""
    content = safetensors.torch.save(dict(preparation.preprocessing.state))
    return StoredData(record=preparation.record, sha256=sha256(content)).model_dump_json(indent=2) + "\n", content


def unpack_preparation(text: str, content: bytes, place: Path) -> Preparation:
    """Read a preparation; raises InputError, which names `place`, if something is damaged."""
    stored = parsed(StoredData, text, f"{place}.json")
    if sha256(content) != stored.sha256:
        raise InputError(f"{place}.safetensors is damaged: its checksum is not the one in {place.name}.json; train the run again")
    return Preparation.restore(stored.record, decode(content, place.with_suffix(".safetensors")))
