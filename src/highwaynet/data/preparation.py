"""Preparation: what is learned from the training samples to convert raw samples to inputs, and outputs to answers.

It is stored with the run, so that prediction uses the same statistics.
"""

from dataclasses import dataclass

from torch import Tensor

from highwaynet.data.preprocessing import Preprocessing
from highwaynet.data.record import DataRecord


@dataclass(frozen=True)
class Preparation:
    """The record of the data, and the fitted preprocessing."""

    record: DataRecord
    preprocessing: Preprocessing

    @classmethod
    def restore(cls, record: DataRecord, tensors: dict[str, Tensor]) -> "Preparation":
        """Make it from a stored record and its tensors."""
        return cls(record, Preprocessing(record.preprocessing, record.full_scale, tensors))
