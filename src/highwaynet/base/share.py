"""The part of a batch that one of several processes computes. Random numbers are drawn for the whole batch and then cut."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Share:
    """The samples start … stop−1 of a batch of `total`.

    `weight` is the factor of their mean loss that makes the mean over processes equal to the mean over samples.
    """

    start: int
    stop: int
    total: int
    weight: float = 1.0

    @classmethod
    def of(cls, total: int, rank: int = 0, processes: int = 1) -> "Share":
        """Return the share of process `rank`. Processes for which no sample is left get the first one, with weight 0.

        >>> [Share.of(5, rank, 2) for rank in range(2)]
        [Share(start=0, stop=2, total=5, weight=0.8), Share(start=2, stop=5, total=5, weight=1.2)]
        """
        start, stop = rank * total // processes, (rank + 1) * total // processes
        if start == stop:
            return cls(0, min(1, total), total, 0.0)
        return cls(start, stop, total, (stop - start) * processes / total)

    def cut(self, tensor: Tensor, dim: int = 0) -> Tensor:
        """Return this share's slice of a tensor for the whole batch."""
        return tensor.narrow(dim, self.start, self.stop - self.start)
