"""`highway runs`."""

from pathlib import Path
from typing import Annotated

import typer

from highwaynet.base.text import loss_text
from highwaynet.cli.output import console, print_json, print_table

NUMBERS: tuple[str, ...] = ("epoch", "loss", "val. loss", "accuracy", "time")
"""Columns on a wide screen."""


def runs_command(
    folder: Annotated[Path, typer.Argument(help="The folder to search, including its subfolders.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """List runs with their state, progress, loss and accuracy.

    States: running; finished; interrupted by Ctrl-C or SIGTERM; stopped by anything else, such as a kill or a full disk; diverged, if the
    loss was no longer finite. The accuracy is that of the validation data if there are any.

    Example: highway runs runs/
    """
    from highwaynet.runs.listing import RunSummary, find_runs

    wide = console.width >= 140
    headings = NUMBERS if console.width >= 100 else ("epoch", "loss", "accuracy", "time") if console.width >= 80 else ("epoch", "accuracy")

    def row(run: RunSummary) -> list[str]:
        last = run.last
        losses = [loss_text(last.train_loss) if last else "", loss_text(last.validation.loss) if last and last.validation else ""]
        metrics = (last.validation.headline if last.validation else f"{last.train.headline} (train)") if last else ""
        minutes, seconds = divmod(round(run.seconds), 60)
        epoch = f"{last.epoch if last else 0}/{run.epochs}"
        name = str(Path(run.run).relative_to(folder)) if Path(run.run) != folder else run.run
        values = dict(zip(NUMBERS, [epoch, *losses, metrics, f"{minutes}:{seconds:02}"], strict=True))
        return [name, run.state, *([run.network, run.data] if wide else []), *(values[heading] for heading in headings)]

    found = find_runs(folder)
    if as_json:
        print_json([run.model_dump(exclude_none=True) for run in found])
        return
    if not found:
        console.print(f"no runs in {folder}; start one with highway train", soft_wrap=True)
        return
    named = [("network", "whole"), ("data", "left")] if wide else []
    columns = [("run", "left"), ("state", "whole"), *named, *((heading, "right") for heading in headings)]
    print_table(columns, [row(run) for run in found])
    for run in found:
        if run.problem:
            console.print(f"damaged: {run.problem}", soft_wrap=True)
    if any(run.state in {"interrupted", "stopped"} for run in found):
        console.print("to resume a run that did not finish: highway train RUN --resume")
