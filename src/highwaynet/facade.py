"""What a Python user calls, beside layers and `train`: evaluate a run, look inside it, list the networks."""

from os import PathLike
from pathlib import Path
from typing import Any

import highwaynet.figures.drawings  # noqa: F401  # so that records can draw themselves
from highwaynet.analysis.collect import Study
from highwaynet.base.specs import Spec
from highwaynet.data.names import Part
from highwaynet.networks.description import describe
from highwaynet.networks.presets import PRESETS
from highwaynet.networks.spec import NetworkSpec
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


class NetworkSummary(Spec):
    """A network that can be trained by name."""

    name: str
    """What `NetworkSpec(name=...)` takes."""
    summary: str
    """What it is."""
    origin: str
    """Where it comes from."""
    family: str
    """dense or convolutional."""
    layers: int
    """Number of layers, as its paper counts them; a default where depth is a setting."""
    parameters: int
    """Trained values, for the images that it was made for and 10 classes."""
    input_shape: tuple[int, ...]
    """The images that it was made for."""


def list_networks() -> list[NetworkSummary]:
    """The networks that can be built and trained by name.

    >>> [network.name for network in list_networks() if network.family == "dense"]
    ['fc-highway', 'fc-plain', 'fc-residual']
    """
    found = []
    for name, preset in PRESETS.items():
        spec = NetworkSpec(name=name)
        found.append(
            NetworkSummary(
                name=name,
                summary=preset.summary,
                origin=spec.origin,
                family=preset.family,
                layers=spec.depth,
                parameters=describe(spec, preset.made_for, 10).parameters,
                input_shape=preset.made_for,
            )
        )
    return found
