"""The library that counts and disturbs file operations (`shim.c`): compiled, preloaded into the fork server, and armed here."""

import errno
import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Literal

Moment = Literal["before", "after", "half"]
OFF, COUNT, KILL, FAIL = range(4)
MOMENTS: tuple[Moment, ...] = ("before", "after", "half")
ERRORS = {"full": errno.ENOSPC, "read-only": errno.EROFS, "denied": errno.EACCES}
_BLOCK = struct.Struct("6i4096s")


def compiler() -> str | None:
    """A C compiler; None if there is none."""
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


class Shim:
    """Disturbs processes that the fork server starts from now on. It must be made before the server is.

    Args:
        folder: For the compiled library and the control block.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        library, block = folder / "shim.so", folder / "control"
        source = Path(__file__).with_name("shim.c")
        subprocess.run([str(compiler()), "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        block.write_bytes(bytes(_BLOCK.size))
        with block.open("r+b") as stream:
            self._memory = mmap.mmap(stream.fileno(), _BLOCK.size)
        os.environ |= {"LD_PRELOAD": str(library), "ATTACK_CONTROL": str(block)}

    def arm(self, mode: int, folder: Path, number: int = 0, moment: Moment = "before", error: int = 0) -> None:
        """From now on, disturb operations below a folder; the counter starts again."""
        self._memory[:] = _BLOCK.pack(OFF, 0, 0, 0, 0, 0, b"")
        packed = _BLOCK.pack(mode, MOMENTS.index(moment), number, error, 0, 0, str(folder.resolve()).encode())
        self._memory[4:] = packed[4:]
        self._memory[:4] = packed[:4]  # the mode comes last: it arms

    def disarm(self) -> tuple[int, int]:
        """Stop; returns how many operations there were, and how many were disturbed."""
        _, _, _, _, counter, hits, _ = _BLOCK.unpack(self._memory[:])
        self._memory[:4] = struct.pack("i", OFF)
        return counter, hits
