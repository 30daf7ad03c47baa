"""Dropout that several processes can share."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from highwaynet.base.share import Share


class Dropout(nn.Module):
    """As `nn.Dropout`: in training, each value is 0 with probability p and else divided by 1 − p.

    The mask is drawn for the whole batch, also where this process has a share of it: N processes drop what one would.
    """

    share: Share | None = None
    """Which part of the batch the inputs are; None: all of it."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"p = {p}: must be at least 0 and below 1")
        self.p = p

    def is_active(self) -> bool:
        """Whether it changes anything."""
        return self.training and self.p > 0

    def forward(self, x: Tensor) -> Tensor:
        """The values that are left."""
        if not self.is_active():
            return x
        share = self.share or Share.of(len(x))
        channels_last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
        form = torch.channels_last if channels_last else torch.contiguous_format
        mask = torch.empty((share.total, *x.shape[1:]), dtype=x.dtype, device=x.device, memory_format=form)
        return x * share.cut(mask.bernoulli_(1 - self.p)).div_(1 - self.p)

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return f"p={self.p:g}"
