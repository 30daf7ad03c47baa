"""Running data through a network that is observed, batch by batch."""

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from highwaynet.base.arrays import Numbers
from highwaynet.data.dataset import Split
from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.observation import Observation, Quantity, observe

BATCH = 500
Progress = Callable[[int, int], None]
"""Told (done, of how many)."""


def watched(
    network: nn.Module, split: Split, quantities: Collection[Quantity], progress: Progress | None = None
) -> Iterator[tuple[Observation, Tensor]]:
    """What was seen of each batch, and its targets; the network is in evaluation mode, and as before at the end."""
    was_training, done = network.training, 0
    weights = next(network.parameters())
    network.eval()
    try:
        for inputs, targets in split.batches(BATCH):
            with torch.inference_mode(), observe(network, quantities) as seen:
                network(inputs.to(weights))
            yield seen, targets
            done += len(targets)
            if progress:
                progress(done, len(split))
    finally:
        network.train(was_training)


def highway_modules(network: nn.Module) -> list[DenseHighway | ConvHighway]:
    """The modules with transform gates, in their order, without stacks of no layers; raises ValueError where there are none."""
    found = [module for module in network.modules() if isinstance(module, DenseHighway | ConvHighway) and module.num_layers]
    if not found:
        raise ValueError("the network has no transform gates: it has no highway layers")
    return found


def by_block(values: Tensor) -> Tensor:
    """(samples, blocks) of dense layers as they are; maps (samples, maps, height, width) averaged over their pixels."""
    return values.double() if values.dim() == 2 else values.double().mean(dim=(2, 3))


def table(rows: Sequence[Tensor]) -> Numbers:
    """A row for each layer, NaN beyond the end of a layer with fewer blocks."""
    filled = np.full((len(rows), max((len(row) for row in rows), default=0)), np.nan, dtype=np.float32)
    for place, row in zip(filled, rows, strict=True):
        place[: len(row)] = row.numpy()
    return filled
