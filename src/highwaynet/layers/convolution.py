"""Shared code of the convolutional layers: memory layout, padding, and images without a batch axis."""

from typing import Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from highwaynet.kernels.convolution import can_convolve, convolution, is_faster
from highwaynet.layers.checks import check_sizes

Padding = int | Literal["same"]
"""Number of zeros on each side, or "same", which keeps the size of the maps at stride 1."""


def channels_last(x: Tensor) -> Tensor:
    """Return maps (batch, channels, height, width) in channels_last format, which is fastest for convolutions on the CPU.

    Maps of one channel or one pixel are contiguous in both formats; their strides are set to those of channels_last, too.
    """
    if torch._C._are_functorch_transforms_active():  # torch.func supports only one layout
        return x
    if _is_channels_last(x):
        return x
    x = x.contiguous(memory_format=torch.channels_last)
    channels, height, width = x.shape[1:]
    return x if _is_channels_last(x) else x.as_strided(x.shape, (channels * height * width, 1, channels * width, channels))


def in_format_of(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Return y in the memory format of x: channels_last if x or the weight is stored so, as in `nn.Conv2d`; otherwise contiguous."""
    if torch._C._are_functorch_transforms_active() or _is_channels_last(x) or _is_channels_last(weight):
        return y
    return y.contiguous()


def copy_like_output(x: Tensor, weight: Tensor) -> Tensor:
    """Return a copy of x, in the memory format that the output of an open layer has."""
    return in_format_of(x, channels_last(x) if _is_channels_last(weight) else x, weight).clone()


def _is_channels_last(x: Tensor) -> bool:
    """Whether the strides are those of channels_last, also for one channel or one pixel, where other strides mean the same."""
    _, channels, height, width = x.shape
    return x.stride() == (channels * height * width, 1, channels * width, channels)


ResultT = TypeVar("ResultT", Tensor, tuple[Tensor, ...], Tensor | tuple[Tensor, ...])


def without_batch(result: ResultT) -> ResultT:
    """Return what was computed for a batch of one sample without its batch axis."""
    return result[0] if isinstance(result, Tensor) else tuple(part[0] for part in result)


def check_window(kernel_size: int, padding: Padding = "same", stride: int = 1) -> None:
    """Raise ValueError if this window cannot be used."""
    check_sizes(kernel_size=kernel_size, stride=stride)
    if padding != "same" and (not isinstance(padding, int) or isinstance(padding, bool) or padding < 0):
        raise ValueError(f"padding = {padding!r}: give the number of zeros on each side, or 'same'")
    if padding == "same" and stride > 1 and kernel_size % 2 == 0:
        raise ValueError(f"kernel_size = {kernel_size} with stride = {stride}: padding 'same' needs an odd window; give a number")


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, *, stride: int = 1, padding: Padding = "same") -> Tensor:
    """Convolve maps (batch, channels, height, width) in channels_last format."""
    if padding == "same":
        kernel = weight.shape[-1]
        padding = kernel // 2
        if kernel % 2 == 0:  # one zero more on the far side
            padding, near = 0, (kernel - 1) // 2
            x = F.pad(x, (near, kernel - 1 - near, near, kernel - 1 - near))
    x = channels_last(x)
    if stride == padding == 1 and can_convolve(x, weight, bias) and is_faster(x, weight):
        return convolution(x, weight, bias)
    return F.conv2d(x, weight, bias, stride=stride, padding=padding)
