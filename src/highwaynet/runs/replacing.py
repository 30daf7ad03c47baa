"""What overwriting does with an earlier run: it stays next to the new one, as NAME.before, until the new one has finished."""

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from highwaynet.base.errors import InputError
from highwaynet.base.files import is_leftover, read_text, write_atomically

MARK = "replaced.txt"
"""A file in a run that was set aside. It names the run that takes its place; without it, a folder is never removed."""


def set_aside(path: Path) -> Path:
    """Rename a run directory, so that a new run can take its place; returns where it is now."""
    aside = next(candidate for candidate in _candidates(path) if not os.path.lexists(candidate))
    write_atomically(path / MARK, f"{path.resolve().name}\nis trained again here. When that has finished, this earlier run is removed.\n")
    path.rename(aside)
    return aside


def take_back(aside: Path, path: Path, own: Collection[str]) -> None:
    """Move files of the user, which are not part of the run that was set aside, to the folder that they were in."""
    for other in aside.iterdir():
        if other.name not in own and not is_leftover(other):
            with suppress(OSError):
                other.rename(path / other.name)


def clear_aside(aside: Path, path: Path) -> None:
    """Remove the folder of a run that was set aside, after its files; what the user had put there is moved to the new run."""
    (aside / MARK).unlink(missing_ok=True)
    for other in [other for other in aside.rglob("*") if other.is_file()]:
        place = path / other.relative_to(aside)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            other.rename(place)
    for folder in [*(folder for folder in aside.iterdir() if folder.is_dir()), aside]:
        folder.rmdir()


def earlier_runs(path: Path) -> list[Path]:
    """Return the run directories that were set aside for a run and are still there."""
    found: list[Path] = []
    for candidate in _candidates(path):
        if not candidate.is_dir():
            return found
        if not candidate.is_symlink() and _name_in(candidate / MARK) == path.resolve().name:
            found.append(candidate)
    return found


def _candidates(path: Path) -> Iterator[Path]:
    place = path.resolve()
    yield place.with_name(f"{place.name}.before")
    for number in range(2, 1000):
        yield place.with_name(f"{place.name}.before-{number}")


def _name_in(mark: Path) -> str | None:
    try:
        return read_text(mark).partition("\n")[0]
    except InputError:
        return None
