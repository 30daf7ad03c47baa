"""Convolutional highway layer (Srivastava, Greff and Schmidhuber 2015, section 3): H and T use the same window of the maps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

import torch
from torch import Generator, Tensor, nn

from highwaynet.kernels.gating import can_gate, gate
from highwaynet.layers.activations import activation_function
from highwaynet.layers.checks import check_maps, check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.convolution import channels_last, check_window, convolve, copy_like_output, in_format_of, without_batch
from highwaynet.layers.gate_bias import GateBias, resolve_gate_bias
from highwaynet.layers.gates import mix
from highwaynet.layers.initialisation import DEFAULT_STD, initialise_
from highwaynet.layers.names import Activation, Carry, Init
from highwaynet.layers.observation import Observer
from highwaynet.layers.old_calls import accepts_old


class ConvHighway(nn.Module):
    """One highway layer on maps: y = H·T + x·C with H = activation(W_H∗x + b_H), T = sigmoid(W_T∗x + b_T).

    All parts share one convolution: `weight` (parts·channels, channels, kernel_size, kernel_size) and `bias` (parts·channels) hold H, T
    and, with an independent carry gate, C below each other. Maps are zero-padded to keep their size.

    The layer computes in channels_last format, and its output has the format of its input. A whole network is faster if its input is
    channels_last: ``x.to(memory_format=torch.channels_last)``.

    Args:
        channels: Number of maps, in and out.
        kernel_size: Size of the square window, odd or even.
        activation: relu, tanh, sigmoid or identity.
        gate_bias: Initial value of b_T, or "auto": −depth/10 within [−4, −1]. The bias of an independent carry gate starts at −gate_bias.
        depth: Number of layers of the whole network, for "auto"; 1 by default.
        carry: "coupled" (C = 1 − T, as in the paper's experiments) or "independent".
        init: Initialisation of W_H.
        gate_init: Initialisation of W_T (and W_C). By default that of W_H, or glorot-normal if that is he: He's factor 2 makes up for the
            half that ReLU sets to zero, and a gate has no ReLU. The authors' released networks use he for both.
        init_std: Standard deviation for ``init="normal"``.
        generator: Random generator for the weights; torch's global generator if None.

    >>> sum(p.numel() for p in ConvHighway(16).parameters())
    4640
    >>> y, t = ConvHighway(16)(torch.zeros(1, 16, 8, 8), return_gates=True)
    >>> round(t.mean().item(), 4)  # sigmoid(−1)
    0.2689
    """

    closed_layers: frozenset[int]
    num_layers = 1
    observer: Observer | None = None

    @accepts_old(kernel="kernel_size")
    def __init__(
        self,
        channels: int,
        kernel_size: int = 3,
        *,
        activation: Activation = "relu",
        gate_bias: GateBias = "auto",
        depth: int | None = None,
        carry: Carry = "coupled",
        init: Init = "he",
        gate_init: Init | None = None,
        init_std: float = DEFAULT_STD,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        if carry not in {"coupled", "independent"}:
            raise ValueError(f"unknown carry {carry!r}: choose coupled or independent")
        check_window(kernel_size)
        check_sizes(channels=channels, depth=1 if depth is None else depth)
        parts = 2 if carry == "coupled" else 3
        self.channels = channels
        self.activation, self.carry, self.init, self.init_std = activation, carry, init, init_std
        self.gate_init: Init = gate_init or ("glorot-normal" if init == "he" else init)
        self.start_gate_bias = resolve_gate_bias(gate_bias, 1 if depth is None else depth, family="convolutional")
        self.closed_layers = frozenset()
        self._act = activation_function(activation)
        self.weight = nn.Parameter(torch.empty(parts * channels, channels, kernel_size, kernel_size))
        self.bias = nn.Parameter(torch.empty(parts * channels))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Reinitialize the parameters: weights by `init` and `gate_init`, b_H at 0, b_T at the gate bias, b_C at its opposite."""
        with torch.no_grad():
            for number, part in enumerate(self.weight.split(self.channels)):
                initialise_(part, self.gate_init if number else self.init, std=self.init_std, generator=generator)
            starts = (0.0, self.start_gate_bias, -self.start_gate_bias)
            for part, start in zip(self.bias.split(self.channels), starts, strict=False):
                part.fill_(start)

    @property
    def kernel_size(self) -> int:
        """Size of the square window."""
        return self.weight.shape[-1]

    kernel = kernel_size  # the old name; it gives no warning, since torch.jit.trace reads all attributes

    @property
    def gate_bias(self) -> Tensor:
        """The transform gate biases b_T, a view of shape (1, channels), with a layer axis as in a dense stack."""
        return self.bias[None, self.channels : 2 * self.channels]

    @property
    def gate_weight(self) -> Tensor:
        """The transform gate weights W_T, a view of shape (1, channels, channels, kernel_size, kernel_size)."""
        return self.weight[None, self.channels : 2 * self.channels]

    @property
    def carry_bias(self) -> Tensor:
        """The biases of an independent carry gate, a view of shape (1, channels); (1, 0) if coupled."""
        return self.bias[None, 2 * self.channels :]

    @property
    def carry_weight(self) -> Tensor:
        """The weights of an independent carry gate, (1, channels, channels, kernel_size, kernel_size); (1, 0, …) if coupled."""
        return self.weight[None, 2 * self.channels :]

    @overload
    def forward(self, x: Tensor, return_gates: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, x: Tensor, return_gates: Literal[True]) -> tuple[Tensor, ...]: ...

    @overload
    def forward(self, x: Tensor, return_gates: bool) -> Tensor | tuple[Tensor, ...]: ...

    def forward(self, x: Tensor, return_gates: bool = False) -> Tensor | tuple[Tensor, ...]:
        """Compute the output y; with `return_gates` also T, and C if the carry gate is independent, all of the shape of x.

        Args:
            x: Maps (batch, channels, height, width), or (channels, height, width) without a batch axis.
            return_gates: Return (y, T) or (y, T, C).
        """
        if is_foreign(x):
            return not_a_tensor(self, x, return_gates=return_gates)
        check_maps(self, x, self.weight, self.channels)
        if x.dim() == 3:
            return without_batch(self.forward(x[None], return_gates=return_gates))
        if self.closed_layers:
            y, gates = (
                copy_like_output(x, self.weight),
                (torch.zeros_like(x), *([torch.ones_like(x)] if self.carry == "independent" else [])),
            )
            self._tell(y, gates[0], gates)
            return (y, *gates) if return_gates else y
        given, x = x, channels_last(x)
        z = convolve(x, self.weight, self.bias)  # (batch, parts·channels, height, width)
        if self.carry == "coupled" and not return_gates and self.observer is None and can_gate(x, z):
            return in_format_of(given, gate(x, z, self.activation), self.weight)
        h, *pre_gates = z.split(self.channels, dim=1)
        # Made contiguous first: on a slice of few channels, torch computes the sigmoid one number at a time.
        opened = [torch.sigmoid(channels_last(pre_gate)) for pre_gate in pre_gates]
        h = self._act(h)
        y, *opened = (in_format_of(given, value, self.weight) for value in (mix(x, h, *opened), *opened))
        self._tell(y, h, opened)
        return (y, *opened) if return_gates else y

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def _tell(self, y: Tensor, h: Tensor, gates: Sequence[Tensor]) -> None:
        if self.observer is not None:
            self.observer(1, output=y, state=h, transform=gates[0], carry=gates[1] if len(gates) > 1 else None, axis=1)

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return (
            f"{self.channels}, kernel_size={self.kernel_size}, activation={self.activation}, "
            f"gate_bias={self.start_gate_bias:g}, carry={self.carry}"
        )
