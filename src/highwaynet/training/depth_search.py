"""Finding the depth of a dense network on validation data, before the run itself starts."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.runs.spec import RunSpec, with_training
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.interruption import Interruption
from highwaynet.training.loop import train

DEPTHS = (2, 5, 10, 20, 50)
"""Depths that are tried."""
TRIAL_EPOCHS = 15
"""Epochs of each trial, at most."""
SAME = 0.01
"""A deeper network must have a validation loss that is lower by this share."""

Tell = Callable[[str], None]


def find_depth(
    spec: RunSpec,
    data: Any = None,
    *,
    depths: Sequence[int] = DEPTHS,
    epochs: int = TRIAL_EPOCHS,
    tell: Tell = lambda note: None,
    interruption: Interruption | None = None,
) -> RunSpec:
    """Return the spec with the depth whose network reaches the lowest validation loss in a short training.

    Depths are tried from the lowest to the highest, until two in a row are no better than the best one so far. Nothing of the trials is
    kept, and test samples are not used.

    Args:
        spec: Settings of the run, with a dense network and validation data.
        data: The data, if they are in memory.
        depths: Depths to try.
        epochs: Epochs of each trial, at most.
        tell: Called with a sentence for each trial, and with the result.
        interruption: Asked after every step whether to stop.

    Raises:
        InputError: If the network has a fixed depth, there are no validation data, or all trials diverge.
    """
    if spec.network.preset.traits.has_variants:
        raise InputError(f"network.depth = 'auto': {spec.network.name} has a fixed depth; omit it, or choose fc-highway")
    if spec.data.validation == 0:
        raise InputError("network.depth = 'auto': validation data decide, and there are none; set data.validation, for instance 0.1")
    losses: dict[int, float] = {}
    with tempfile.TemporaryDirectory(prefix="highway-depth-") as folder:
        for depth in sorted(depths):
            losses[depth] = _trial(with_depth(spec, depth), Path(folder) / str(depth), data, epochs, interruption)
            tell(f"depth {depth}: validation loss {losses[depth]:.4g}")
            if _worse_in_a_row(list(losses.values())) >= 2:
                break
    best = min(losses, key=lambda depth: losses[depth])
    if losses[best] == float("inf"):
        raise InputError("network.depth = 'auto': all trials diverged; choose a lower learning rate")
    chosen = next(depth for depth, loss in losses.items() if loss <= losses[best] * (1 + SAME))
    tell(f"depth auto: {chosen} layers, by the validation loss of short trainings; choose another with --depth")
    return with_depth(spec, chosen)


def with_depth(spec: RunSpec, depth: int) -> RunSpec:
    """Return the spec with another depth."""
    return spec.model_copy(update={"network": spec.network.model_copy(update={"depth": depth})})


def _trial(spec: RunSpec, path: Path, data: Any, epochs: int, interruption: Interruption | None) -> float:
    """Return the lowest validation loss of a short training; infinite if it diverges."""
    short = with_training(spec, epochs=min(spec.training.epochs, epochs), tensorboard=False)
    try:
        history = train(short, path, data=data, interruption=interruption).read_history()
    except DivergenceError:
        return float("inf")
    return min(epoch.validation_loss for epoch in history if epoch.validation_loss is not None)


def _worse_in_a_row(losses: Sequence[float]) -> int:
    """Return how many losses at the end are not clearly lower than the lowest one before them."""
    count = 0
    while count < len(losses) - 1 and losses[-1 - count] > min(losses[: len(losses) - 1 - count]) * (1 - SAME):
        count += 1
    return count
