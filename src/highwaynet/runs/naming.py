"""The default folder of a run. Does not import torch."""

import re
from itertools import chain, count
from pathlib import Path

from highwaynet.runs.spec import RunSpec


def default_path(spec: RunSpec, *, existing: bool = False, ending: str | None = None) -> Path:
    """Return a new folder below runs/; with `existing`, the last existing one of this name, if there is any.

    Args:
        spec: The settings of the run, from which the name follows.
        existing: Whether a run is resumed.
        ending: The end of the name; by default the seed.
    """
    data = spec.data.name if spec.data.built_in else Path(spec.data.name).stem
    depth = "" if spec.network.preset.traits.has_variants else f"-{spec.network.depth}"
    network = re.sub(r"[ (),]+", "-", spec.network.label).strip("-")
    parent = f"-from-{Path(spec.start.run).name}" if spec.start and spec.start.run else ""
    name = f"{network}{depth}-{data}{parent}-{ending or f'seed{spec.seed}'}"
    last: Path | None = None
    for suffix in chain([""], (f"-{number}" for number in count(2))):
        path = Path("runs") / f"{name}{suffix}"
        if not path.exists():
            return last if existing and last else path
        last = path
    raise AssertionError("there is always another number")
