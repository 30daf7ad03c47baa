"""The data-set interface: samples in memory as they were stored, divided into train, validation and test."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.data.catalogue import Description, Part


@dataclass(frozen=True)
class Split:
    """Samples of one part of a data set."""

    inputs: Tensor
    """(samples, channels, height, width), uint8."""
    targets: Tensor
    """(samples,), int64: the number of the class."""
    full_scale: int
    """The input value that becomes 1.0."""

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.targets)

    def select(self, indices: Tensor) -> "Split":
        """The part with these samples, in this order."""
        return Split(self.inputs[indices], self.targets[indices], self.full_scale)

    def batches(self, batch_size: int, order: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of (inputs as float32, targets), in the given order of samples or as stored; the last may be smaller."""
        for start in range(0, len(self), batch_size):
            if order is None:
                inputs, targets = self.inputs[start : start + batch_size], self.targets[start : start + batch_size]
            else:
                chosen = order[start : start + batch_size]
                inputs, targets = self.inputs.index_select(0, chosen), self.targets.index_select(0, chosen)
            yield inputs.to(torch.float32).mul_(1.0 / self.full_scale), targets


@dataclass(frozen=True)
class Dataset:
    """A data set, divided."""

    name: str
    description: Description
    train: Split
    validation: Split | None
    """None where everything is trained on."""
    test: Split

    def part(self, name: Part) -> Split:
        """The part of this name; raises InputError where nothing was kept for validation."""
        part = {"train": self.train, "validation": self.validation, "test": self.test}[name]
        if part is None:
            raise InputError(f"{self.name} has no {name} part in this run (data.validation = 0): choose train or test")
        return part
