"""The work of `highway train`: one run, or one for each of several seeds."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from highwaynet.base.errors import InputError
from highwaynet.cli.output import console, note
from highwaynet.runs.naming import default_path
from highwaynet.runs.spec import SPEC, RunSpec

if TYPE_CHECKING:
    from highwaynet.runs.directory import RunDirectory
    from highwaynet.training.distribution import World
    from highwaynet.training.interruption import Interruption


@dataclass(frozen=True)
class Way:
    """How a run starts, and which processes take part."""

    overwrite: bool
    resume: bool
    world: "World"
    notes: Sequence[str] = ()
    """Sentences about what was chosen for the user."""
    verdicts: list[str] = field(default_factory=list)
    """Gets sentences about the trained networks, which are the last lines of the output."""

    @property
    def to_resume(self) -> str:
        """How to change the command to continue."""
        return "--resume in place of --overwrite" if self.overwrite else "--resume"


def choose_path(world: "World", spec: RunSpec, *, resume: bool, ending: str | None) -> str:
    """Choose the run directory if the user does not name one; processes restarted by torchrun use that of the first ones."""
    path = world.recall("path") or str(default_path(spec, existing=resume, ending=ending))
    if resume and not Path(path).exists():
        raise InputError(f"--resume: there is no run at {path}; name the run, as in highway train RUN --resume")
    world.remember("path", path)
    return path


def with_found_depth(spec: RunSpec, resumed: Path | None, world: "World") -> RunSpec:
    """Return the spec with the depth that short trainings find, or with that of the run that is resumed; the same in all processes."""
    from highwaynet.runs.directory import RunDirectory
    from highwaynet.training.depth_search import find_depth, with_depth
    from highwaynet.training.interruption import InterruptedRunError, Interruption

    def find() -> bytes:
        if resumed is not None and (resumed / SPEC).is_file():
            return str(RunDirectory.open(resumed).read_spec().network.depth).encode()
        with Interruption() as stop:
            try:
                return str(find_depth(spec, tell=note, interruption=stop).network.depth).encode()
            except InterruptedRunError as error:
                raise error.with_way("the same command") from error

    return with_depth(spec, int(world.lead(find).decode()))


def train_one(spec: RunSpec, path: Path, way: Way) -> dict[str, Any]:
    """Train one network; return its run and its last epoch."""
    from highwaynet.training.interruption import InterruptedRunError, Interruption

    with Interruption() as stop:
        try:
            run = _train(spec, path, way, stop)
        except InterruptedRunError as error:
            command = "highway" if way.world.size == 1 else f"torchrun --nproc-per-node {way.world.size} -m highwaynet"
            place = shlex.quote(str(path))
            if spec.teacher is not None and spec.teacher.in_two_stages and not (path / SPEC).is_file():  # in the first stage
                raise error.with_way(f"the same command with --out {place} {way.to_resume}") from error
            raise error.with_way(f"{command} train {place} --resume") from error
    if not way.world.leads:
        return {}
    history = run.read_history()
    answer: dict[str, Any] = {"run": str(path)}
    answer |= {"last_epoch": history[-1].model_dump(exclude_none=True)} if history else {}
    best = run.checkpoints.record(run.resolve("best")).epoch if history and run.answer == "best" else len(history)
    return answer | ({"best_epoch": history[best - 1].model_dump(exclude_none=True)} if best < len(history) else {})


def _title(spec: RunSpec) -> str:
    title, start = f"{spec.network.label}, {spec.network.depth} layers", spec.start
    if start is None:
        return title
    fewer = f", {len(start.without)} removed" if start.without else ""
    return f"{title}{fewer}, from {Path(start.run).name}" if start.run else f"{title}, from a network in memory"


def _train(spec: RunSpec, path: Path, way: Way, stop: "Interruption") -> "RunDirectory":
    from highwaynet.cli.progress import TrainingProgress
    from highwaynet.training.loop import train

    with TrainingProgress(_title(spec), spec.training.epochs, way.notes, way.verdicts) as progress:
        return train(spec, path, overwrite=way.overwrite, resume=way.resume, watcher=progress, interruption=stop, world=way.world)


def train_several(spec: RunSpec, folder: Path, count: int, way: Way) -> dict[str, Any]:
    """Train one network for each seed, starting with that of the spec, each in its own folder; return their test scores."""
    from highwaynet.cli.progress import TrainingProgress
    from highwaynet.training.interruption import InterruptedRunError, Interruption
    from highwaynet.training.several import train_seeds

    verdicts: dict[int, list[str]] = {}

    def watch(seed: int) -> TrainingProgress:
        title = f"seed {seed} ({seed - spec.seed + 1} of {count}): {_title(spec)}"
        return TrainingProgress(title, spec.training.epochs, way.notes if seed == spec.seed else (), verdicts.setdefault(seed, []))

    with Interruption() as stop:
        try:
            record = train_seeds(
                spec, folder, count, overwrite=way.overwrite, resume=way.resume, watch=watch, interruption=stop, world=way.world
            )
        except InterruptedRunError as error:
            raise error.with_way(f"the same command with {way.to_resume}") from error
    if not way.world.leads:
        return {}
    way.verdicts.extend(f"seed {seed}: {sentence}" for seed, told in verdicts.items() for sentence in told)
    return {"run": str(folder), "summary": record.summary, **record.model_dump(exclude_none=True)}


def print_answer(answer: dict[str, Any]) -> None:
    """Print the result, and commands for the next steps."""
    place = shlex.quote(answer["run"])
    if "summary" in answer:
        console.print(f"{answer['summary']}\nruns: {place}\nnext: highway runs {place}\n      highway report {place}/seed*", soft_wrap=True)
        return
    from highwaynet.runs.run_records import EpochRecord

    if "last_epoch" in answer:
        last = EpochRecord.model_validate(answer["last_epoch"])
        checked = f"; validation {last.validation}" if last.validation else ""
        console.print(f"last epoch: training {last.train}{checked}", soft_wrap=True)
    if "best_epoch" in answer:
        best = EpochRecord.model_validate(answer["best_epoch"])
        console.print(f"best epoch: {best.epoch}, validation {best.validation}; other commands use its weights", soft_wrap=True)
    steps = _after_first_stage(Path(answer["run"])) or [
        f"highway evaluate {place}",
        f"highway predict {place} FILE...",
        f"highway report {place}",
    ]
    following = "\n      ".join(steps)
    console.print(f"run: {place}\nnext: {following}", soft_wrap=True)


def _after_first_stage(run: Path) -> list[str]:
    """Return the next steps after a first stage with hints; empty after other runs."""
    from highwaynet.runs.directory import RunDirectory
    from highwaynet.runs.stages import second_path

    try:
        spec = RunDirectory.open(run).read_spec()
    except InputError:  # somebody has renamed it meanwhile
        return []
    teacher = spec.teacher
    if teacher is None or not spec.is_first_stage:
        return []
    place, second = shlex.quote(str(run)), second_path(run)
    which = f" --set teacher.checkpoint={teacher.checkpoint}" if teacher.checkpoint else ""
    wise = shlex.quote(teacher.run) + which
    steps = [f"highway train --start {place} --teacher {wise} --out RUN  (the second stage, with its usual settings)"]
    if second is not None and not (second / SPEC).is_file():
        steps.insert(0, f"the command that began both stages, with --out {shlex.quote(str(second))} --resume")
    return steps
