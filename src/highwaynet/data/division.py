"""Random division of samples into two parts, stratified by class for classifications."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor


def divide(rows: Tensor, targets: NDArray[Any], share: float, generator: Generator, *, by_class: bool) -> tuple[Tensor, Tensor]:
    """Divide rows into (the rest, a share), both in stored order; the share has round(share · rows) of them.

    With `by_class`, every class contributes its share rounded down, and the classes with the largest remainders one more. At least one
    sample of each class stays in the rest.
    """
    groups = torch.from_numpy(np.asarray(targets)[rows.numpy()]) if by_class else torch.zeros(len(rows), dtype=torch.int64)
    labels, sizes = groups.unique(return_counts=True)
    exact = sizes.double() * share
    quota = exact.floor().long()
    missing = round(share * len(rows)) - int(quota.sum())
    quota[torch.argsort(exact - quota, descending=True, stable=True)[:missing]] += 1
    quota = torch.minimum(quota, sizes - 1)
    taken = torch.zeros(len(rows), dtype=torch.bool)
    for label, number in zip(labels, quota.tolist(), strict=True):
        members = torch.nonzero(groups == label).flatten()
        taken[members[torch.randperm(len(members), generator=generator)[:number]]] = True
    return rows[~taken], rows[taken]
