"""The highway equation (Srivastava, Greff and Schmidhuber 2015, equations 2 and 3)."""

import torch
from torch import Tensor


def mix(x: Tensor, h: Tensor, t: Tensor, c: Tensor | None = None) -> Tensor:
    """Compute the highway equation y = H·T + x·C, coupled (C = 1 − T) if `c` is None.

    The coupled form is exact at both ends: T = 0 gives x and T = 1 gives H, to the bit. The result has the type of x, so that mixed
    precision does not round the carried values.
    """
    h, t, c = h.to(x.dtype), t.to(x.dtype), None if c is None else c.to(x.dtype)
    if c is None:
        return torch.lerp(x, h, t)
    return h * t + x * c
