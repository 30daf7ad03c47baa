"""Random generators that depend only on the run's seed and on their purpose.

Nothing draws from a global generator: the permutation of epoch 7 is the same whether or not epochs 1 to 6 ran in
this process, so a resumed or repeated run needs no stored generator state.
"""

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # seeds alone do not need torch
    import torch


def seed_for(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit seed for one purpose of a run, for instance ``seed_for(0, "permutation", 7)``.

    >>> seed_for(0, "weights") == seed_for(0, "weights")
    True
    >>> len({seed_for(0, "weights"), seed_for(1, "weights"), seed_for(0, "permutation", 1)})
    3
    """
    text = "/".join([str(seed), *(f"{type(part).__name__}:{part}" for part in purpose)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator_for(seed: int, *purpose: str | int) -> "torch.Generator":
    """Return a new CPU generator seeded with `seed_for`."""
    import torch

    return torch.Generator().manual_seed(seed_for(seed, *purpose))
