"""Attacks that are always the same: files that are small and claim to be huge, two writers, edited records."""

import gzip
import io
import json
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from attacking import forks
from attacking.forks import command, function
from attacking.judge import finding_in
from attacking.materials import arrays, highway, run_file
from forked import start
from holding import PATIENCE

NESTED = b"[" * 100_000


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(10**6))) + chunk(b"IEND", b"")


def _npy(shape: str) -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(400)


def _zip(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return buffer.getvalue()


def _tar_bomb() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        info = tarfile.TarInfo("zeros")
        info.size = 2 * 10**9
        archive.addfile(info, gzip.GzipFile(fileobj=io.BytesIO(_zeros(2 * 10**9))))  # type: ignore[arg-type]
    return buffer.getvalue()


def _zeros(count: int) -> bytes:
    """Zeros, gzipped, a million at a time."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as stream:
        for _ in range(count // 10**6):
            stream.write(bytes(10**6))
    return buffer.getvalue()


def _bombs() -> Iterator[tuple[str, bytes]]:
    """Names of files, and what they contain."""
    yield "wide.png", _png(2**31 - 1, 2**31 - 1)
    yield "large.png", _png(60_000, 60_000)
    yield "huge.npz", _zip(x__npy=_npy("(1000000000000, 1000)"), y__npy=_npy("(1000000000000,)"))
    yield "negative.npz", _zip(x__npy=_npy("(-1, 100)"), y__npy=_npy("(-1,)"))
    yield "overflow.npz", _zip(x__npy=_npy("(4294967296, 4294967296)"), y__npy=_npy("(4294967296,)"))
    yield "digits.npz", _zip(x__npy=_npy(f"({'9' * 5000},)"), y__npy=_npy("(100,)"))
    yield "nested.npz", _zip(x__npy=_npy("(" * 5000 + ")" * 5000), y__npy=_npy("(100,)"))
    yield "zeros.csv.gz", gzip.compress(b"a,b\n") + _zeros(10**9)
    yield "line.csv", b"a,b\n" + b"1," * 5_000_000
    yield "columns.csv", b",".join(b"c%d" % number for number in range(300_000)) + b"\n" + b"1," * 300_000
    yield "quotes.csv", b'a,b\n"' + b'""' * 3_000_000
    yield "long.csv", b"a,b\n" + b"9" * 3_000_000 + b",x\n1,y\n"
    yield "nested.toml", b"x = " + NESTED
    yield "dotted.toml", b".".join([b"a"] * 20_000) + b" = 1"
    yield "digits.toml", b"seed = " + b"9" * 100_000
    yield "tables.toml", b"".join(b"[a%d]\n" % number for number in range(60_000))


def bombs(folder: Path) -> str | None:
    """Files that are small and would need much."""
    calm = forks.run(command("data", "describe", "digits"), folder)
    for name, content in _bombs():
        path = folder / name
        path.write_bytes(content)
        place = folder / "images" / "a" / name
        if path.suffix == ".png":
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, place)
            path = folder / "images"
        job = command("train", path) if path.suffix == ".toml" else command("data", "describe", path)
        ended = forks.run(job, folder)
        if wrong := finding_in(ended, calm, "any"):
            return f"{name}: {wrong}: {ended.err[-800:]}"
        if ended.code != 2:
            return f"{name}: exit code {ended.code}"
        shutil.rmtree(folder / "images", ignore_errors=True)
        path.unlink(missing_ok=True)
    return None


def archive_bomb(folder: Path) -> str | None:
    """An archive of two megabytes that unpacks to two gigabytes."""
    from highwaynet.data.archives import unpack_tar

    (folder / "bomb.tar.gz").write_bytes(_tar_bomb())
    job = function(lambda: unpack_tar(folder / "bomb.tar.gz", folder / "out", size_limit=10**8, member_limit=10))
    ended = forks.run(job, folder)
    if ended.code != 2 or ended.hung or (folder / "out").exists():
        return f"exit code {ended.code}: {ended.err[-500:]}"
    return None


def _train(folder: Path, *flags: str) -> None:
    arrays(folder)
    (folder / "run.toml").write_text(run_file("plain.npz", "validation = 0.2", epochs=30))
    highway("train", "run.toml", "--out", "run", *flags, cwd=folder)


def two_writers(folder: Path) -> str | None:
    """Two processes train into one folder at the same moment: one does, the other is refused, and the result is a whole run."""
    _train(folder)
    expected = (folder / "run" / "checkpoints" / "final.safetensors").read_bytes()
    for flags in ((), ("--resume",), ("--overwrite",)):
        if flags != ("--overwrite",):
            shutil.rmtree(folder / "run")
        writers = [start("train", "run.toml", "--out", "run", *flags, cwd=folder) for _ in range(3)]
        endings = [(process.communicate(timeout=PATIENCE)[1], process.returncode) for process in writers]
        if any("Traceback" in err or "itself" in err for err, _ in endings):
            return f"traceback with {flags}: {endings}"
        if any(code not in {0, 2} for _, code in endings) or not any(code == 0 for _, code in endings):
            return f"exit codes with {flags}: {endings}"
        if (folder / "run" / "checkpoints" / "final.safetensors").read_bytes() != expected:
            return f"other weights with {flags}"
        done = start("verify", "run", cwd=folder)
        if "as it was written" not in done.communicate(timeout=PATIENCE)[0]:
            return f"not verified with {flags}"
        if others := [path.name for path in folder.glob("run.*") if path.is_dir()]:
            return f"left with {flags}: {others}"
    return None


def edited_records(folder: Path) -> str | None:
    """Numbers that somebody made nicer: `verify` notices each, `runs` shows no edited history, `report` none either."""
    _train(folder)
    highway("evaluate", "run", cwd=folder)
    edits = {
        "history.jsonl": ('"train_loss":', '"train_loss":0.0'),
        "timing.jsonl": ('"seconds":', '"seconds":0.0'),
        "environment.json": ('"cores": ', '"cores": 9'),
        "analysis/mistakes-test.json": ('"accuracy": 0.', '"accuracy": 0.9'),
        "seals.json": ('"length": ', '"length": 9'),
        "analysis/seals.json": ('"length": ', '"length": 9'),
        "checkpoints/final.json": ('"epoch": ', '"epoch": 9'),
    }
    for name, (old, new) in edits.items():
        path = folder / "run" / name
        before = path.read_text()
        if old not in before:
            return f"{name} has no {old}"
        path.write_text(before.replace(old, new, 1))
        verified = start("verify", "run", cwd=folder)
        if verified.wait(PATIENCE) != 2:
            return f"{name}: verify does not notice"
        listed = start("runs", ".", "--json", cwd=folder)
        state = json.loads(listed.communicate(timeout=PATIENCE)[0])[0]["state"]
        if name in {"history.jsonl", "timing.jsonl", "seals.json", "checkpoints/final.json"} and state != "damaged":
            return f"{name}: runs shows {state}"
        if name == "history.jsonl" and start("report", "run", "--quick", cwd=folder).wait(PATIENCE) != 2:
            return f"{name}: report shows it"
        path.write_text(before)
    return None


STAGED: dict[str, Callable[[Path], str | None]] = {
    "bombs": bombs,
    "archive bomb": archive_bomb,
    "two writers": two_writers,
    "edited records": edited_records,
}
