"""Augmentation of whole batches: translation by pad and crop, mirroring, small rotations.

The draws are a function of the generator alone, which follows from (run seed, epoch, step): a repeated or resumed run sees the same
pixels.
"""

import math
import threading
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from highwaynet.base.share import Share


@dataclass(frozen=True)
class Augmentation:
    """What is done to training images, (batch, channels, height, width), of any type."""

    crop: int = 0
    """Pad with this many zeros on each side, then cut out the original size at a random place."""
    mirror: bool = False
    """Flip left and right with probability 1/2."""
    rotate: float = 0.0
    """Turn by a random angle of at most so many degrees; what comes in at the corners is zero."""

    def __bool__(self) -> bool:
        """Whether anything is done at all."""
        return bool(self.crop or self.mirror or self.rotate)

    def apply(self, images: Tensor, generator: Generator, share: Share | None = None) -> Tensor:
        """New images; always draws in the order crop, mirror, rotate, and for the whole batch of which the images are a share."""
        share = share or Share.of(len(images))
        if self.crop:
            images = _crop(images, self.crop, generator, share)
        if self.mirror:
            flips = share.cut(torch.randint(2, (share.total,), generator=generator))
            both = torch.cat([images, images.flip(3)])
            images = both.index_select(0, torch.arange(len(images)) + len(images) * flips)
        if self.rotate:
            angles = (2 * torch.rand(share.total, generator=generator) - 1) * math.radians(self.rotate)
            images = _rotate(images, share.cut(angles))
        return images


def _crop(images: Tensor, pad: int, generator: Generator, share: Share) -> Tensor:
    """Cut windows out of the padded images, row by row: each row of a window is one piece of memory."""
    padded = _padded(images, pad)
    top, left = share.cut(torch.randint(2 * pad + 1, (2, share.total, 1, 1), generator=generator), dim=1)
    starts = _row_starts(*images.shape[:3], *padded.shape[2:]) + (top * padded.shape[3] + left)  # (batch, channels, height)
    width = images.shape[3]
    pieces = padded.flatten().as_strided((padded.numel() - width + 1, width), (1, 1))  # every piece of a row's length, a view
    return pieces.index_select(0, starts.flatten()).view(images.shape)


def _padded(images: Tensor, pad: int) -> Tensor:
    """The images with zeros around them, in memory that the next call with this shape overwrites: its border stays zero."""
    count, channels, height, width = images.shape
    shape = (count, channels, height + 2 * pad, width + 2 * pad)
    buffer: Tensor | None = getattr(_kept, "padded", None)
    if buffer is None or buffer.shape != shape or buffer.dtype != images.dtype or _kept.pad != pad:
        buffer = torch.zeros(shape, dtype=images.dtype)
        _kept.padded, _kept.pad = buffer, pad
    buffer[:, :, pad : pad + height, pad : pad + width] = images
    return buffer


_kept = threading.local()


@lru_cache(maxsize=4)
def _row_starts(count: int, channels: int, height: int, tall: int, wide: int) -> Tensor:
    """Where the rows of the windows at the upper left corners begin, in images of tall × wide: (count, channels, height)."""
    planes = torch.arange(count * channels).view(count, channels, 1) * (tall * wide)
    return planes + torch.arange(height) * wide


def _rotate(images: Tensor, angles: Tensor) -> Tensor:
    """Turn each image about its centre, bilinearly; integers are rounded back."""
    height, width = images.shape[2:]
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    # Coordinates run from −1 to 1 on both axes: an image that is not square needs its ratio, or it would be sheared.
    ratio = height / width
    turns = torch.stack([torch.stack([cos, -sin * ratio, zero], 1), torch.stack([sin / ratio, cos, zero], 1)], 1)  # (batch, 2, 3)
    grid = F.affine_grid(turns, list(images.shape), align_corners=False)
    turned = F.grid_sample(images.float(), grid, align_corners=False)
    return turned if images.is_floating_point() else turned.round_().to(images.dtype)
