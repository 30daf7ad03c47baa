"""`highway evaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwaynet.base.text import percent, quantity_text, with_count
from highwaynet.cli.asking import progress_bar
from highwaynet.cli.data import DATA_ROOT, use_data_root
from highwaynet.cli.output import CHECKPOINT, console, note, print_json, print_table
from highwaynet.data.names import Part
from highwaynet.runs.names import Kept

if TYPE_CHECKING:
    from highwaynet.analysis.collect import Study
    from highwaynet.analysis.mistakes_record import MistakesRecord

MOST_CLASSES = 20
"""With more classes than this, the table has only those with the lowest recall."""
HARDEST = 10
"""How many these are."""


def evaluate_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    split: Annotated[
        Part | None, typer.Option(help="Which part of the data: by default test, or validation or train if there is none.")
    ] = None,
    checkpoint: Annotated[Kept | None, typer.Option(help=CHECKPOINT)] = None,
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything that was measured as JSON.")] = False,
) -> None:
    """Compute how good a trained network is: next to guessing, and class by class.

    Classification: loss, accuracy, balanced accuracy, expected calibration error (15 equally wide bins), precision and recall by class.
    Regression: RMSE, MAE and largest error in the unit of the target, and R². `highway inspect RUN --what mistakes` draws it.

    Example: highway evaluate runs/fc-highway-50-digits-seed0 --split test
    """
    from highwaynet.runs.directory import RunDirectory
    from highwaynet.runs.stages import check_outputs

    use_data_root(data_root)
    opened = RunDirectory.open(run)  # before torch is imported, so that a wrong path is reported at once
    check_outputs(opened.read_spec(), run)
    from highwaynet.analysis.collect import Study

    study = Study(opened, checkpoint)
    split = split or held_out(study)
    study.data.part(split)  # raises an error if the data are missing or have changed, even if the record exists
    with progress_bar(f"evaluating {run}", "samples") as progress:
        record = study.mistakes(split, progress)
    score = record.score
    if as_json:
        about = {"run": str(run), "checkpoint": study.checkpoint, "split": split, **score.model_dump(exclude_none=True)}
        known = {"schema_version", "fingerprint", "about", "part", "samples", "score"}
        found = record.model_dump(mode="json", exclude=known, exclude_none=True)
        print_json(about | {name: value for name, value in found.items() if value != [] or name == "worst"})  # without the other task's
        return
    console.print(f"{split}: {score} ({with_count(score.samples, 'sample')})")
    if record.classes:
        _print_classes(record)
    else:
        _print_numbers(record)


def held_out(study: "Study") -> Part:
    """Return the part that results are about: test, if the run has such data; otherwise the user is told."""
    part = study.there("test")
    if part != "test":
        note(f"{study.run.path} has no test part (data.test = 0): the {'training' if part == 'train' else part} data are used")
    return part


def _print_classes(record: "MistakesRecord") -> None:
    """Print what guessing would give, measures that rare classes and wrong probabilities affect, and a table of classes."""
    guessing = f"always guessing the most frequent training class ({record.majority})"
    console.print(f"{guessing}: accuracy {percent(record.baseline_accuracy or 0)}", soft_wrap=True)
    error = "unknown" if record.calibration_error is None else percent(record.calibration_error)
    balanced = f"balanced accuracy {percent(record.balanced_accuracy or 0)}"
    console.print(f"{balanced}; expected calibration error {error} (15 equally wide bins)", soft_wrap=True)
    shown = list(record.classes)
    if len(shown) > MOST_CLASSES:
        shown = record.hardest(HARDEST)
        console.print(f"the {len(shown)} of {len(record.classes)} classes with the lowest recall (--json has all):", soft_wrap=True)
    print_table(
        [("class", "left"), ("precision", "right"), ("recall", "right"), ("samples", "right")],
        [[row.name, _share(row.precision), _share(row.recall), f"{row.support:,}"] for row in shown],
    )


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)


def _print_numbers(record: "MistakesRecord") -> None:
    """Print errors in the unit of the target next to those of guessing the mean."""
    rows = {
        "this network": (record.score.rmse, record.mae, record.score.r2),
        "guessing the mean of the training samples": (record.baseline_rmse, record.baseline_mae, record.baseline_r2),
    }
    console.print(f"largest error of {record.target_name}: {quantity_text(record.largest_error or 0)}", soft_wrap=True)
    print_table(
        [("", "left"), ("RMSE", "right"), ("MAE", "right"), ("R²", "right")],
        [
            [name, quantity_text(rmse or 0), quantity_text(mae or 0), f"{round(r2 or 0, 3) + 0.0:.3f}"]  # −0.0 + 0.0 is 0.0
            for name, (rmse, mae, r2) in rows.items()
        ],
    )
