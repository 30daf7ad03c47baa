"""Functions for Python users, besides layers and `train`: evaluate a run, analyse it."""

from os import PathLike
from pathlib import Path
from typing import Any

import highwaynet.figures.drawings  # noqa: F401  # so that records can draw themselves
from highwaynet.analysis.collect import Study
from highwaynet.data.names import Part
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.names import Kept
from highwaynet.runs.run_records import Score
from highwaynet.training.evaluation import evaluate_run


def evaluate(run: str | PathLike[str], part: Part = "test", *, checkpoint: Kept | None = None, data: Any = None) -> Score:
    """Evaluate a trained network: loss and accuracy, or RMSE and R² for a regression.

    The loss is cross-entropy, or squared error for a regression, even if the run was trained with another objective.

    Args:
        run: The run that `train` returned, or its directory.
        part: Which part of the data: train, validation or test.
        checkpoint: Which weights, "final", "best" or "average"; by default those that are the run's answer.
        data: The data, if the run was trained on data in memory.

    Raises:
        InputError: If the run is damaged, or its data are missing or have changed.
    """
    return evaluate_run(RunDirectory.open(Path(run)), part, checkpoint, data)


def inspect(run: str | PathLike[str], *, checkpoint: Kept | None = None, data: Any = None) -> Study:
    """Open a trained run for analysis.

    The methods of the `Study` that it returns are the analyses: `mistakes`, `gates`, `routing`, `flow`, `refinement`, `lesions`, `pairs`,
    `deletions`, `depth` and `evaluation`. Each returns a record, which is displayed in notebooks and, except for `evaluation`, has a
    figure (`record.plot()`). Records are stored in the run directory, so that an analysis is computed only once.

    Args:
        run: The run that `train` returned, or its directory.
        checkpoint: Which weights, "final", "best" or "average"; by default those that are the run's answer.
        data: The data, if the run was trained on data in memory.

    Raises:
        InputError: If there is no such run or checkpoint, or it is damaged.
    """
    return Study(RunDirectory.open(Path(run)), checkpoint, data)
