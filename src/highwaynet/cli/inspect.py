"""`highway inspect`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from highwaynet.analysis.questions import QUESTIONS, questions_of
from highwaynet.base.errors import InputError
from highwaynet.cli.asking import FORMAT, OUT, RUN, Findings, Told, names_in, need_figures, progress_bar
from highwaynet.cli.data import DATA_ROOT, use_data_root
from highwaynet.cli.output import CHECKPOINT
from highwaynet.data.names import Part
from highwaynet.runs.names import Kept

if TYPE_CHECKING:
    from highwaynet.analysis.collect import Study


def inspect_command(
    run: Annotated[Path, RUN],
    what: Annotated[
        str | None,
        typer.Option(
            help="Analyses, separated by commas: mistakes, gates, routing, flow, refinement. By default all that apply to the network.",
            metavar="NAMES",
        ),
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="routing: the classes to draw, by name or number, separated by commas.", metavar="NAMES")
    ] = None,
    sample: Annotated[int, typer.Option(help="gates: the training sample whose gates are shown one by one, from 0.", min=0)] = 0,
    split: Annotated[
        Part | None, typer.Option(help="mistakes: which part of the data; by default test. Others use the training data.")
    ] = None,
    checkpoint: Annotated[Kept | None, typer.Option(help=CHECKPOINT)] = None,
    out: Annotated[Path | None, OUT] = None,
    formats: Annotated[str, FORMAT] = "png",
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print findings and records as JSON.")] = False,
) -> None:
    """Look into a trained network: what it gets wrong, which gates open, how routes differ, where the signal dies, how layers refine.

    Records are stored in the run directory and reused.

    Example: highway inspect runs/fc-highway-50-mnist-seed0 --what gates,routing --classes 0,7
    """
    need_figures()
    wanted = names_in("--what", what, questions_of("inspect")) if what is not None else None
    use_data_root(data_root)
    answers = Findings(run, out, formats, checkpoint)
    study = answers.study
    chosen = _class_numbers(classes, study.classes)
    if sample >= study.count("train"):
        raise InputError(f"--sample {sample}: there are {study.count('train'):,} training samples, numbered from 0")
    asked = _fitting(study, wanted)
    for given, option, name in ((classes, "--classes", "routing"), (sample, "--sample", "gates"), (split, "--split", "mistakes")):
        if given and name not in asked:
            raise InputError(f"{option} {given}: this is for {name}, which is not in --what or does not apply to this network; omit it")
    for name in asked:
        with progress_bar(f"{name} of {run}", "samples") as progress:
            try:
                _ask(answers, name, sample, chosen, split, progress)
            except InputError:
                if name != "refinement" or wanted is not None:  # refinement needs two layers
                    raise
    answers.show(as_json=as_json)


def _ask(answers: Findings, name: str, sample: int, classes: list[int] | None, split: Part | None, progress: Told) -> None:
    question = QUESTIONS[name]
    options: dict[str, Any] = {"sample": sample} if "sample" in question.options else {}
    part = (split or answers.study.there(question.reported[0])) if question.by_part else "train"
    ending = f"-{part}" if question.by_part else ""
    answers.add(name, answers.study.ask(question, part, progress=progress, **options), ending, routing={"classes": classes})


def _fitting(study: "Study", wanted: list[str] | None) -> list[str]:
    """Return the questions to ask; raises InputError if one in `wanted` does not apply to the network."""
    all_of_them = questions_of("inspect")
    reasons = {name: reason for name in all_of_them if (reason := study.reason_against(name))}
    for name in wanted or ():
        if name in reasons:
            others = ", ".join(other for other in all_of_them if other not in reasons)
            raise InputError(f"--what {name}: this does not apply to {study.run.path}, because {reasons[name]}; choose from {others}")
    return [name for name in all_of_them if name not in reasons and (wanted is None or name in wanted)]


def _class_numbers(text: str | None, names: tuple[str, ...]) -> list[int] | None:
    if text is None:
        return None
    if not names:
        raise InputError(f"--classes {text}: this run is a regression, which has no classes; omit it")
    chosen = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        if part in names:
            chosen.append(names.index(part))
        elif part.isdecimal() and int(part) < len(names):
            chosen.append(int(part))
        else:
            shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
            raise InputError(f"--classes {part}: no such class; there are {len(names)}, numbered from 0: {shown}")
    if not chosen:
        raise InputError("--classes is empty: give names or numbers of classes, separated by commas")
    return list(dict.fromkeys(chosen))
