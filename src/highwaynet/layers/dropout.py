"""Dropout that does not depend on the number of processes."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from highwaynet.base.share import Share


class Dropout(nn.Module):
    """Like `nn.Dropout`: in training, each value is set to 0 with probability p, and otherwise divided by 1 − p.

    The mask is drawn for the whole batch, even if this process has only a share of it: N processes drop the same values as one.
    """

    share: Share | None = None
    """Which part of the batch the inputs are; None means the whole batch."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"p = {p}: must be at least 0 and below 1")
        self.p = p

    def is_active(self) -> bool:
        """Whether it changes its input: in training, with p above 0."""
        return self.training and self.p > 0

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to x, whose first axis is the samples."""
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
