"""Dense highway layers, one or many (Srivastava, Greff and Schmidhuber 2015, section 3.1).

This file is the readable specification of a highway stack: the fused kernels must compute the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from highwaynet.layers.activations import activation_function
from highwaynet.layers.checks import check_features, check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.foreign_weights import ForeignForm, Gate, convert
from highwaynet.layers.gate_bias import GateBias, resolve_gate_bias
from highwaynet.layers.gates import mix
from highwaynet.layers.initialisation import DEFAULT_STD, initialise_
from highwaynet.layers.lesion import separate
from highwaynet.layers.names import Activation, Carry, Init
from highwaynet.layers.observation import Observer
from highwaynet.layers.old_calls import accepts_old
from highwaynet.layers.recomputation import through
from highwaynet.layers.stacking import fused, fused_inside, open_layers, stacked_parameters, without_layers


class DenseHighway(nn.Module):
    """Dense highway layers in one module: y = H·T + x·C with H = activation(W_H·x + b_H), T = sigmoid(W_T·x + b_T).

    All parts of a layer share one matrix product: `weight` (layers, parts·width, width) and `bias` (layers, parts·width) hold H,
    T and, with an independent carry gate, C below each other.

    Args:
        width: Number of blocks.
        layers: Number of layers. None means a single layer whose gates are returned without a leading layer axis.
        activation: tanh, relu, sigmoid or identity.
        gate_bias: Initial value of b_T, or "auto", which follows from the depth, see `auto_gate_bias`. The bias of an independent carry
            gate starts at −gate_bias, so that C starts near 1 − T.
        depth: Number of layers of the whole network, for "auto"; by default the layers of this module.
        carry: "coupled" (C = 1 − T, as in the paper's experiments) or "independent".
        init: Initialisation of W_H and W_T (and W_C), each with its own fans. With "he" the gates use glorot-normal: He's factor 2 makes
            up for the half that ReLU sets to zero, and a gate has no ReLU.
        init_std: Standard deviation for ``init="normal"``.
        generator: Random generator for the weights; torch's global generator if None.

    >>> y, t = DenseHighway(50)(torch.zeros(1, 50), return_gates=True)
    >>> round(t.mean().item(), 4)  # sigmoid(−1): a single layer starts at gate bias −1
    0.2689
    """

    closed_layers: frozenset[int]
    observer: Observer | None = None
    recomputes = False
    """Whether activations are computed again in the backward pass; see `recompute`."""

    @accepts_old(positional="layers")
    def __init__(
        self,
        width: int,
        *,
        layers: int | None = None,
        activation: Activation = "tanh",
        gate_bias: GateBias = "auto",
        depth: int | None = None,
        carry: Carry = "coupled",
        init: Init = "glorot-uniform",
        init_std: float = DEFAULT_STD,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        if carry not in {"coupled", "independent"}:
            raise ValueError(f"unknown carry {carry!r}: choose coupled or independent")
        count = 1 if layers is None else layers
        check_sizes(width=width, layers=count, depth=count if depth is None else depth)
        parts = 2 if carry == "coupled" else 3
        self.width, self.single = width, layers is None
        self.activation, self.carry, self.init, self.init_std = activation, carry, init, init_std
        self.start_gate_bias = resolve_gate_bias(gate_bias, count if depth is None else depth)
        self.closed_layers = frozenset()
        self._act = activation_function(activation)
        self.weight, self.bias = stacked_parameters(count, parts * width, width)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Reinitialize the parameters: weights by `init`, b_H at 0, b_T at the gate bias, b_C at its opposite."""
        with torch.no_grad():
            gate_init: Init = "glorot-normal" if self.init == "he" else self.init
            for layer in self.weight:
                for number, part in enumerate(layer.split(self.width)):
                    initialise_(part, gate_init if number else self.init, std=self.init_std, generator=generator)
            starts = (0.0, self.start_gate_bias, -self.start_gate_bias)
            for part, start in zip(self.bias.split(self.width, dim=1), starts, strict=False):
                part.fill_(start)

    @classmethod
    def from_state_dict(
        cls,
        state: Mapping[str, Any],
        form: ForeignForm,
        *,
        gate: Gate | None = None,
        activation: Activation | None = None,
        names: Sequence[str] | None = None,
        prefix: str = "",
        is_sure: bool = False,
    ) -> Self:
        """Return a stack with the weights of somebody else's highway layers, which computes the same.

        Args:
            state: State dict of the other module, or names and arrays (Keras).
            form: "allennlp" or "fairseq" (H and a carry gate in one product), "keras" (the Highway of version 1), "elmo" (its released
                weights), or, for other code, "separate" (two linear layers, H and the gate) or "merged" (one layer, H above the gate).
            gate: What the gate is: "transform" if it multiplies H, "carry" if it multiplies x. Needed for "separate" and "merged".
            activation: Activation of H; by default that of the library.
            names: Names of the linear layers in the state dict, with {} for the number of the layer, from 0: one for merged layers, two
                (H, gate) for separate ones. By default the usual names.
            prefix: Beginning of the keys to read, if the state dict is that of a whole model.
            is_sure: Accept biases that speak against the given kind of gate.

        Raises:
            ValueError: If the state dict has another form, or if the biases of all layers show that the gate has the other sign.

        >>> other = nn.ModuleDict({"H": nn.Linear(3, 3), "T": nn.Linear(3, 3)})
        >>> DenseHighway.from_state_dict(other.state_dict(), "separate", gate="transform", activation="relu")
        DenseHighway(width=3, layers=1, activation=relu, gate_bias=-1, carry=coupled)
        """
        found = convert(state, form, gate, activation, names, prefix, is_sure)
        layers, _, width = found.weight.shape
        stack = cls(width, layers=layers, activation=found.activation)
        with torch.no_grad():
            stack.weight, stack.bias = nn.Parameter(found.weight.clone()), nn.Parameter(found.bias.clone())
        return stack

    @property
    def num_layers(self) -> int:
        """Number of layers of this module."""
        return self.weight.shape[0]

    @property
    def kernel_kind(self) -> str | None:
        """Its name in the compiled operators; None with an independent carry gate, which they do not support."""
        return "highway" if self.carry == "coupled" else None

    @property
    def gate_bias(self) -> Tensor:
        """The transform gate biases b_T, a view of shape (layers, width)."""
        return self.bias[:, self.width : 2 * self.width]

    @property
    def gate_weight(self) -> Tensor:
        """The transform gate weights W_T, a view of shape (layers, width, width)."""
        return self.weight[:, self.width : 2 * self.width]

    @property
    def carry_bias(self) -> Tensor:
        """The biases of an independent carry gate, a view of shape (layers, width); (layers, 0) if coupled."""
        return self.bias[:, 2 * self.width :]

    @property
    def carry_weight(self) -> Tensor:
        """The weights of an independent carry gate, a view of shape (layers, width, width); (layers, 0, width) if coupled."""
        return self.weight[:, 2 * self.width :]

    @overload
    def forward(self, x: Tensor, return_gates: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, x: Tensor, return_gates: Literal[True]) -> tuple[Tensor, ...]: ...

    @overload
    def forward(self, x: Tensor, return_gates: bool) -> Tensor | tuple[Tensor, ...]: ...

    def forward(self, x: Tensor, return_gates: bool = False) -> Tensor | tuple[Tensor, ...]:
        """Compute the output y of the last layer; with `return_gates` also T, and C if the carry gate is independent.

        Args:
            x: Input of shape (..., width).
            return_gates: Return (y, T) or (y, T, C), with gates of shape (layers, ..., width), or (..., width) for a single layer.
        """
        if is_foreign(x):
            return not_a_tensor(self, x, return_gates=return_gates)
        if self.observer is not None:
            return self._observed(x, self.observer, return_gates)
        if not return_gates:
            if (y := fused(self, x)) is not None:
                return y
            check_features(self, x, self.weight, self.width)
            return separate(through(lambda x, weight, bias: self._layer(x, weight, bias)[0], x, open_layers(self), self.recomputes), x)
        if (found := fused_inside(self, x)) is not None:
            y, _, t = found
            return self._with_gates(y, [(gate,) for gate in t])
        check_features(self, x, self.weight, self.width)
        gates: list[tuple[Tensor, ...]] = []
        y = x
        for number in range(1, self.num_layers + 1):
            y, _, *own = self._inside(number, y)
            gates.append(tuple(own))
        return self._with_gates(separate(y, x), gates)

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def _with_gates(self, y: Tensor, gates: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Combine the output and the gates of each layer into the return value."""
        if self.single:
            return y, *gates[0]
        if not gates:
            parts = 1 if self.carry == "coupled" else 2
            return y, *(y.new_empty((0, *y.shape)) for _ in range(parts))
        return y, *(torch.stack(gate) for gate in zip(*gates, strict=True))

    def _observed(self, x: Tensor, observer: Observer, return_gates: bool) -> Tensor | tuple[Tensor, ...]:
        """Do what `forward` does, and call the observer for each layer."""
        check_features(self, x, self.weight, self.width)
        given, found, gates = x, fused_inside(self, x), []
        for number in range(1, self.num_layers + 1):
            if found is None:
                x, h, *own = self._inside(number, x)
            else:
                y, states, opened = found
                h, *own = states[number - 1], opened[number - 1]
                x = y if number == self.num_layers else mix(x, h, *own)
            gates.append(tuple(own))
            observer(number, output=x, state=h, transform=own[0], carry=own[1] if len(own) > 1 else None)
        x = separate(x, given)
        return self._with_gates(x, gates) if return_gates else x

    def _inside(self, number: int, x: Tensor) -> tuple[Tensor, ...]:
        """Return output, block state and gates of one layer, closed or not."""
        if number in self.closed_layers:
            zeros = torch.zeros_like(x)
            return (x, zeros, zeros) if self.carry == "coupled" else (x, zeros, zeros, torch.ones_like(x))
        return self._layer(x, self.weight[number - 1], self.bias[number - 1])

    def _layer(self, x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        """Return output, block state and gates of one open layer."""
        z = F.linear(x, weight, bias)  # (..., parts·width)
        h, *pre_gates = z.split(self.width, dim=-1)
        h, gates = self._act(h), tuple(torch.sigmoid(gate) for gate in pre_gates)
        return mix(x, h, *gates), h, *gates  # (..., width) each

    def without(self, layers: Iterable[int]) -> "DenseHighway":
        """Return a new stack without these layers (numbered from 1); it computes the same as closing them, in less time."""
        shorter = without_layers(self, layers)
        shorter.single, shorter.closed_layers = False, frozenset()
        return shorter

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return (
            f"width={self.width}, layers={self.num_layers}, activation={self.activation}, "
            f"gate_bias={self.start_gate_bias:g}, carry={self.carry}"
        )
