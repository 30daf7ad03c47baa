"""`highway lesion`."""

from pathlib import Path
from typing import Annotated

import typer

from highwaynet.base.errors import InputError
from highwaynet.cli.data import DATA_ROOT, use_data_root
from highwaynet.cli.inside import FORMAT, OUT, RUN, Answers, Kept, Told, names_in, need_figures, numbers_in, progress_bar
from highwaynet.cli.output import CHECKPOINT, print_json, print_table
from highwaynet.data.names import Part

STUDIES = ("layers", "pairs", "deletions")


def lesion_command(
    run: Annotated[Path, RUN],
    split: Annotated[Part, typer.Option(help="Which part of the data.")] = "train",
    what: Annotated[
        str | None,
        typer.Option(help="With commas: layers (each alone, the default), pairs (and spans), deletions (and shuffles).", metavar="NAMES"),
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Instead: close these layers together and evaluate, for instance 3,5-9.", metavar="NUMBERS")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="So many samples, evenly spread; by default all for layers, 1000 for pairs and deletions.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="deletions: seed of the random draws.", min=0)] = 0,
    checkpoint: Annotated[Kept | None, typer.Option(help=CHECKPOINT)] = None,
    out: Annotated[Path | None, OUT] = None,
    formats: Annotated[str, FORMAT] = "png",
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print findings and records as JSON.")] = False,
) -> None:
    """Close layers, so that they copy their input, and see what the network loses.

    Example: highway lesion runs/fc-highway-50-mnist-seed0 --split test
    """
    if layers is None:
        need_figures()
    if what is not None and layers is not None:
        raise InputError(f"--what {what} and --layers {layers}: choose a study, or layers to close together")
    wanted = names_in("--what", "layers" if what is None else what, STUDIES)
    use_data_root(data_root)
    answers = Answers(run, out, formats, checkpoint)
    study = answers.study
    if reason := study.reason_against("lesions"):
        raise InputError(f"{run}: this network cannot be asked that: {reason}")
    if layers is not None:
        _close_together(
            answers, numbers_in("--layers", layers, study.closable, "layers that can be closed"), split, samples, as_json=as_json
        )
        return
    for name in STUDIES:
        if name in wanted:
            with progress_bar(f"{name} of {run}", "evaluations") as progress:
                _close(answers, name, split, samples, seed, progress)
    answers.show(as_json=as_json)


def _close(answers: Answers, name: str, split: Part, samples: int | None, seed: int, progress: Told) -> None:
    from highwaynet.analysis.collect import MANY

    study, ending = answers.study, f"-{split}"
    match name:
        case "layers":
            answers.add(name, study.lesions(split, samples, progress), ending)
        case "pairs":
            answers.add(name, study.pairs(split, samples or MANY, progress), ending)
        case _:
            answers.add(name, study.deletions(split, samples or MANY, seed, progress), ending)


def _close_together(answers: Answers, layers: list[int], split: Part, samples: int | None, *, as_json: bool) -> None:
    """Evaluate with these layers closed, and intact."""
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
