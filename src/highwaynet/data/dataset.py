"""The data-set interface: samples in memory as they were stored, parts of them, and how raw inputs become the network's."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from highwaynet.base.errors import InputError, unknown
from highwaynet.base.share import Share
from highwaynet.data.names import Part
from highwaynet.data.preparation import Preparation

Augment = Callable[[int, Tensor, Share], Tensor]
"""From the number of a batch in its epoch, raw images, and which share of the batch they are, to other raw images."""


def as_tensor(array: NDArray[Any]) -> Tensor:
    """A tensor on the memory of an array, also of a memory-mapped file, which is not writable; nothing here writes into raw inputs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


@dataclass(frozen=True)
class Split:
    """One part of a data set: rows of arrays that several parts may share, so that dividing copies nothing."""

    inputs: Tensor
    """Raw inputs (all samples, ...): uint8 or float32, in memory or memory-mapped."""
    targets: Tensor
    """(all samples,): int64 class numbers, or float32 numbers, standardised."""
    rows: Tensor
    """int64: which samples belong to this part, in order."""
    preparation: Preparation

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.rows)

    def head(self, count: int) -> "Split":
        """The first samples of this part."""
        return replace(self, rows=self.rows[:count])

    def spread(self, count: int) -> "Split":
        """`count` samples of this part, evenly spaced: it may be sorted by class."""
        if count >= len(self):
            return self
        return replace(self, rows=self.rows[torch.arange(count) * len(self) // count])

    def batches(
        self,
        batch_size: int,
        order: Tensor | None = None,
        augment: Augment | None = None,
        *,
        first: int = 0,
        share_of: Callable[[int], Share] = Share.of,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of (inputs as float32, targets); the last may be smaller.

        Args:
            batch_size: Samples in a batch.
            order: The order of the samples; None is that in which they are stored.
            augment: What is done to raw images.
            first: The batch to begin with, from 0.
            share_of: From the size of a batch to the share of it that is wanted.
        """
        rows = self.rows if order is None else self.rows[order]
        for number, batch in enumerate(rows[first * batch_size :].split(batch_size), start=first):
            share = share_of(len(batch))
            chosen = share.cut(batch)
            inputs = self.inputs.index_select(0, chosen)
            if augment is not None:
                inputs = augment(number, inputs, share)
            yield self.preparation.preprocessing.apply(inputs), self.targets.index_select(0, chosen)


@dataclass(frozen=True)
class Dataset:
    """A data set, divided into training, validation and test part."""

    name: str
    """Name of a built-in data set, or path of your own data."""
    preparation: Preparation
    """What was learned from the training samples: preprocessing, encoding, class names."""
    train: Split
    """The training part."""
    validation: Split | None
    """The validation part; None if all samples are trained on."""
    test: Split
    """The test part."""

    def part(self, name: Part) -> Split:
        """The part of this name; raises InputError if nothing was kept for validation."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        if name not in parts:
            raise unknown("part of the data", str(name), parts)
        part = parts[name]
        if part is None:
            raise InputError(f"{self.name} has no {name} part in this run (data.validation = 0): choose train or test")
        return part
