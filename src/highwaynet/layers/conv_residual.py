"""Convolutional residual block: the basic block of He et al. 2015, "Deep Residual Learning for Image Recognition"."""

from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor, nn

from highwaynet.layers.checks import check_maps, check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.conv_plain import ConvPlain
from highwaynet.layers.convolution import channels_last, in_format_of, without_batch
from highwaynet.layers.initialisation import DEFAULT_STD
from highwaynet.layers.names import Init, Shortcut
from highwaynet.layers.observation import Observer
from highwaynet.layers.old_calls import accepts_old
from highwaynet.layers.shape_change import PadChannels, Subsample


class ConvResidual(nn.Module):
    """Two 3×3 convolutions F with a shortcut: y = relu(shortcut(x) + F(x)).

    If a lesion closes the block, it returns shortcut(x).

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output; by default as many as the input has.
        stride: Step of the first convolution.
        norm: Whether to add batch norm after each convolution, instead of a bias.
        shortcut: How x changes shape if it has to: "pad" (sub-sampled, zero maps added) or "project" (a 1×1 convolution).
        init: Initialisation of the weights.
        init_std: Standard deviation for ``init="normal"``.
        start_scale: Factor for the initial weights of the second convolution. Without batch norm, blocks that add as much as they carry
            make the maps grow exponentially with depth; 1/√blocks prevents this.
        generator: Random generator for the weights; torch's global generator if None.

    >>> ConvResidual(16, 32, stride=2)(torch.zeros(2, 16, 8, 8)).shape
    torch.Size([2, 32, 4, 4])
    """

    closed_layers: frozenset[int]
    num_layers = 1
    observer: Observer | None = None

    @accepts_old(inputs="in_channels", outputs="out_channels")
    def __init__(
        self,
        in_channels: int,
        out_channels: int | None = None,
        *,
        stride: int = 1,
        norm: bool = True,
        shortcut: Shortcut = "pad",
        init: Init = "he",
        init_std: float = DEFAULT_STD,
        start_scale: float = 1.0,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        if shortcut not in {"pad", "project"}:
            raise ValueError(f"unknown shortcut {shortcut!r}: choose pad or project")
        out_channels = in_channels if out_channels is None else out_channels
        check_sizes(in_channels=in_channels, out_channels=out_channels, stride=stride)
        self.closed_layers = frozenset()

        def convolution(channels: int, kernel_size: int, step: int) -> ConvPlain:
            start = {"init": init, "init_std": init_std, "generator": generator}
            return ConvPlain(channels, out_channels, kernel_size, stride=step, activation="identity", norm=norm, **start)  # type: ignore[arg-type]

        self.first, self.second = convolution(in_channels, 3, stride), convolution(out_channels, 3, 1)
        self.start_scale = start_scale
        self._scale_start()
        self.shortcut: nn.Module
        if stride == 1 and out_channels == in_channels:
            self.shortcut = nn.Identity()
        elif shortcut == "project":
            self.shortcut = convolution(in_channels, 1, stride)
        else:
            self.shortcut = nn.Sequential(Subsample(stride), PadChannels(out_channels))

    def _scale_start(self) -> None:
        with torch.no_grad():
            self.second.weight.mul_(self.start_scale)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Reinitialize the parameters of all convolutions, in order of execution."""
        for module in (self.first, self.second, self.shortcut):
            if isinstance(module, ConvPlain):
                module.reset_parameters(generator)
        self._scale_start()

    @property
    def in_channels(self) -> int:
        """Channels of the input."""
        return self.first.in_channels

    @property
    def out_channels(self) -> int:
        """Channels of the output."""
        return self.first.out_channels

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, in_channels, height, width) to (batch, out_channels, height', width'); the batch axis may be missing."""
        if is_foreign(x):
            return not_a_tensor(self, x)
        weight = self.first.weight
        check_maps(self, x, weight, self.in_channels)
        if x.dim() == 3:
            return without_batch(self.forward(x[None]))
        given, x = x, channels_last(x)
        carried: Tensor = self.shortcut(x)
        if self.closed_layers:
            carried = in_format_of(given, carried, weight)
            if isinstance(self.shortcut, nn.Identity):
                carried = carried.clone()  # not the input itself, which what comes next may change in place
            if self.observer is not None:
                self.observer(1, output=carried, state=torch.zeros_like(carried), axis=1)
            return carried
        state = self.second(torch.relu(self.first(x)))
        y = in_format_of(given, torch.relu(channels_last(carried) + state), weight)
        if self.observer is not None:
            self.observer(1, output=y, state=state, axis=1)
        return y

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward
