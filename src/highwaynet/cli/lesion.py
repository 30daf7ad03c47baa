"""`highway lesion`."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from highwaynet.analysis.questions import QUESTIONS, questions_of
from highwaynet.base.errors import InputError
from highwaynet.cli.asking import FORMAT, OUT, RUN, Findings, names_in, need_figures, numbers_in, progress_bar
from highwaynet.cli.data import DATA_ROOT, use_data_root
from highwaynet.cli.output import CHECKPOINT, print_json, print_table
from highwaynet.data.names import Part
from highwaynet.runs.names import Kept


def lesion_command(
    run: Annotated[Path, RUN],
    split: Annotated[Part, typer.Option(help="Which part of the data.")] = "train",
    what: Annotated[
        str | None,
        typer.Option(
            help="Studies, separated by commas: lesions (single layers, the default), pairs (and spans), deletions (and shuffles), "
            "depth (removed one by one, the cheapest first).",
            metavar="NAMES",
        ),
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Instead, close these layers together and evaluate, for instance 3,5-9.", metavar="NUMBERS")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            help="Number of samples, evenly spaced; by default all for lesions, 1000 for pairs and deletions, 4000 for depth.", min=1
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="deletions: seed of the random draws.", min=0)] = 0,
    checkpoint: Annotated[Kept | None, typer.Option(help=CHECKPOINT)] = None,
    out: Annotated[Path | None, OUT] = None,
    formats: Annotated[str, FORMAT] = "png",
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print findings and records as JSON.")] = False,
) -> None:
    """Close layers, so that they copy their input, and measure how loss and accuracy change.

    Example: highway lesion runs/fc-highway-50-mnist-seed0 --split test
    """
    if layers is None:
        need_figures()
    if what is not None and layers is not None:
        raise InputError(f"--what {what} and --layers {layers}: choose a study, or layers to close together")
    names = re.sub(r"\blayers\b", "lesions", what or "lesions")  # the name in earlier versions
    wanted = names_in("--what", names, questions_of("lesion"))
    use_data_root(data_root)
    answers = Findings(run, out, formats, checkpoint)
    study = answers.study
    if reason := study.reason_against("lesions"):
        raise InputError(f"{run}: lesions do not apply to this network: {reason}")
    if layers is not None:
        _close_together(
            answers, numbers_in("--layers", layers, study.closable, "layers that can be closed"), split, samples, as_json=as_json
        )
        return
    for name in wanted:
        with progress_bar(f"{name} of {run}", "evaluations") as progress:
            question = QUESTIONS[name]
            options: dict[str, Any] = {"seed": seed} if "seed" in question.options else {}
            answers.add(name, study.ask(question, split, samples, progress, **options), f"-{split}")
    answers.show(as_json=as_json)


def _close_together(answers: Findings, layers: list[int], split: Part, samples: int | None, *, as_json: bool) -> None:
    """Evaluate the network intact, and with these layers closed."""
    from highwaynet.layers.lesion import lesion
    from highwaynet.training.evaluation import evaluate

    study = answers.study
    data = study.data.part(split)
    data = data if samples is None else data.spread(samples)
    intact = evaluate(study.network, data)
    with lesion(study.network, layers):
        closed = evaluate(study.network, data)
    if as_json:
        scores = {"intact": intact.model_dump(exclude_none=True), "closed": closed.model_dump(exclude_none=True)}
        print_json({"run": str(answers.run), "split": split, "layers": layers, **scores})
        return
    print_table(
        [("", "left"), ("loss and result", "left")],
        [["intact", str(intact)], [f"without {', '.join(map(str, layers))}", str(closed)]],
    )
