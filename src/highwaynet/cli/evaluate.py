"""`highway evaluate`."""

from pathlib import Path
from typing import Annotated

import typer

from highwaynet.base.text import loss_text, percent
from highwaynet.cli.output import console, print_json
from highwaynet.data.catalogue import Part


def evaluate_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    split: Annotated[Part, typer.Option(help="Which part of the data.")] = "test",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Loss and accuracy of a trained network.

    Example: highway evaluate runs/fc-highway-50-digits-seed0 --split test
    """
    from highwaynet.data.load import load_dataset
    from highwaynet.runs.directory import RunDirectory
    from highwaynet.runs.load import load_network
    from highwaynet.training.evaluation import evaluate

    directory = RunDirectory.open(run)
    network = load_network(directory)
    score = evaluate(network, load_dataset(directory.read_spec().data).part(split))
    if as_json:
        print_json({"run": str(run), "split": split, **score.model_dump()})
    else:
        console.print(f"{split}: loss {loss_text(score.loss)}, accuracy {percent(score.accuracy)} ({score.samples:,} samples)")
