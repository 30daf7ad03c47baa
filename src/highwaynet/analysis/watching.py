"""Running data through a network that is observed."""

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from torch import Tensor, nn

from highwaynet.base.arrays import Numbers
from highwaynet.data.dataset import Split
from highwaynet.layers.observation import Observation, Quantity, observe
from highwaynet.training.evaluation import evaluating

BATCH, CONVOLUTIONAL_BATCH = 500, 100
"""Samples at a time; maps take more memory."""

Progress = Callable[[int, int], None]
"""Told (done, of how many)."""
Reduce = Callable[[Tensor], Tensor]


def is_convolutional(network: nn.Module) -> bool:
    """Whether anything in the network works on maps."""
    return any(parameter.dim() == 4 for parameter in network.parameters())


def batch_size(network: nn.Module) -> int:
    """How many samples at a time."""
    return CONVOLUTIONAL_BATCH if is_convolutional(network) else BATCH


def streamed(
    network: nn.Module, split: Split, quantities: Collection[Quantity], reduce: Reduce, progress: Progress | None = None
) -> Observation:
    """Moments of what all samples gave, by class where there are classes."""
    is_classified = split.preparation.record.task == "classification"
    done, weights = 0, next(network.parameters())
    with evaluating(network), observe(network, quantities, streaming=True, reduce=reduce) as seen:
        for inputs, targets in split.batches(batch_size(network)):
            seen.labels = targets if is_classified else None
            network(inputs.to(weights))
            done += len(targets)
            if progress:
                progress(done, len(split))
    return seen


def watched(
    network: nn.Module, split: Split, quantities: Collection[Quantity], reduce: Reduce | None = None, progress: Progress | None = None
) -> Iterator[Observation]:
    """What was seen of each batch."""
    done, weights = 0, next(network.parameters())
    for inputs, targets in split.batches(batch_size(network)):
        with evaluating(network), observe(network, quantities, reduce=reduce) as seen:
            network(inputs.to(weights))
        yield seen
        done += len(targets)
        if progress:
            progress(done, len(split))


def mean_over_places(values: Tensor) -> Tensor:
    """(samples, places, width) → (samples, width), in double precision."""
    return values.double().mean(dim=1)


def table(rows: Sequence[Tensor]) -> Numbers:
    """A row for each layer, NaN beyond the end of a layer with fewer blocks."""
    filled = np.full((len(rows), max((len(row) for row in rows), default=0)), np.nan, dtype=np.float32)
    for place, row in zip(filled, rows, strict=True):
        place[: len(row)] = row.numpy()
    return filled
