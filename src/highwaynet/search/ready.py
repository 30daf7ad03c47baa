"""Studies that come with the package. Does not import torch."""

from importlib.resources import files
from pathlib import Path

from highwaynet.base.errors import unknown
from highwaynet.search.spec import StudySpec, parse_study

_FOLDER = files("highwaynet.search") / "studies"


def ready_names() -> list[str]:
    """Return the names of the studies that come with the package."""
    return sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name.endswith(".toml"))


def ready_study(name: str) -> StudySpec:
    """Read a study that comes with the package; raises InputError if there is none with this name."""
    if name not in ready_names():
        raise unknown("ready study", name, ready_names())
    return parse_study((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"), Path(f"{name}.toml"))
