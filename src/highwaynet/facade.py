"""What a Python user calls, beside layers and `train`: evaluate a run, look inside it."""

from os import PathLike
from pathlib import Path
from typing import Any

import highwaynet.figures.drawings  # noqa: F401  # so that records can draw themselves
from highwaynet.analysis.collect import Study
from highwaynet.data.names import Part
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.records import Kept, Score
from highwaynet.training.evaluation import evaluate_run


def evaluate(run: str | PathLike[str], part: Part = "test", *, checkpoint: Kept | None = None, data: Any = None) -> Score:
    """Evaluate a trained network: loss and accuracy, or RMSE and R² for a regression.

    The loss is cross-entropy, or squared error for numbers, also for a run with an objective of its own.

    Args:
        run: The run that `train` returned, or its directory.
        part: Which part of the data: train, validation or test.
        checkpoint: Which weights, "final" or "best"; by default final.
        data: The data, if the run was trained on data in memory.

    Raises:
        InputError: If the run is damaged, or its data are missing or have changed.
    """
    return evaluate_run(RunDirectory.open(Path(run)), part, checkpoint, data)


def inspect(run: str | PathLike[str], *, checkpoint: Kept | None = None, data: Any = None) -> Study:
    """Open a trained run for analysis.

    The methods of the `Study` that it returns are the analyses: `gates`, `routing`, `flow`, `refinement`, `lesions`, `pairs`, `deletions`
    and `evaluation`. Each returns a record, which shows itself in notebooks and, apart from `evaluation`, draws itself (`record.plot()`).
    Records are kept in the run directory, so that the same analysis takes no time when it is asked for again.

    Args:
        run: The run that `train` returned, or its directory.
        checkpoint: Which weights, "final" or "best"; by default final.
        data: The data, if the run was trained on data in memory.

    Raises:
        InputError: If there is no such run or checkpoint, or it is damaged.
    """
    return Study(RunDirectory.open(Path(run)), checkpoint, data)
