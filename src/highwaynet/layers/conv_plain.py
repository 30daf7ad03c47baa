"""Convolutional plain layer y = activation(W∗x + b): the layer that changes the number of maps, and the twin of a highway layer."""

import torch
from torch import Generator, Tensor, nn

from highwaynet.layers.activations import activation_function
from highwaynet.layers.convolution import Padding, check_window, convolve
from highwaynet.layers.initialisation import DEFAULT_STD, initialise_
from highwaynet.layers.names import Activation, Init
from highwaynet.layers.observation import Observer


class ConvPlain(nn.Module):
    """A convolution, batch norm if wanted, and an activation.

    Args:
        inputs: Channels of the input.
        outputs: Channels of the output.
        kernel: Size of the square window.
        stride: Step of the window.
        padding: Zeros on each side, or "same": as many as keep the size at stride 1.
        activation: relu, tanh, sigmoid or identity.
        norm: Batch norm between convolution and activation; its shift takes the place of the bias b.
        init: How W starts; b starts at 0.
        init_std: Standard deviation for ``init="normal"``.
        generator: Where the weights come from; torch's global generator if None.

    >>> ConvPlain(3, 16, 5, padding=0)(torch.zeros(2, 3, 28, 28)).shape
    torch.Size([2, 16, 24, 24])
    """

    num_layers = 1
    observer: Observer | None = None

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 3,
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
        self.kernel, self.stride, self.activation, self.init, self.init_std = kernel, stride, activation, init, init_std
        self._act = activation_function(activation)
        check_window(kernel, padding, stride)
        self.padding = padding
        self.weight = nn.Parameter(torch.empty(outputs, inputs, kernel, kernel))
        self.bias = None if norm else nn.Parameter(torch.empty(outputs))
        self.norm = nn.BatchNorm2d(outputs) if norm else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Start anew: weights by `init`, biases at 0."""
        with torch.no_grad():
            initialise_(self.weight, self.init, std=self.init_std, generator=generator)
            if self.bias is not None:
                self.bias.zero_()
        if self.norm is not None:
            self.norm.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """From (batch, inputs, height, width) to (batch, outputs, height', width')."""
        z = convolve(x, self.weight, self.bias, stride=self.stride, padding=self.padding)
        y = self._act(z if self.norm is None else self.norm(z))
        if self.observer is not None:
            self.observer(1, output=y, state=y, axis=1)
        return y

    def extra_repr(self) -> str:
        """What printing the module shows."""
        outputs, inputs = self.weight.shape[:2]
        return f"{inputs}, {outputs}, kernel={self.kernel}, stride={self.stride}, padding={self.padding}, activation={self.activation}"
