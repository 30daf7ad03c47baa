"""Augmentation of whole batches: translation by pad and crop, mirroring, small rotations.

The draws are a function of the generator alone, which follows from (run seed, epoch, step): a repeated or resumed run sees the same
pixels.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor


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

    def apply(self, images: Tensor, generator: Generator) -> Tensor:
        """New images; always draws in the order crop, mirror, rotate."""
        if self.crop:
            images = _crop(images, self.crop, generator)
        if self.mirror:
            flips = torch.randint(2, (len(images),), generator=generator)
            both = torch.cat([images, images.flip(3)])
            images = both.index_select(0, torch.arange(len(images)) + len(images) * flips)
        if self.rotate:
            angles = (2 * torch.rand(len(images), generator=generator) - 1) * math.radians(self.rotate)
            images = _rotate(images, angles)
        return images


def _crop(images: Tensor, pad: int, generator: Generator) -> Tensor:
    """Cut windows out of the padded images, row by row: each row of a window is one piece of memory."""
    count, channels, height, width = images.shape
    padded = F.pad(images, (pad, pad, pad, pad)).contiguous()
    tall, wide = padded.shape[2:]
    top, left = torch.randint(2 * pad + 1, (2, count, 1, 1), generator=generator)
    planes = torch.arange(count * channels).view(count, channels, 1) * (tall * wide)
    starts = planes + (top + torch.arange(height)) * wide + left  # (batch, channels, height): where each row begins
    pieces = padded.flatten().as_strided((padded.numel() - width + 1, width), (1, 1))  # every piece of a row's length, a view
    return pieces.index_select(0, starts.flatten()).view(images.shape)


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
