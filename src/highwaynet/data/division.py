"""Dividing samples class by class, by a seed."""

import torch
from torch import Generator, Tensor


def stratified_division(targets: Tensor, share: float, generator: Generator) -> tuple[Tensor, Tensor]:
    """Indices of (the rest, a share) of the samples, the share taken from every class alike, both in stored order.

    The share has round(share · samples) samples in all: each class gives its rounded-down part, and the classes with the largest
    remainders one more.
    """
    classes, sizes = targets.unique(return_counts=True)
    exact = sizes.double() * share
    quota = exact.floor().long()
    missing = round(share * len(targets)) - int(quota.sum())
    quota[torch.argsort(exact - quota, descending=True, stable=True)[:missing]] += 1
    taken = torch.zeros(len(targets), dtype=torch.bool)
    for label, number in zip(classes, quota.tolist(), strict=True):
        members = torch.nonzero(targets == label).flatten()
        taken[members[torch.randperm(len(members), generator=generator)[:number]]] = True
    return torch.nonzero(~taken).flatten(), torch.nonzero(taken).flatten()
