"""Preparation: everything that turns raw samples into a network's inputs and its outputs into answers, learned from training samples.

It is stored with the run, so that prediction uses the same statistics.
"""

from dataclasses import dataclass

from torch import Tensor

from highwaynet.data.preprocessing import Preprocessing
from highwaynet.data.record import DataRecord


@dataclass(frozen=True)
class Preparation:
    """A record and its fitted steps."""

    record: DataRecord
    preprocessing: Preprocessing

    @classmethod
    def restore(cls, record: DataRecord, tensors: dict[str, Tensor]) -> "Preparation":
        """From what was stored."""
        return cls(record, Preprocessing(record.preprocessing, record.full_scale, tensors))
