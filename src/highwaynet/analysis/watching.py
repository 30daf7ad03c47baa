"""Running data through an observed network."""

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from torch import Tensor, nn

from highwaynet.base.arrays import Numbers
from highwaynet.data.dataset import Split
from highwaynet.layers.observation import Observation, Quantity, observe
from highwaynet.training.evaluation import evaluating

BATCH, CONVOLUTIONAL_BATCH = 500, 100
"""Samples in a batch; maps need more memory."""

Progress = Callable[[int, int], None]
"""Called with (done, total)."""
Reduce = Callable[[Tensor], Tensor]


def is_convolutional(network: nn.Module) -> bool:
    """Whether the network has convolutions."""
    return any(parameter.dim() == 4 for parameter in network.parameters())


def batch_size(network: nn.Module) -> int:
    """Number of samples in a batch."""
    return CONVOLUTIONAL_BATCH if is_convolutional(network) else BATCH


def streamed(
    network: nn.Module, split: Split, quantities: Collection[Quantity], reduce: Reduce, progress: Progress | None = None
) -> Observation:
    """Observe all samples and keep only mean and variance of each quantity, also by class if there are classes."""
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
    """Yield the observation of each batch."""
    done, weights = 0, next(network.parameters())
    for inputs, targets in split.batches(batch_size(network)):
        with evaluating(network), observe(network, quantities, reduce=reduce) as seen:
            network(inputs.to(weights))
        yield seen
        done += len(targets)
        if progress:
            progress(done, len(split))


def mean_over_places(values: Tensor) -> Tensor:
    """Average (samples, places, width) to (samples, width), in double precision."""
    return values.double().mean(dim=1)


def table(rows: Sequence[Tensor]) -> Numbers:
    """Return an array with a row for each layer; rows with fewer blocks are padded with NaN."""
    filled = np.full((len(rows), max((len(row) for row in rows), default=0)), np.nan, dtype=np.float32)
    for place, row in zip(filled, rows, strict=True):
        place[: len(row)] = row.numpy()
    return filled
