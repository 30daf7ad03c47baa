"""Random division of samples into two parts, stratified by class for classifications. Does not import torch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.randomness import seed_for

Indices = NDArray[np.int64]


class Permutations:
    """Random permutations for one purpose of a run, without torch.

    They equal those of `torch.randperm` with the generator for this purpose (`generator_for`): both draw from the Mersenne Twister.
    """

    def __init__(self, seed: int, *purpose: str | int) -> None:
        self._numbers = np.random.RandomState(seed_for(seed, *purpose) & 0xFFFFFFFF)

    def first(self, count: int, size: int) -> list[int]:
        """Return the first `count` numbers of the next permutation of 0 … size − 1."""
        raw = self._numbers.randint(2**32, size=max(size - 1, 0), dtype=np.uint32)[:count]
        # The shuffle of Fisher and Yates: place i is swapped with place i + step; only places that were swapped are kept.
        steps = raw.astype(np.int64) % (size - np.arange(len(raw)))
        swapped: dict[int, int] = {}
        chosen = []
        for place, step in enumerate(steps.tolist()):
            other = place + step
            chosen.append(swapped.get(other, other))
            swapped[other] = swapped.get(place, place)
        return chosen + [swapped.get(place, place) for place in range(len(chosen), min(count, size))]


def divide(rows: Indices, targets: NDArray[Any], share: float, permutations: Permutations, *, by_class: bool) -> tuple[Indices, Indices]:
    """Divide rows into (the rest, a share), both in stored order; the share has round(share · rows) of them.

    With `by_class`, every class contributes its share rounded down, and the classes with the largest remainders one more. At least one
    sample of each class stays in the rest.
    """
    groups = np.asarray(targets)[rows] if by_class else np.zeros(len(rows), np.int64)
    labels, sizes = np.unique(groups, return_counts=True)
    exact = sizes * share
    quota = np.floor(exact).astype(np.int64)
    missing = round(share * len(rows)) - int(quota.sum())
    quota[np.argsort(quota - exact, kind="stable")[:missing]] += 1
    quota = np.minimum(quota, sizes - 1)
    taken = np.zeros(len(rows), bool)
    for label, number in zip(labels, quota.tolist(), strict=True):
        members = np.flatnonzero(groups == label)
        taken[members[permutations.first(number, len(members))]] = True
    return rows[~taken], rows[taken]
