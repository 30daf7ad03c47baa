"""What overwriting does with an earlier run: it stays next to the new one, as NAME.before, until the new one has finished."""

import os
from collections.abc import Iterator
from pathlib import Path

from highwaynet.base.files import write_atomically

MARK = "replaced.txt"
"""A file in a run that was set aside. It names the run that takes its place; without it, a folder is never removed."""


def set_aside(path: Path) -> Path:
    """Rename a run directory, so that a new run can take its place; returns where it is now."""
    aside = next(candidate for candidate in _candidates(path) if not os.path.lexists(candidate))
    write_atomically(path / MARK, f"{path.resolve().name}\nis trained again here. When that has finished, this earlier run is removed.\n")
    path.rename(aside)
    return aside


def earlier_runs(path: Path) -> list[Path]:
    """Return the run directories that were set aside for a run and are still there."""
    found = []
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
        return mark.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, ValueError):
        return None
