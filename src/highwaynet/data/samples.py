"""Samples as they were stored, before division and preprocessing; every reader returns them. Does not import torch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Samples:
    """Inputs with their targets; either may be memory-mapped."""

    inputs: NDArray[Any]
    """Images (samples, channels, height, width), uint8 if stored so, otherwise float32; or features (samples, features)."""
    targets: NDArray[Any]
    """(samples,): int64 class numbers from 0, or float64 numbers to predict; (samples, targets) for several numbers."""
    names: tuple[str, ...] = ()
    """Files of the samples, as paths inside the data's folder; empty if samples have no files of their own."""
    weights: NDArray[np.float64] | None = None
    """(samples,): how much each sample counts, in statistics and in the loss; None if all count alike."""

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.targets)

    def select(self, indices: NDArray[np.int64]) -> "Samples":
        """Return a copy of the samples with these indices, in this order."""
        names = tuple(self.names[index] for index in indices) if self.names else ()
        return Samples(self.inputs[indices], self.targets[indices], names, None if self.weights is None else self.weights[indices])
