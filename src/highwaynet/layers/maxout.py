"""Maxout layers (Goodfellow et al. 2013): the largest of several linear pieces, unit by unit or map by map."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from highwaynet.kernels.maxout import can_maxout, largest_in_torch, maxout
from highwaynet.kernels.operators import can_take
from highwaynet.layers.checks import check_features, check_maps, check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.convolution import Padding, check_window, convolve, in_format_of, without_batch
from highwaynet.layers.initialisation import DEFAULT_STD, initialise_
from highwaynet.layers.names import Init
from highwaynet.layers.observation import Observer
from highwaynet.layers.old_calls import accepts_old


def _told(observer: Observer | None, y: Tensor, axis: int) -> Tensor:
    if observer is not None:
        observer(1, output=y, state=y, axis=axis)
    return y


class DenseMaxout(nn.Module):
    """Dense maxout layer: y_i = max_j (W_ij·x + b_ij).

    `weight` (pieces·out_features, in_features) and `bias` (pieces·out_features) hold the pieces below each other.

    Args:
        in_features: Size of the input.
        out_features: Number of units.
        pieces: Number of linear pieces of each unit.
        init: Initialisation of the weights of each piece; biases start at 0.
        init_std: Standard deviation for ``init="normal"``.
        generator: Random generator for the weights; torch's global generator if None.

    >>> sum(p.numel() for p in DenseMaxout(64, 500, pieces=2).parameters())
    65000
    """

    num_layers = 1
    observer: Observer | None = None

    @accepts_old(inputs="in_features", outputs="out_features")
    def __init__(
        self,
        in_features: int,
        out_features: int,
        pieces: int = 2,
        *,
        init: Init = "glorot-uniform",
        init_std: float = DEFAULT_STD,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes(in_features=in_features, out_features=out_features, pieces=pieces)
        self.pieces, self.init, self.init_std = pieces, init, init_std
        self.weight, self.bias = _parameters(pieces, out_features, (in_features,))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Reinitialize the parameters: the weights of each piece by `init`, biases at 0."""
        _start_(self.weight, self.bias, self.pieces, self.init, self.init_std, generator)

    @property
    def in_features(self) -> int:
        """Size of the input."""
        return self.weight.shape[1]

    @property
    def out_features(self) -> int:
        """Number of units."""
        return self.weight.shape[0] // self.pieces

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., in_features) to (..., out_features)."""
        if is_foreign(x):
            return not_a_tensor(self, x)
        check_features(self, x, self.weight, self.in_features)
        z = F.linear(x, self.weight, self.bias)  # (..., pieces·out_features)
        rows = z.flatten(0, -2) if z.dim() > 2 and can_take(z) else z
        if can_maxout(rows, self.pieces):
            y = maxout(rows, self.pieces).view(*x.shape[:-1], self.out_features)
        else:
            y = largest_in_torch(z, self.pieces, axis=-1)
        return _told(self.observer, y, axis=-1)

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return f"{self.in_features}, {self.out_features}, pieces={self.pieces}"


class ConvMaxout(nn.Module):
    """Convolutional maxout layer: the maximum of several convolutions, map by map.

    `weight` (pieces·out_channels, in_channels, kernel_size, kernel_size) and `bias` (pieces·out_channels) hold the pieces below each other.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the square window.
        pieces: Number of linear pieces of each map.
        padding: Number of zeros on each side, or "same", which keeps the size.
        init: Initialisation of the weights of each piece; biases start at 0.
        init_std: Standard deviation for ``init="normal"``.
        generator: Random generator for the weights; torch's global generator if None.

    >>> ConvMaxout(3, 16)(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 16, 8, 8])
    """

    num_layers = 1
    observer: Observer | None = None

    @accepts_old(inputs="in_channels", outputs="out_channels", kernel="kernel_size")
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        pieces: int = 2,
        *,
        padding: Padding = "same",
        init: Init = "glorot-uniform",
        init_std: float = DEFAULT_STD,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes(in_channels=in_channels, out_channels=out_channels, pieces=pieces)
        self.pieces, self.init, self.init_std = pieces, init, init_std
        check_window(kernel_size, padding)
        self.padding = padding
        self.weight, self.bias = _parameters(pieces, out_channels, (in_channels, kernel_size, kernel_size))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Reinitialize the parameters: the weights of each piece by `init`, biases at 0."""
        _start_(self.weight, self.bias, self.pieces, self.init, self.init_std, generator)

    @property
    def in_channels(self) -> int:
        """Channels of the input."""
        return self.weight.shape[1]

    @property
    def out_channels(self) -> int:
        """Channels of the output."""
        return self.weight.shape[0] // self.pieces

    @property
    def kernel_size(self) -> int:
        """Size of the square window."""
        return self.weight.shape[-1]

    kernel = kernel_size  # the old name; it gives no warning, since torch.jit.trace reads all attributes

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, in_channels, height, width) to (batch, out_channels, height', width'); the batch axis may be missing."""
        if is_foreign(x):
            return not_a_tensor(self, x)
        check_maps(self, x, self.weight, self.in_channels)
        if x.dim() == 3:
            return without_batch(self.forward(x[None]))
        z = convolve(x, self.weight, self.bias, padding=self.padding)  # (batch, pieces·out_channels, height', width')
        y = maxout(z, self.pieces) if can_maxout(z, self.pieces) else largest_in_torch(z, self.pieces)
        return _told(self.observer, in_format_of(x, y, self.weight), axis=1)

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def extra_repr(self) -> str:
        """What printing the module shows."""
        window = f"kernel_size={self.kernel_size}, pieces={self.pieces}, padding={self.padding}"
        return f"{self.in_channels}, {self.out_channels}, {window}"


def _parameters(pieces: int, outputs: int, rest: tuple[int, ...]) -> tuple[nn.Parameter, nn.Parameter]:
    return nn.Parameter(torch.empty(pieces * outputs, *rest)), nn.Parameter(torch.empty(pieces * outputs))


def _start_(weight: Tensor, bias: Tensor, pieces: int, init: Init, std: float, generator: Generator | None) -> None:
    with torch.no_grad():
        for piece in weight.chunk(pieces):
            initialise_(piece, init, std=std, generator=generator)
        bias.zero_()
