"""Runs `highway` and kills the process itself, without warning, at the N-th point of writing a file.

python -m shaken N COMMAND... A file has four points: half of it written; written, not yet synced; synced, not yet renamed; renamed.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

points = [0]


def passed() -> None:
    points[0] -= 1
    if points[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)


class Half:
    """A stream whose writer may die in the middle."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> "Half":
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def write(self, content: bytes) -> None:
        self._stream.write(content[: len(content) // 2])
        self._stream.flush()
        passed()
        self._stream.write(content[len(content) // 2 :])

    def flush(self) -> None:
        self._stream.flush()
        passed()

    def fileno(self) -> int:
        return self._stream.fileno()


def opened(path: Path, mode: str = "r", **options: Any) -> Any:
    stream = original_open(path, mode, **options)
    return Half(stream) if path.name.endswith(".tmp") and mode in {"wb", "xb"} else stream


def replaced(path: Path, target: Path) -> Path:
    passed()
    result = original_replace(path, target)
    passed()
    return result


original_open, original_replace = Path.open, Path.replace

if __name__ == "__main__":
    points[0] = int(sys.argv.pop(1))
    Path.open, Path.replace = opened, replaced  # type: ignore[method-assign, assignment]
    from highwaynet.cli.main import main

    main()
