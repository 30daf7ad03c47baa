"""Training with several seeds."""

import copy
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.runs.seeds import SeedScore, SeedsRecord
from highwaynet.runs.spec import SPEC, RunSpec
from highwaynet.runs.stages import check_place, hints_path
from highwaynet.training.distribution import ALONE, World
from highwaynet.training.evaluation import evaluate_run
from highwaynet.training.interruption import Interruption
from highwaynet.training.loop import folder_of, train_given
from highwaynet.training.objective import Objective
from highwaynet.training.setup import Given, check_relatives, check_startable
from highwaynet.training.watcher import Watcher


def _check(spec: RunSpec, places: Iterable[Path], world: World, *, hinted: bool, overwrite: bool, resume: bool) -> bytes:
    """Raise InputError if one of the runs could not be written, before the first one is trained."""
    for own in places:
        if resume and (own / SPEC).is_file():
            continue
        for path in _folders(own, hinted=hinted):
            if world.recall(str(path)) is not None:  # it has begun, before torchrun restarted the processes
                continue
            if path != own:
                check_place(path)
            if not (resume and (path / SPEC).is_file()):
                check_relatives(spec, path)
                check_startable(path, overwrite=overwrite, resume=resume)
    return b""


def _folders(own: Path, *, hinted: bool) -> list[Path]:
    """The folders of a run and, with hints, of its first stage."""
    return [hints_path(own), own] if hinted else [own]


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
        overwrite: Replace earlier runs there. They are renamed when the first new one has been started, and removed one by one.
        resume: Continue the runs there.
        watcher: Its methods are called for every step and epoch of all runs.
        watch: Alternative to `watcher`: given a seed, returns a context manager that yields the watcher of its run.
        interruption: Checked after every step; a request stops the run.
        world: The processes that train together.

    Raises:
        InputError: If the path is itself a run, `seeds` is below 1, or `train` raises it.
    """
    folder, stop = folder_of(path), interruption or Interruption()
    if not isinstance(seeds, int) or seeds < 1:
        raise InputError(f"seeds = {seeds!r}: choose a whole number of at least 1")
    if spec.is_first_stage:
        raise InputError("teacher.stage = 'hints': first stages have no score; train them one by one, or omit it to train both stages")
    if (folder / SPEC).exists():
        raise InputError(f"{folder} is a run: name another folder for several seeds with --out")
    scores: list[SeedScore] = []
    places = {seed: folder / f"seed{seed}" for seed in range(spec.seed, spec.seed + seeds)}
    hinted = spec.teacher is not None and spec.teacher.in_two_stages
    world.lead(lambda: _check(spec, places.values(), world, hinted=hinted, overwrite=overwrite, resume=resume))
    for seed, own in places.items():
        with watch(seed) if watch else nullcontext(watcher) as told:
            run = train_given(
                spec.model_copy(update={"seed": seed}),
                own,
                Given(data, objective=copy.deepcopy(objective)),
                overwrite=overwrite,
                resume=resume,
                watcher=told,
                interruption=stop,
                world=world,
                later=[path for other, place in places.items() if other > seed for path in _folders(place, hinted=hinted)],
            )
        if seed < spec.seed + seeds - 1:
            stop.check(f"interrupted after seed {seed}", world)
        if world.leads:
            scores.append(SeedScore(seed=seed, run=own.name, score=evaluate_run(run, "test", data=data)))
    record = SeedsRecord(part="test", runs=tuple(scores))
    if world.leads:
        record.save(folder)
    return record
