"""Highway layers on sequences: the one-dimensional convolutional layer of DC-TTS (Tachibana et al. 2018, https://arxiv.org/abs/1710.08969)."""

from typing import TYPE_CHECKING, Literal, overload

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from highwaynet.layers.activations import activation_function
from highwaynet.layers.checks import check_maps, check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.convolution import without_batch
from highwaynet.layers.gate_bias import GateBias, resolve_gate_bias
from highwaynet.layers.gates import mix
from highwaynet.layers.initialisation import DEFAULT_STD, initialise_
from highwaynet.layers.names import Activation, Carry, Init
from highwaynet.layers.observation import Observer


class ConvHighway1d(nn.Module):
    """One highway layer on sequences: y = H·T + x·C with H = activation(W_H∗x + b_H), T = sigmoid(W_T∗x + b_T).

    All parts share one convolution: `weight` (parts·channels, channels, kernel_size) and `bias` (parts·channels) hold H, T and, with an
    independent carry gate, C below each other. Sequences are zero-padded to keep their length.

    Args:
        channels: Number of channels, in and out.
        kernel_size: Length of the window, in steps.
        dilation: Distance between the steps that the window reads.
        causal: Whether a step reads only itself and steps before it, for models that generate a sequence step by step.
        activation: relu, tanh, sigmoid or identity. DC-TTS uses identity.
        gate_bias: Initial value of b_T, or "auto": −depth/10 within [−4, −1]. The bias of an independent carry gate starts at −gate_bias.
        depth: Number of layers of the whole network, for "auto"; 1 by default.
        carry: "coupled" (C = 1 − T) or "independent".
        init: Initialisation of W_H.
        gate_init: Initialisation of W_T (and W_C). By default that of W_H, or glorot-normal if that is he.
        init_std: Standard deviation for ``init="normal"``.
        generator: Random generator for the weights; torch's global generator if None.

    The layers of DC-TTS's audio encoder, each with a window three times as long as the one before:

    >>> layers = [ConvHighway1d(256, dilation=step, causal=True, activation="identity") for step in (1, 3, 9, 27)]
    >>> nn.Sequential(*layers)(torch.zeros(2, 256, 100)).shape
    torch.Size([2, 256, 100])
    """

    closed_layers: frozenset[int]
    num_layers = 1
    observer: Observer | None = None

    def __init__(
        self,
        channels: int,
        kernel_size: int = 3,
        *,
        dilation: int = 1,
        causal: bool = False,
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
        check_sizes(channels=channels, kernel_size=kernel_size, dilation=dilation, depth=1 if depth is None else depth)
        parts = 2 if carry == "coupled" else 3
        self.channels, self.dilation, self.causal = channels, dilation, causal
        self.activation, self.carry, self.init, self.init_std = activation, carry, init, init_std
        self.gate_init: Init = gate_init or ("glorot-normal" if init == "he" else init)
        self.start_gate_bias = resolve_gate_bias(gate_bias, 1 if depth is None else depth, family="convolutional")
        self.closed_layers = frozenset()
        self._act = activation_function(activation)
        self.weight = nn.Parameter(torch.empty(parts * channels, channels, kernel_size))
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
        """Length of the window, in steps."""
        return self.weight.shape[-1]

    @property
    def gate_bias(self) -> Tensor:
        """The transform gate biases b_T, a view of shape (1, channels), with a layer axis as in a dense stack."""
        return self.bias[None, self.channels : 2 * self.channels]

    @property
    def gate_weight(self) -> Tensor:
        """The transform gate weights W_T, a view of shape (1, channels, channels, kernel_size)."""
        return self.weight[None, self.channels : 2 * self.channels]

    @overload
    def forward(self, x: Tensor, return_gates: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, x: Tensor, return_gates: Literal[True]) -> tuple[Tensor, ...]: ...

    @overload
    def forward(self, x: Tensor, return_gates: bool) -> Tensor | tuple[Tensor, ...]: ...

    def forward(self, x: Tensor, return_gates: bool = False) -> Tensor | tuple[Tensor, ...]:
        """Compute the output y; with `return_gates` also T, and C if the carry gate is independent, all of the shape of x.

        Args:
            x: Sequences (batch, channels, time), or (channels, time) without a batch axis.
            return_gates: Return (y, T) or (y, T, C).
        """
        if is_foreign(x):
            return not_a_tensor(self, x, return_gates=return_gates)
        check_maps(self, x, self.weight, self.channels, axes="time")
        if x.dim() == 2:
            return without_batch(self.forward(x[None], return_gates=return_gates))
        if self.closed_layers:
            y, h = x.clone(), torch.zeros_like(x)
            gates = (h, *([torch.ones_like(x)] if self.carry == "independent" else []))
        else:
            reach = self.dilation * (self.kernel_size - 1)  # how many steps the first and the last one of a window are apart
            before = reach if self.causal else reach // 2
            z = F.conv1d(
                F.pad(x, (before, reach - before)), self.weight, self.bias, dilation=self.dilation
            )  # (batch, parts·channels, time)
            h, *pre_gates = z.split(self.channels, dim=1)
            h, gates = self._act(h), tuple(torch.sigmoid(gate) for gate in pre_gates)
            y = mix(x, h, *gates)
        if self.observer is not None:
            self.observer(1, output=y, state=h, transform=gates[0], carry=gates[1] if len(gates) > 1 else None, axis=1)
        return (y, *gates) if return_gates else y

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return (
            f"{self.channels}, kernel_size={self.kernel_size}, dilation={self.dilation}, causal={self.causal}, "
            f"activation={self.activation}, gate_bias={self.start_gate_bias:g}, carry={self.carry}"
        )
