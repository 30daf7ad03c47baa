"""Augmentation of whole batches: translation by pad and crop, mirroring, small rotations.

The draws depend only on the generator, which follows from (run seed, epoch, step): a repeated or resumed run sees the same pixels.
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
    """Random changes of training images (batch, channels, height, width) of any type."""

    crop: int = 0
    """Pad with this many zeros on each side, then cut out the original size at a random place."""
    mirror: bool = False
    """Flip left and right with probability 1/2."""
    rotate: float = 0.0
    """Rotate by a random angle of at most this many degrees; the corners are filled with zeros."""

    def __bool__(self) -> bool:
        """Whether any augmentation is set."""
        return bool(self.crop or self.mirror or self.rotate)

    def apply(self, images: Tensor, generator: Generator, share: Share | None = None) -> Tensor:
        """Return augmented images. Random numbers are drawn in the order crop, mirror, rotate, for the whole batch of the share."""
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
    """Cut windows out of the padded images, row by row, since each row of a window is contiguous in memory."""
    padded = _padded(images, pad)
    top, left = share.cut(torch.randint(2 * pad + 1, (2, share.total, 1, 1), generator=generator), dim=1)
    starts = _row_starts(*images.shape[:3], *padded.shape[2:]) + (top * padded.shape[3] + left)  # (batch, channels, height)
    width = images.shape[3]
    pieces = padded.flatten().as_strided((padded.numel() - width + 1, width), (1, 1))  # all slices of a row's length, as a view
    return pieces.index_select(0, starts.flatten()).view(images.shape)


def _padded(images: Tensor, pad: int) -> Tensor:
    """Return the images with zeros around them, in a buffer that the next call with this shape reuses; its border stays zero."""
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
    """Return the start offsets of the rows of windows at the upper left corner of images of tall × wide: (count, channels, height)."""
    planes = torch.arange(count * channels).view(count, channels, 1) * (tall * wide)
    return planes + torch.arange(height) * wide


def _rotate(images: Tensor, angles: Tensor) -> Tensor:
    """Rotate each image about its centre with bilinear interpolation; integer images are rounded."""
    height, width = images.shape[2:]
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    # Coordinates run from −1 to 1 on both axes: without the ratio, an image that is not square would be sheared.
    ratio = height / width
    turns = torch.stack([torch.stack([cos, -sin * ratio, zero], 1), torch.stack([sin / ratio, cos, zero], 1)], 1)  # (batch, 2, 3)
    grid = F.affine_grid(turns, list(images.shape), align_corners=False)
    turned = F.grid_sample(images.float(), grid, align_corners=False)
    return turned if images.is_floating_point() else turned.round_().to(images.dtype)
