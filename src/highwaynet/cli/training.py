"""What `highway train` does once its spec is known: one run, or one for each of several seeds."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from highwaynet.cli.output import console
from highwaynet.runs.spec import RunSpec

if TYPE_CHECKING:
    from highwaynet.training.distribution import World


@dataclass(frozen=True)
class Way:
    """How a run begins, and in which company."""

    overwrite: bool
    resume: bool
    world: "World"


def train_one(spec: RunSpec, path: Path, way: Way, title: str = "") -> dict[str, Any]:
    """Train one network; the answer names its run and its last epoch."""
    from highwaynet.cli.progress import TrainingProgress
    from highwaynet.training.interruption import Interruption
    from highwaynet.training.loop import train

    with (
        TrainingProgress(f"{title}{spec.network.label}, {spec.network.depth} layers", spec.training.epochs) as progress,
        Interruption() as stop,
    ):
        run = train(spec, path, overwrite=way.overwrite, resume=way.resume, watcher=progress, interruption=stop, world=way.world)
    if not way.world.leads:
        return {}
    return {"run": str(path), "last_epoch": run.read_history()[-1].model_dump(exclude_none=True)}


def train_seeds(spec: RunSpec, folder: Path, count: int, way: Way) -> dict[str, Any]:
    """Train one network for each seed, from the spec's own on, in folders of their own; the answer has their scores on the test part."""
    from highwaynet.data.load import load_dataset
    from highwaynet.runs.model import load
    from highwaynet.runs.seeds import SeedScore, SeedsRecord
    from highwaynet.training.evaluation import evaluate

    scores: list[SeedScore] = []
    for number, seed in enumerate(range(spec.seed, spec.seed + count), start=1):
        path = folder / f"seed{seed}"
        train_one(spec.model_copy(update={"seed": seed}), path, way, title=f"seed {seed} ({number} of {count}): ")
        if way.world.leads:
            model = load(path)
            score = evaluate(model.network, load_dataset(spec.data, model.preparation).test)
            scores.append(SeedScore(seed=seed, run=path.name, score=score))
    if not way.world.leads:
        return {}
    record = SeedsRecord(part="test", runs=tuple(scores))
    record.save(folder)
    return {"run": str(folder), "summary": record.summary, **record.model_dump(exclude_none=True)}


def print_answer(answer: dict[str, Any]) -> None:
    """The answer for people, and what they may want to do next."""
    place = shlex.quote(answer["run"])
    if "summary" in answer:
        console.print(f"{answer['summary']}\nruns: {place}\nnext: highway runs {place}\n      highway report {place}/*", soft_wrap=True)
        return
    from highwaynet.runs.records import EpochRecord

    last = EpochRecord.model_validate(answer["last_epoch"])
    checked = f"; validation {last.validation}" if last.validation else ""
    console.print(f"last epoch: training {last.train}{checked}", soft_wrap=True)
    console.print(
        f"run: {place}\nnext: highway evaluate {place}\n      highway predict {place} FILE...\n      highway report {place}", soft_wrap=True
    )
