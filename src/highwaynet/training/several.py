"""Training with several seeds."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.data.record import DataRecord
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.seeds import SeedScore, SeedsRecord
from highwaynet.runs.spec import SPEC, RunSpec
from highwaynet.runs.stages import check_place, hints_path
from highwaynet.training.distribution import ALONE, World
from highwaynet.training.evaluation import evaluate_run
from highwaynet.training.interruption import Interruption
from highwaynet.training.loop import train
from highwaynet.training.objective import Objective
from highwaynet.training.setup import check_relatives
from highwaynet.training.watcher import Watcher, Watchers


class _MakingWay(Watcher):
    """Sets earlier runs of later seeds aside when training starts: if it is interrupted, they must not pass for new ones."""

    def __init__(self, later: list[Path]) -> None:
        self._later = later

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Rename the runs; only the first call does something."""
        while self._later:
            RunDirectory(self._later.pop()).make_way()


def _check(spec: RunSpec, places: list[Path], *, hinted: bool, overwrite: bool, resume: bool) -> bytes:
    """Raise InputError if one of the runs could not be written, before the first one is trained."""
    for path in places:
        if not (resume and (path / SPEC).is_file()):
            check_relatives(spec, path)
            RunDirectory.check_startable(path, overwrite=overwrite, resume=resume)
            if hinted:
                check_place(hints_path(path))
    return b""


def train_seeds(
    spec: RunSpec,
    path: str | PathLike[str],
    seeds: int = 5,
    *,
    data: Any = None,
    objective: Objective | None = None,
    overwrite: bool = False,
    resume: bool = False,
    watcher: Watcher | None = None,
    watch: Callable[[int], AbstractContextManager[Watcher]] | None = None,
    interruption: Interruption | None = None,
    world: World = ALONE,
) -> SeedsRecord:
    """Train the same network with several seeds, each in its own folder below `path`, and score each on the test samples.

    Args:
        spec: What to run; its seed is the first one.
        path: The folder for the runs, and for the record of their scores (seeds.json).
        seeds: Number of seeds.
        data: The data, if they are in memory; as for `train`.
        objective: What to minimise, as for `train`; each run gets a copy.
        overwrite: Replace earlier runs there.
        resume: Continue the runs there.
        watcher: Its methods are called for every step and epoch of all runs.
        watch: Alternative to `watcher`: given a seed, returns a context manager that yields the watcher of its run.
        interruption: Checked after every step; a request stops the run.
        world: The processes that train together.

    Raises:
        InputError: If the path is itself a run, `seeds` is below 1, or `train` raises it.
    """
    folder, stop = Path(path), interruption or Interruption()
    if not isinstance(seeds, int) or seeds < 1:
        raise InputError(f"seeds = {seeds!r}: choose a whole number of at least 1")
    if spec.is_first_stage:
        raise InputError("teacher.stage = 'hints': first stages have no score; train them one by one, or omit it to train both stages")
    if (folder / SPEC).exists():
        raise InputError(f"{folder} is a run: name another folder for several seeds with --out")
    scores: list[SeedScore] = []
    places = {seed: folder / f"seed{seed}" for seed in range(spec.seed, spec.seed + seeds)}
    hinted = spec.teacher is not None and spec.teacher.in_two_stages
    new = [path for path in places.values() if world.recall(str(path)) is None]  # the others began before torchrun restarted the processes
    world.lead(lambda: _check(spec, new, hinted=hinted, overwrite=overwrite, resume=resume))
    later = [path for path in new if path != places[spec.seed]] if overwrite else []
    making_way = _MakingWay([*later, *map(hints_path, later)] if hinted else later)
    for seed, own in places.items():
        with watch(seed) if watch else nullcontext(watcher) as told:
            run = train(
                spec.model_copy(update={"seed": seed}),
                own,
                data=data,
                objective=copy.deepcopy(objective),
                overwrite=overwrite,
                resume=resume,
                watcher=Watchers([making_way, *([told] if told else [])]),
                interruption=stop,
                world=world,
            )
        if seed < spec.seed + seeds - 1:
            stop.check(f"interrupted after seed {seed}", world)
        if world.leads:
            scores.append(SeedScore(seed=seed, run=own.name, score=evaluate_run(run, "test", data=data)))
    record = SeedsRecord(part="test", runs=tuple(scores))
    if world.leads:
        record.save(folder)
    return record
