"""Shared code of the convolutional layers: memory layout and padding."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Padding = int | Literal["same"]
"""Number of zeros on each side, or "same", which keeps the size of the maps at stride 1."""


def channels_last(x: Tensor) -> Tensor:
    """Return maps (batch, channels, height, width) in channels_last format, which is fastest for convolutions on the CPU.

    Maps of one channel or one pixel are contiguous in both formats; their strides are set to those of channels_last, too.
    """
    if torch._C._are_functorch_transforms_active():  # torch.func supports only one layout
        return x
    channels, height, width = x.shape[1:]
    strides = (channels * height * width, 1, channels * width, channels)
    if x.stride() == strides:
        return x
    x = x.contiguous(memory_format=torch.channels_last)
    return x if x.stride() == strides else x.as_strided(x.shape, strides)


def check_window(kernel_size: int, padding: Padding = "same", stride: int = 1) -> None:
    """Raise ValueError if this window cannot be used."""
    if kernel_size < 1:
        raise ValueError(f"kernel_size = {kernel_size}: must be at least 1")
    if padding == "same" and stride > 1 and kernel_size % 2 == 0:
        raise ValueError(f"kernel_size = {kernel_size} with stride = {stride}: padding 'same' needs an odd window; give a number")


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, *, stride: int = 1, padding: Padding = "same") -> Tensor:
    """Convolve maps in channels_last format; raises ValueError if x has not the channels of the weight."""
    if x.ndim != 4 or x.shape[1] != weight.shape[1]:
        raise ValueError(f"maps of shape {tuple(x.shape)}: this layer takes (batch, {weight.shape[1]}, height, width)")
    if padding == "same":
        kernel = weight.shape[-1]
        padding = kernel // 2
        if kernel % 2 == 0:  # one zero more on the far side
            padding, near = 0, (kernel - 1) // 2
            x = F.pad(x, (near, kernel - 1 - near, near, kernel - 1 - near))
    return F.conv2d(channels_last(x), weight, bias, stride=stride, padding=padding)
