"""`highway evaluate`."""

from pathlib import Path
from typing import Annotated

import typer

from highwaynet.cli.data import DATA_ROOT, use_data_root
from highwaynet.cli.output import CHECKPOINT, console, print_json
from highwaynet.data.names import Part
from highwaynet.runs.names import Kept


def evaluate_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    split: Annotated[Part, typer.Option(help="Which part of the data.")] = "test",
    checkpoint: Annotated[Kept | None, typer.Option(help=CHECKPOINT)] = None,
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compute loss and accuracy, or RMSE and R², of a trained network.

    Example: highway evaluate runs/fc-highway-50-digits-seed0 --split test
    """
    from highwaynet.runs.directory import RunDirectory

    use_data_root(data_root)
    opened = RunDirectory.open(run)  # before torch is imported, so that a wrong path is reported at once
    from highwaynet.training.evaluation import evaluate_run

    score = evaluate_run(opened, split, checkpoint)
    if as_json:
        print_json({"run": str(run), "checkpoint": checkpoint or opened.answer, "split": split, **score.model_dump(exclude_none=True)})
    else:
        console.print(f"{split}: {score} ({score.samples:,} samples)")
