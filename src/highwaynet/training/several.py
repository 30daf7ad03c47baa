"""Training with several seeds."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.runs.seeds import SeedScore, SeedsRecord
from highwaynet.runs.spec import SPEC, RunSpec
from highwaynet.training.distribution import ALONE, World
from highwaynet.training.evaluation import evaluate_run
from highwaynet.training.interruption import Interruption
from highwaynet.training.loop import train
from highwaynet.training.objective import Objective
from highwaynet.training.watcher import Watcher


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
    for seed in range(spec.seed, spec.seed + seeds):
        own = folder / f"seed{seed}"
        with watch(seed) if watch else nullcontext(watcher) as told:
            run = train(
                spec.model_copy(update={"seed": seed}),
                own,
                data=data,
                objective=copy.deepcopy(objective),
                overwrite=overwrite,
                resume=resume,
                watcher=told,
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
