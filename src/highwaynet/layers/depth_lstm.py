"""LSTM cells over depth (Srivastava, Greff and Schmidhuber 2015, footnote 2), one or many.

The footnote says that the first deep networks trained in pilot runs used "a more complex block design closely resembling an LSTM block
'unrolled in time'". It gives no equations. We read it as an LSTM cell (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al.
2000) whose time is depth. These choices are ours:

- Each layer has parameters of its own, as a highway layer has; an LSTM over time shares them.
- The gates see the output of the layer before, and nothing else: no peepholes, no input from outside.
- The cell starts as the input of the first layer, not at 0. Otherwise closed input gates would leave nothing to carry.
- The input gate starts at the gate bias, the forget gate at its opposite: the layer starts by carrying its cell, as a highway layer with
  an independent carry gate starts by carrying its input. The output gate starts at bias 0.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, overload

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.utils.checkpoint import checkpoint

from highwaynet.layers.activations import activation_function
from highwaynet.layers.checks import check_features, check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.gate_bias import GateBias, resolve_gate_bias
from highwaynet.layers.gates import mix
from highwaynet.layers.initialisation import DEFAULT_STD, initialise_
from highwaynet.layers.lesion import separate
from highwaynet.layers.names import Activation, Init
from highwaynet.layers.observation import Observer
from highwaynet.layers.recomputation import segments
from highwaynet.layers.stacking import open_layers, stacked_parameters, without_layers


class Cell:
    """Carries the cell from one module to the next, if each has some layers of a stack (`networks/layerwise.py`)."""

    value: Tensor | None = None


class DepthLSTM(nn.Module):
    """LSTM cells over depth in one module: c ← i·g + f·c and y = o·activation(c), with g = activation(W_g·x + b_g) and three gates.

    The gates i, f and o are sigmoid(W·x + b), where x is the output of the layer before. The cell c goes from layer to layer; that of the
    first layer is the module's input. `weight` (layers, 4·width, width) and `bias` (layers, 4·width) hold g, i, f and o below each other.
    A closed layer copies its input and its cell.

    Args:
        width: Number of cells.
        layers: Number of layers.
        activation: tanh, relu, sigmoid or identity; of the candidate g, and of the cell on its way out.
        gate_bias: Initial value of b_i; b_f starts at its opposite. "auto" follows from the depth, see `auto_gate_bias`.
        depth: Number of layers of the whole network, for "auto"; by default the layers of this module.
        init: Initialisation of the four matrices, each with its own fans. With "he" the gates use glorot-normal.
        init_std: Standard deviation for ``init="normal"``.
        generator: Random generator for the weights; torch's global generator if None.

    >>> layers = DepthLSTM(35, layers=99)
    >>> layers(torch.zeros(2, 35)).shape
    torch.Size([2, 35])
    >>> [round(bias.mean().item(), 3) for bias in (layers.gate_bias, layers.forget_bias)]
    [-3.987, 3.987]
    """

    closed_layers: frozenset[int]
    observer: Observer | None = None
    cell: Cell | None = None
    """Where the last cell goes, and the first one comes from unless the module `begins`."""
    begins = True
    """Whether the first cell is the input."""
    recomputes = False
    """Whether activations are computed again in the backward pass; see `recompute`."""

    def __init__(
        self,
        width: int,
        *,
        layers: int = 1,
        activation: Activation = "tanh",
        gate_bias: GateBias = "auto",
        depth: int | None = None,
        init: Init = "glorot-uniform",
        init_std: float = DEFAULT_STD,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.width, self.activation, self.init, self.init_std = width, activation, init, init_std
        check_sizes(width=width, depth=layers if depth is None else depth)
        self.start_gate_bias = resolve_gate_bias(gate_bias, layers if depth is None else depth)
        self.closed_layers = frozenset()
        self._act = activation_function(activation)
        self.weight, self.bias = stacked_parameters(layers, 4 * width, width)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Reinitialize the parameters: weights by `init`, b_g and b_o at 0, b_i at the gate bias, b_f at its opposite."""
        gate_init: Init = "glorot-normal" if self.init == "he" else self.init
        with torch.no_grad():
            for layer in self.weight:
                for number, part in enumerate(layer.split(self.width)):
                    initialise_(part, gate_init if number else self.init, std=self.init_std, generator=generator)
            starts = (0.0, self.start_gate_bias, -self.start_gate_bias, 0.0)
            for part, start in zip(self.bias.split(self.width, dim=1), starts, strict=True):
                part.fill_(start)

    @property
    def num_layers(self) -> int:
        """Number of layers of this module."""
        return self.weight.shape[0]

    @property
    def gate_bias(self) -> Tensor:
        """The biases b_i of the input gates, a view of shape (layers, width)."""
        return self.bias[:, self.width : 2 * self.width]

    @property
    def forget_bias(self) -> Tensor:
        """The biases b_f of the forget gates, a view of shape (layers, width)."""
        return self.bias[:, 2 * self.width : 3 * self.width]

    @overload
    def forward(self, x: Tensor, return_gates: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, x: Tensor, return_gates: Literal[True]) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...

    @overload
    def forward(self, x: Tensor, return_gates: bool) -> Tensor | tuple[Tensor, ...]: ...

    def forward(self, x: Tensor, return_gates: bool = False) -> Tensor | tuple[Tensor, ...]:
        """Compute the output y of the last layer; with `return_gates` also the input, forget and output gates of all layers.

        Args:
            x: Input of shape (..., width), which is also the first cell.
            return_gates: Return (y, i, f, o), with gates of shape (layers, ..., width).
        """
        if is_foreign(x):
            return not_a_tensor(self, x, return_gates=return_gates)
        check_features(self, x, self.weight, self.width)
        given, cell, layers = x, x, open_layers(self)
        gates: list[Tensor] = []
        if not self.begins and self.cell is not None and self.cell.value is not None:
            cell = self.cell.value
        if return_gates or self.observer is not None:
            x, cell, gates = self._observed(x, cell)
        elif not self.recomputes or not torch.is_grad_enabled():
            x, cell = self._through(x, cell, layers)
        else:
            for part in segments(layers):
                x, cell = checkpoint(self._through, x, cell, part, use_reentrant=False, preserve_rng_state=False)
        if self.cell is not None:
            self.cell.value = cell
        x = separate(x, given)
        return (x, *gates) if return_gates else x

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def _through(self, x: Tensor, cell: Tensor, layers: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Return output and cell after some open layers."""
        for weight, bias in layers:
            x, cell, *_ = self._layer(x, cell, weight, bias)
        return x, cell

    def _layer(self, x: Tensor, cell: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        """Return output, cell, candidate and the gates i, f and o of one open layer."""
        candidate, *gates = F.linear(x, weight, bias).split(self.width, dim=-1)  # (..., width) each
        g = self._act(candidate)
        i, f, o = (torch.sigmoid(gate) for gate in gates)
        cell = mix(cell, g, i, f)
        return o.to(cell.dtype) * self._act(cell), cell, g, i, f, o

    def _observed(self, x: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return output, cell and the gates of all layers, and call the observer for each layer."""
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        for number, (weight, bias) in enumerate(zip(self.weight.unbind(), self.bias.unbind(), strict=True), start=1):
            if number in self.closed_layers:
                g = i = o = torch.zeros_like(x)
                f = torch.ones_like(x)
            else:
                x, cell, g, i, f, o = self._layer(x, cell, weight, bias)
            found.append((i, f, o))
            if self.observer is not None:
                self.observer(number, output=x, state=g, transform=i, carry=f)
        gates = [torch.stack(gate) for gate in zip(*found, strict=True)] if found else [x.new_empty((0, *x.shape))] * 3
        return x, cell, gates

    def without(self, layers: Iterable[int]) -> "DepthLSTM":
        """Return a new stack without these layers, numbered from 1; it computes the same as closing them, in less time."""
        shorter = without_layers(self, layers)
        shorter.closed_layers = frozenset()
        return shorter

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return f"width={self.width}, layers={self.num_layers}, activation={self.activation}, gate_bias={self.start_gate_bias:g}"
