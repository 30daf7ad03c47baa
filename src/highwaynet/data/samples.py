"""What every reader returns: samples as they were stored, before division and preprocessing. Free of torch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Samples:
    """Inputs with their targets; either may be memory-mapped."""

    inputs: NDArray[Any]
    """Images (samples, channels, height, width), uint8 where they were stored so, else float32; or features (samples, features)."""
    targets: NDArray[Any]
    """(samples,): int64 class numbers from 0, or float64 numbers to predict."""

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.targets)

    def select(self, indices: NDArray[np.int64]) -> "Samples":
        """The samples with these indices, in this order; a copy."""
        return Samples(self.inputs[indices], self.targets[indices])
