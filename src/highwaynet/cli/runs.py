"""`highway runs`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwaynet.base.text import loss_text, percent
from highwaynet.cli.output import console, print_json, print_table
from highwaynet.runs.run_records import Metrics

if TYPE_CHECKING:
    from highwaynet.runs.listing import RunSummary

METRICS: dict[str, Callable[[Metrics], str]] = {
    "loss": lambda found: loss_text(found.loss),
    "accuracy": lambda found: "" if found.accuracy is None else percent(found.accuracy),
    "RMSE": lambda found: "" if found.rmse is None else f"{found.rmse:.4g}",
    "R²": lambda found: "" if found.r2 is None else f"{found.r2:.3f}",
}
"""The metrics of an epoch, each with a column for the training and one for the validation data."""
SHORT = ("accuracy", "R²")
"""The metrics that narrow screens show."""


def runs_command(
    folder: Annotated[Path, typer.Argument(help="The folder to search, including its subfolders.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """List runs with their state, progress, loss and accuracy.

    States: running; finished; interrupted by Ctrl-C or SIGTERM; stopped by anything else, such as a kill or a full disk; diverged, if the
    loss was no longer finite. The columns train and val. are about the training data, measured while the weights change, and about the
    validation data, at the end of an epoch: the one whose weights other commands use (column of), or else the last one.

    Example: highway runs runs/
    """
    from highwaynet.runs.listing import find_runs

    found = find_runs(folder)
    if as_json:
        print_json([run.model_dump(exclude_none=True) for run in found])
        return
    if not found:
        console.print(f"no runs in {folder}; start one with highway train", soft_wrap=True)
        return
    _print_runs(found, folder)
    for run in found:
        if run.problem:
            console.print(f"damaged: {run.problem}", soft_wrap=True)
    if any(run.state in {"interrupted", "stopped"} for run in found):
        console.print("to resume a run that did not finish: highway train RUN --resume")


def _print_runs(runs: list["RunSummary"], folder: Path) -> None:
    """Print the table; columns that no run has a value for, and on narrow screens some others, are left out."""
    width, rows = console.width, [_cells(run, folder) for run in runs]
    metrics = METRICS if width >= 100 else SHORT
    others = any(run.answer and run.last and run.answer.epoch != run.last.epoch for run in runs)
    shown = ["run", "state", *(["network", "data"] if width >= 140 else []), "epoch", *(["of"] if others else [])]
    shown += [heading for metric in metrics for heading in _headings(metric) if any(row[heading] for row in rows)]
    shown += ["time"] if width >= 80 else []
    sides = {"run": "left", "state": "whole", "network": "whole", "data": "left"}
    print_table([(heading, sides.get(heading, "right")) for heading in shown], [[row[heading] for heading in shown] for row in rows])


def _headings(metric: str) -> tuple[str, str]:
    """Return the headings of a metric: of the training and of the validation data."""
    return f"train\n{metric}", f"val.\n{metric}"


def _cells(run: "RunSummary", folder: Path) -> dict[str, str]:
    """Return what a line has, by heading."""
    last, measured, (minutes, seconds) = run.last, run.answer or run.last, divmod(round(run.seconds), 60)
    name = str(Path(run.run).relative_to(folder)) if Path(run.run) != folder else run.run
    cells = {
        "run": name,
        "state": run.state,
        "network": run.network,
        "data": run.data,
        "epoch": f"{last.epoch if last else 0}/{run.epochs}",
        "of": str(measured.epoch) if measured else "",
    }
    for metric, text in METRICS.items():
        for heading, found in zip(_headings(metric), (measured.train, measured.validation) if measured else (None, None), strict=True):
            cells[heading] = text(found) if found else ""
    return cells | {"time": f"{minutes}:{seconds:02}"}
