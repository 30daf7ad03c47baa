"""Data sets and their parts: raw samples as they were stored, and batches of prepared inputs."""

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
"""A function of the batch number in the epoch, the raw images and their share of the batch; returns augmented raw images."""


def as_tensor(array: NDArray[Any]) -> Tensor:
    """Return a tensor that shares the memory of an array, without torch's warning for read-only arrays; raw inputs are never changed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


@dataclass(frozen=True)
class Split:
    """One part of a data set: rows of arrays that parts share, so that dividing copies nothing."""

    inputs: Tensor
    """Raw inputs (all samples, ...): uint8 or float32, in memory or memory-mapped."""
    targets: Tensor
    """(all samples,): int64 class numbers, or standardised numbers; (all samples, targets) for several numbers."""
    rows: Tensor
    """int64 indices of the samples of this part, in order."""
    preparation: Preparation
    names: tuple[str, ...] = ()
    """Files of all samples, as paths inside the data's folder; empty if samples have no files of their own."""
    weights: Tensor | None = None
    """(all samples,), float64: how much each sample counts; None if all count alike."""
    prepared: Tensor | None = None
    """Preprocessed inputs of all samples, if they are few enough to be kept; None if each batch is preprocessed."""

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.rows)

    def head(self, count: int) -> "Split":
        """Return the first `count` samples of this part."""
        return replace(self, rows=self.rows[:count])

    def spread(self, count: int) -> "Split":
        """Return `count` evenly spaced samples of this part, which may be sorted by class."""
        if count >= len(self):
            return self
        return replace(self, rows=self.rows[torch.arange(count) * len(self) // count])

    def name(self, index: int) -> str:
        """Return what sample `index` of this part (from 0) is called in the data: its file, its row in a table, or its place in an array.

        Rows of tables are counted from 1, without the header, as in messages; places in arrays from 0. An official test part has its own
        numbering.
        """
        row = int(self.rows[index])
        if self.names:
            return self.names[row]
        return f"row {row + 1}" if self.preparation.record.kind == "table" else f"sample {row}"

    def class_counts(self) -> Tensor:
        """Return the number of samples of each class in this part, (classes,), or the sums of their weights if they have weights."""
        weights = None if self.weights is None else self.weights[self.rows]
        return torch.bincount(self.targets[self.rows], weights, minlength=len(self.preparation.record.class_names))

    def batches(
        self,
        batch_size: int,
        order: Tensor | None = None,
        augment: Augment | None = None,
        *,
        first: int = 0,
        share_of: Callable[[int], Share] = Share.of,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches of (inputs as float32, targets); the last may be smaller. Raw float64 inputs stay float64.

        Args:
            batch_size: Samples in a batch.
            order: Permutation of the samples; by default the stored order.
            augment: Function that changes raw images.
            first: Index of the first batch, from 0.
            share_of: Function from the size of a batch to the share of it to yield.
        """
        rows = self.rows if order is None else self.rows[order]
        for number, batch in enumerate(rows[first * batch_size :].split(batch_size), start=first):
            share = share_of(len(batch))
            chosen = share.cut(batch)
            if self.prepared is not None and augment is None:
                yield self.prepared.index_select(0, chosen), self.targets.index_select(0, chosen)
                continue
            inputs = self.inputs.index_select(0, chosen)
            if augment is not None:
                inputs = augment(number, inputs, share)
            yield self.preparation.preprocessing.apply(inputs), self.targets.index_select(0, chosen)


@dataclass(frozen=True)
class Dataset:
    """A data set, divided into a training, a validation and a test part."""

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
        """Return the part of this name; raises InputError if there is no validation part."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        if name not in parts:
            raise unknown("part of the data", str(name), parts)
        part = parts[name]
        if part is None or not len(part):
            others = " or ".join(other for other, there in parts.items() if there)
            raise InputError(f"{self.name} has no {name} part in this run (data.{name} = 0): choose {others}")
        return part
