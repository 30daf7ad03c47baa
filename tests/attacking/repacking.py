"""Damages inside: what is packed or sealed is damaged, and packed or sealed again, so that checksums do not catch it."""

import gzip
import io
import json
import random
import struct
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

from attacking.mutations import damaged
from highwaynet.base.files import sha256
from highwaynet.runs.run_records import CheckpointRecord

PNG = b"\x89PNG\r\n\x1a\n"


def damaged_inside(content: bytes, chance: random.Random, other: bytes) -> tuple[str, bytes] | None:
    """Damage the content of a compressed file; None if it is not compressed."""
    if content[:2] == b"\x1f\x8b":
        what, inner = damaged(gzip.decompress(content), chance, other)
        return f"gzip({what})", gzip.compress(inner, 1, mtime=0)
    if content[:4] == b"PK\3\4":
        return _zip(content, chance, other)
    if content.startswith(PNG):
        return _png(content, chance, other)
    if content[8:9] == b"{" and len(content) > 8 + int.from_bytes(content[:8], "little"):
        length = int.from_bytes(content[:8], "little")
        what, header = damaged(content[8 : 8 + length], chance, other)
        return f"safetensors({what})", len(header).to_bytes(8, "little") + header + content[8 + length :]
    return None


def _zip(content: bytes, chance: random.Random, other: bytes) -> tuple[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {member.filename: archive.read(member) for member in archive.infolist()}
    name = chance.choice(sorted(files))
    what, inner = damaged(files[name], chance, other)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for member, old in files.items():
            info = zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0))
            archive.writestr(info, inner if member == name else old, zipfile.ZIP_DEFLATED)
    return f"zip({name}: {what})", buffer.getvalue()


def _png(content: bytes, chance: random.Random, other: bytes) -> tuple[str, bytes]:
    chunks, place = [], len(PNG)
    while place + 12 <= len(content):
        length = int.from_bytes(content[place : place + 4], "big")
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + length]))
        place += 12 + length
    number = chance.randrange(len(chunks))
    kind, body = chunks[number]
    if kind == b"IDAT" and chance.random() < 0.5:
        what, pixels = damaged(zlib.decompress(body), chance, other)
        chunks[number] = kind, zlib.compress(pixels)
    else:
        what, changed = damaged(body, chance, other)
        chunks[number] = kind, changed
    made = [struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks]
    return f"png({kind.decode('latin-1')}: {what})", PNG + b"".join(made)


def seal_again(run: Path) -> None:
    """Compute the checksums of a run again, as a forger would."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        stored = json.loads((run / "data.json").read_text())
        stored["sha256"] = sha256((run / "data.safetensors").read_bytes())
        (run / "data.json").write_text(json.dumps(stored))
    owners = {"spec_sha256": "spec.toml", "data_sha256": "data.json", "plan_sha256": "plan.json"}
    for path in (run / "checkpoints").glob("*.json"):
        with suppress(OSError, ValueError, TypeError, RecursionError):
            record = CheckpointRecord.model_validate_json(path.read_text())
            sums = {field: sha256((run / name).read_bytes()) for field, name in owners.items()}
            sums["sha256"] = sha256(path.with_suffix(".safetensors").read_bytes())
            path.write_text(record.model_copy(update=sums).sealed().model_dump_json())
