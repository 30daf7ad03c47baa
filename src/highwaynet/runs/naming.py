"""Where a run goes if nothing is said. Free of torch."""

import re
from itertools import chain, count
from pathlib import Path

from highwaynet.runs.spec import RunSpec


def default_path(spec: RunSpec, *, existing: bool = False, ending: str | None = None) -> Path:
    """A folder of its own below runs/ for each run; with `existing` the last one of this name, if there is any.

    Args:
        spec: What is run.
        existing: Whether a run is to be resumed.
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
