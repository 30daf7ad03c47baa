"""`highway shrink`."""

import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from highwaynet.base.specs import help_for, validated
from highwaynet.base.text import with_count
from highwaynet.cli.asking import need_figures, progress_bar
from highwaynet.cli.data import DATA_ROOT, JSON, use_data_root
from highwaynet.cli.output import console, print_json
from highwaynet.cli.threads import use_free_threads
from highwaynet.runs.directory import RunDirectory
from highwaynet.shrinking.shrink_record import ShrinkSettings

if TYPE_CHECKING:
    from highwaynet.shrinking.shrink import Shrinking


def _help(field: str) -> str:
    return help_for(ShrinkSettings, field)


def shrink_command(
    run: Annotated[Path, typer.Argument(help="The run directory of a trained network.")],
    loss_of: Annotated[float | None, typer.Option(metavar="POINTS", help=_help("loss_of"))] = None,
    keep: Annotated[int | None, typer.Option(metavar="N", help=_help("keep"))] = None,
    speed_up: Annotated[float | None, typer.Option(metavar="FACTOR", help=_help("speed_up"))] = None,
    criterion: Annotated[str | None, typer.Option(metavar="NAME", help=_help("criterion"))] = None,
    heal_epochs: Annotated[int | None, typer.Option(metavar="N", help=_help("heal_epochs"))] = None,
    replace: Annotated[bool | None, typer.Option("--replace/--drop", help=_help("replace"))] = None,
    distil: Annotated[bool | None, typer.Option("--distil/--no-distil", help=_help("distil"))] = None,
    from_scratch: Annotated[bool, typer.Option("--from-scratch", help=_help("from_scratch"))] = False,
    seeds: Annotated[int | None, typer.Option(metavar="N", help=_help("seeds"))] = None,
    samples: Annotated[int | None, typer.Option(metavar="N", help=_help("samples"))] = None,
    out: Annotated[Path | None, typer.Option(help="The folder for the result; by default RUN-small.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be done, and stop.")] = False,
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Find out how many layers a trained network needs, remove the others, and heal it.

    Leaves a run directory of the smaller network (FOLDER/network) and a page that shows why (FOLDER/shrink.html). Test samples are used
    once, at the end. If interrupted, the same command continues.

    Examples:
    highway shrink runs/deep;
    highway shrink runs/deep --keep 10 --from-scratch;
    highway shrink runs/deep --speed-up 2 --plan
    """
    need_figures()
    use_data_root(data_root)
    opened = RunDirectory.open(run)  # before torch is imported, so that a wrong path or option is reported at once
    asked = {"loss_of": loss_of, "keep": keep, "speed_up": speed_up, "criterion": criterion, "heal_epochs": heal_epochs, "distil": distil}
    asked |= {"replace": replace, "from_scratch": from_scratch, "seeds": seeds, "samples": samples}
    settings = validated(ShrinkSettings, {name: value for name, value in asked.items() if value is not None}, "--")
    from highwaynet.analysis.collect import Study
    from highwaynet.shrinking.shrink import Shrinking, shrink
    from highwaynet.training.interruption import InterruptedRunError, Interruption

    use_free_threads()
    study = Study(opened)
    job = Shrinking(study, settings, out or run.resolve().with_name(f"{run.resolve().name}-small"))
    job.check()
    if plan:
        for line in _plan(job):
            console.print(line, soft_wrap=True)
        return
    from highwaynet.cli.progress import TrainingProgress

    with Interruption() as stop, ExitStack() as bars:

        def show(title: str) -> Any:
            bars.close()
            return bars.enter_context(progress_bar(title, "done"))

        def watch(title: str, epochs: int) -> TrainingProgress:
            bars.close()
            return bars.enter_context(TrainingProgress(title, epochs))

        try:
            record = shrink(job, show, watch, stop)
        except InterruptedRunError as error:
            raise error.with_way("the same command") from error
    from highwaynet.cli.shrink_page import write_page

    page = write_page(job, record)
    if as_json:
        print_json(record.model_dump(mode="json") | {"network": str(job.out / "network"), "page": str(page)})
        return
    place = shlex.quote(str(job.out / "network"))
    console.print(f"{record.answer}\nnetwork: {place}\npage: {page}\nnext: highway evaluate {place}", soft_wrap=True)


SLOW = "greedy ranking of this many layers takes hours; --criterion lesion or influence is much faster"


def _plan(job: "Shrinking") -> list[str]:
    """Say what would be done."""
    from highwaynet.shrinking.curves import MOST_FOR_GREEDY

    settings, spec, layers = job.settings, job.study.spec, len(job.layers)
    if settings.loss_of is not None:
        aim = f"the fewest layers with at most {settings.loss_of:g} points less validation accuracy"
    elif settings.speed_up is not None:
        aim = f"as many layers as are possible at {settings.speed_up:g} times the speed"
    else:
        aim = f"{settings.keep} of them are kept"
    samples = min(settings.samples, job.study.count("train"))
    runs = max(1, (layers + 1).bit_length() if settings.loss_of is not None else 1) + settings.seeds - 1
    seconds = job.study.run.read_seconds() / max(1, job.study.run.epochs_written)
    total = runs * settings.heal_epochs * seconds
    lines = [
        f"{job.study.title} of {job.study.run.path}: {layers} layers can be removed",
        f"aim: {aim}",
        *([SLOW] if layers > MOST_FOR_GREEDY and settings.criterion == "greedy" else []),
        f"ranking: all criteria on {samples:,} training samples; layers are removed by {settings.criterion}",
        f"removed layers are {'replaced by affine maps' if settings.replace else 'dropped'}",
        f"healing: about {with_count(runs, 'run')} of {with_count(settings.heal_epochs, 'epoch')}",
    ]
    if settings.from_scratch:
        epochs = job.scratch_spec((), spec.seed).training.epochs
        lines.append(f"from scratch: {with_count(settings.seeds, 'run')} of {with_count(epochs, 'epoch')}")
        total += settings.seeds * epochs * seconds
    time = f"{max(1, round(total))} s" if total < 120 else f"{round(total / 60)} minutes"
    return [*lines, f"training: {time} at most, at the speed of the run; ranking comes in addition", f"result: {job.out}"]
