"""Convolutional plain layer y = activation(W∗x + b): changes the number of maps, and is the twin of a highway layer."""

from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor, nn

from highwaynet.layers.activations import activation_function
from highwaynet.layers.checks import check_maps, check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.convolution import Padding, check_window, convolve, in_format_of, without_batch
from highwaynet.layers.initialisation import DEFAULT_STD, initialise_
from highwaynet.layers.names import Activation, Init
from highwaynet.layers.observation import Observer
from highwaynet.layers.old_calls import accepts_old


class ConvPlain(nn.Module):
    """A convolution, optional batch norm, and an activation.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the square window.
        stride: Step of the window.
        padding: Number of zeros on each side, or "same", which keeps the size at stride 1.
        activation: relu, tanh, sigmoid or identity.
        norm: Whether to add batch norm between convolution and activation; its shift replaces the bias b.
        init: Initialisation of W; b starts at 0.
        init_std: Standard deviation for ``init="normal"``.
        generator: Random generator for the weights; torch's global generator if None.

    >>> ConvPlain(3, 16, 5, padding=0)(torch.zeros(2, 3, 28, 28)).shape
    torch.Size([2, 16, 24, 24])
    """

    num_layers = 1
    observer: Observer | None = None

    @accepts_old(inputs="in_channels", outputs="out_channels", kernel="kernel_size")
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        *,
        stride: int = 1,
        padding: Padding = "same",
        activation: Activation = "relu",
        norm: bool = False,
        init: Init = "he",
        init_std: float = DEFAULT_STD,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.stride, self.activation, self.init, self.init_std = stride, activation, init, init_std
        self._act = activation_function(activation)
        check_sizes(in_channels=in_channels, out_channels=out_channels)
        check_window(kernel_size, padding, stride)
        self.padding = padding
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, kernel_size, kernel_size))
        self.bias = None if norm else nn.Parameter(torch.empty(out_channels))
        self.norm = nn.BatchNorm2d(out_channels) if norm else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Reinitialize the parameters: weights by `init`, biases at 0."""
        with torch.no_grad():
            initialise_(self.weight, self.init, std=self.init_std, generator=generator)
            if self.bias is not None:
                self.bias.zero_()
        if self.norm is not None:
            self.norm.reset_parameters()

    @property
    def in_channels(self) -> int:
        """Channels of the input."""
        return self.weight.shape[1]

    @property
    def out_channels(self) -> int:
        """Channels of the output."""
        return self.weight.shape[0]

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
        z = convolve(x, self.weight, self.bias, stride=self.stride, padding=self.padding)
        y = in_format_of(x, self._act(z if self.norm is None else self.norm(z)), self.weight)
        if self.observer is not None:
            self.observer(1, output=y, state=y, axis=1)
        return y

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def extra_repr(self) -> str:
        """What printing the module shows."""
        window = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        return f"{self.in_channels}, {self.out_channels}, {window}, activation={self.activation}"
