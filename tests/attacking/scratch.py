"""A folder of undamaged files that is restored after each attack. It stays where it is, because runs store the path of their data."""

import os
import shutil
from pathlib import Path

State = tuple[int, int, int]


class Scratch:
    """A folder whose files are known.

    Args:
        folder: The folder, with everything that belongs there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.contents = {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        self._folders = {path.relative_to(folder) for path in folder.rglob("*") if path.is_dir()}
        self._states = {name: _state(folder / name) for name in self.contents}

    def write(self, name: Path, content: bytes) -> None:
        """Damage a file."""
        (self.folder / name).write_bytes(content)

    def remove(self, name: Path) -> None:
        (self.folder / name).unlink()

    def restore(self) -> None:
        """Make everything as it was."""
        for path in sorted(self.folder.rglob("*"), reverse=True):  # what is inside a folder comes first
            name = path.relative_to(self.folder)
            if name not in self.contents and name not in self._folders:
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            elif name in self.contents and (path.is_symlink() or not path.is_file()):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for name in sorted(self._folders):
            (self.folder / name).mkdir(exist_ok=True)
        for name, content in self.contents.items():
            path = self.folder / name
            if not path.exists() or _state(path) != self._states[name]:
                path.unlink(missing_ok=True)
                path.write_bytes(content)
                self._states[name] = _state(path)


def _state(path: Path) -> State:
    found = os.stat(path)  # noqa: PTH116 (called thousands of times)
    return found.st_ino, found.st_size, found.st_mtime_ns
