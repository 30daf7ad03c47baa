"""Recurrent highway layers (Zilly, Srivastava, Koutník and Schmidhuber 2017, "Recurrent Highway Networks").

At each time step the state passes through several highway layers, the micro-layers; the first of them also sees the input. This file is
the readable specification: the fused kernel (kernels/recurrent.cpp) must compute the same.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.checkpoint import checkpoint

from highwaynet.kernels.recurrent import can_recur, recurrent_inside, run_recurrent
from highwaynet.layers.activations import activation_function
from highwaynet.layers.checks import check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.dropout import Dropout
from highwaynet.layers.gate_bias import resolve_gate_bias
from highwaynet.layers.gates import mix
from highwaynet.layers.names import Activation, Carry
from highwaynet.layers.observation import Observer
from highwaynet.layers.recomputation import segment_size
from highwaynet.layers.sequences import PackedRows, rows_of
from highwaynet.layers.stacking import stacked_parameters, without_layers

Lengths = Tensor | Sequence[int]


class Inside(NamedTuple):
    """What the micro-layers compute, (depth, rows, width) each."""

    outputs: Tensor
    states: Tensor
    transform: Tensor
    carry: Tensor | None


class RecurrentHighway(nn.Module):
    """Recurrent highway layer: at each time step, `depth` times s ← h·t + s·(1 − t), the input x only at the first.

    With h = tanh(W_H·x + R_H·s + b_H) and t = sigmoid(W_T·x + R_T·s + b_T); each micro-layer has its own R and b. It is called like
    `nn.GRU` and returns the same: the outputs of all steps, and the last state. `input_weight` (parts·width, in_features), `weight`
    (depth, parts·width, width) and `bias` (depth, parts·width) hold H, T and, with an independent carry gate, C below each other.

    The dropout is variational (Gal & Ghahramani 2016): one mask for each sequence, the same at all steps and micro-layers. The mask of the
    states applies to what R sees, not to what is carried.

    Args:
        in_features: Size of the input at each step.
        width: Size of the state.
        depth: Number of micro-layers at each step.
        activation: tanh, relu, sigmoid or identity.
        gate_bias: Initial value of b_T. Zilly et al. use −2 for words and −4 for characters. The bias of an independent carry gate starts
            at −gate_bias, so that C starts near 1 − T.
        carry: "coupled" (C = 1 − T) or "independent", s ← h·t + s·c.
        batch_first: Whether inputs and outputs are (batch, time, features) instead of (time, batch, features). States are always
            (1, batch, width).
        input_dropout: Probability for the inputs.
        state_dropout: Probability for the states.
        output_dropout: Probability for the outputs; the last state is returned without it.
        init_range: Initial weights are uniform between −init_range and init_range; b_H starts at 0.
        generator: Random generator for the weights; torch's global generator if None.

    >>> layer = RecurrentHighway(10, 20, depth=3, batch_first=True)
    >>> outputs, last = layer(torch.zeros(2, 7, 10))
    >>> outputs.shape, last.shape
    (torch.Size([2, 7, 20]), torch.Size([1, 2, 20]))
    """

    closed_layers: frozenset[int]
    observer: Observer | None = None
    recomputes = False
    """Whether states are computed again in the backward pass, in segments of about √steps steps; see `recompute`."""

    def __init__(
        self,
        in_features: int,
        width: int,
        depth: int = 5,
        *,
        activation: Activation = "tanh",
        gate_bias: float = -2.0,
        carry: Carry = "coupled",
        batch_first: bool = False,
        input_dropout: float = 0.0,
        state_dropout: float = 0.0,
        output_dropout: float = 0.0,
        init_range: float = 0.04,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        if carry not in {"coupled", "independent"}:
            raise ValueError(f"unknown carry {carry!r}: choose coupled or independent")
        check_sizes(in_features=in_features, width=width, depth=depth)
        parts = 2 if carry == "coupled" else 3
        self.in_features, self.width, self.batch_first = in_features, width, batch_first
        self.activation, self.carry, self.init_range = activation, carry, init_range
        self.start_gate_bias = resolve_gate_bias(gate_bias, depth)
        self.closed_layers = frozenset()
        self._act = activation_function(activation)
        self.weight, self.bias = stacked_parameters(depth, parts * width, width)
        self.input_weight = nn.Parameter(torch.empty(parts * width, in_features))
        self.input_dropout, self.state_dropout, self.output_dropout = map(Dropout, (input_dropout, state_dropout, output_dropout))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Reinitialize the parameters: weights uniform, b_H at 0, b_T at the gate bias, b_C at its opposite."""
        with torch.no_grad():
            for weight in (self.input_weight, self.weight):
                weight.uniform_(-self.init_range, self.init_range, generator=generator)
            starts = (0.0, self.start_gate_bias, -self.start_gate_bias)
            for part, start in zip(self.bias.split(self.width, dim=1), starts, strict=False):
                part.fill_(start)

    @property
    def num_layers(self) -> int:
        """Number of micro-layers, which can be closed and observed like the layers of a stack."""
        return self.weight.shape[0]

    @property
    def gate_bias(self) -> Tensor:
        """The transform gate biases b_T, a view of shape (depth, width)."""
        return self.bias[:, self.width : 2 * self.width]

    @overload
    def forward(self, x: Tensor, hx: Tensor | None = None, *, lengths: Lengths | None = None) -> tuple[Tensor, Tensor]: ...

    @overload
    def forward(self, x: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...

    @overload
    def forward(
        self, x: Tensor | PackedSequence, hx: Tensor | None = None, *, lengths: Lengths | None = None, return_gates: bool = False
    ) -> tuple[Any, ...]: ...

    def forward(
        self, x: Tensor | PackedSequence, hx: Tensor | None = None, *, lengths: Lengths | None = None, return_gates: bool = False
    ) -> tuple[Any, ...]:
        """Compute (outputs, last state), and with `return_gates` also T, and C if the carry gate is independent.

        Args:
            x: Inputs (time, batch, in_features), or (batch, time, in_features) with `batch_first`, or (time, in_features) for one sequence,
                or a packed sequence.
            hx: State before the first step, (1, batch, width), or (1, width) for one sequence; 0 by default.
            lengths: Number of steps of each sequence of a padded batch. Outputs after the end are 0, and the last state is that at the end.
            return_gates: Also return gates; they have the shape of the outputs with the micro-layers as first axis. Of a packed
                sequence, it is the shape of its `data`.

        Raises:
            ValueError: If shapes or lengths do not fit.
        """
        if is_foreign(x) and not isinstance(x, PackedSequence):
            return not_a_tensor(self, x, (hx,), lengths=lengths, return_gates=return_gates)  # type: ignore[return-value]
        rows = rows_of(x, lengths, self.batch_first, self.in_features)
        start = rows.start(hx, self.width, self.weight)  # (batch, width)
        data = rows.data  # (rows, in_features)
        if self.input_dropout.is_active():
            data = data * rows.spread(self._mask(self.input_dropout, rows, self.in_features, data))
        mask = self._mask(self.state_dropout, rows, self.width, start) if self.state_dropout.is_active() else None
        inside = None
        if return_gates or self.observer is not None:
            y, inside = self._inside(data, start, mask, rows.counts)
        else:
            y = self._through(data, start, mask, rows.counts)
        last = rows.last(y)
        if self.output_dropout.is_active():
            y = y * rows.spread(self._mask(self.output_dropout, rows, self.width, y))
        if inside is not None and self.observer is not None:
            self._report(rows, inside, self.observer)
        if not return_gates or inside is None:
            return rows.back(y), last
        gates = [inside.transform] if inside.carry is None else [inside.transform, inside.carry]
        return rows.back(y), last, *(rows.back_data(gate) for gate in gates)

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def _mask(self, dropout: Dropout, rows: PackedRows, features: int, like: Tensor) -> Tensor:
        """Return the factors of each sequence, (batch, features), in the order of the rows."""
        return rows.ordered(dropout(like.new_ones(rows.batch, features)))

    def _through(self, data: Tensor, start: Tensor, mask: Tensor | None, counts: Tensor) -> Tensor:
        """Return the states after each step, (rows, width)."""
        if not self.recomputes or not torch.is_grad_enabled():
            return self._steps(data, start, mask, counts)
        found = list[Tensor]()
        for part in counts.split(segment_size(len(counts))):
            rows, batch, last = int(part.sum()), int(part[0]), int(part[-1])
            own, data = data[:rows], data[rows:]
            own_mask = None if mask is None else mask[:batch]
            found.append(checkpoint(self._steps, own, start[:batch], own_mask, part, use_reentrant=False, preserve_rng_state=False))
            start = found[-1][rows - last :]
        return torch.cat(found)

    def _steps(self, data: Tensor, start: Tensor, mask: Tensor | None, counts: Tensor) -> Tensor:
        weights = (self.input_weight, self.weight, self.bias)
        if can_recur(data, start, *weights, mask, counts):
            return run_recurrent(data, start, *weights, mask, counts, self.activation, self.closed_layers)
        return self._loop(data, start, mask, counts, None)

    def _loop(self, data: Tensor, start: Tensor, mask: Tensor | None, counts: Tensor, seen: list[list[Tensor]] | None) -> Tensor:
        """Compute the states after each step; `seen` takes output, H and gates of each micro-layer of each step, in this order."""
        found = list[Tensor]()
        parameters = list(zip(self.weight.unbind(), self.bias.unbind(), strict=True))
        is_even = len(data) == len(counts) * len(start)
        for x in data.split(len(start) if is_even else counts.tolist()):
            s = (found[-1] if found else start)[: len(x)]  # (sequences that go on, width)
            factor = None if mask is None else mask[: len(x)]
            for number, (weight, bias) in enumerate(parameters, start=1):
                if number in self.closed_layers:
                    zeros = torch.zeros_like(s)
                    inner = [zeros, zeros] if self.carry == "coupled" else [zeros, zeros, torch.ones_like(s)]
                else:
                    z = F.linear(s if factor is None else s * factor, weight, bias)  # (sequences, parts·width)
                    if number == 1:
                        z = z + F.linear(x, self.input_weight)
                    h, *gates = z.split(self.width, dim=-1)
                    inner = [self._act(h), *(torch.sigmoid(gate) for gate in gates)]
                    s = mix(s, *inner)
                if seen is not None:
                    seen.append([s, *inner])
            found.append(s)
        return torch.cat(found)

    def _inside(self, data: Tensor, start: Tensor, mask: Tensor | None, counts: Tensor) -> tuple[Tensor, Inside]:
        """Return the states after each step, and what the micro-layers compute."""
        weights = (self.input_weight, self.weight, self.bias)
        needs_graph = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (data, start, *weights))
        if not needs_graph and can_recur(data, start, *weights, mask, counts):
            y, (before, h, t, *c) = recurrent_inside(data, start, *weights, mask, counts, self.activation, self.closed_layers)
            for number in self.closed_layers if c else ():
                c[0][number - 1] = 1.0
            return y, Inside(torch.cat((before[1:], y[None])), h, t, c[0] if c else None)
        seen = list[list[Tensor]]()
        y = self._loop(data, start, mask, counts, seen)
        depth = self.num_layers
        parts = [torch.stack([torch.cat(part[number::depth]) for number in range(depth)]) for part in zip(*seen, strict=True)]
        return y, Inside(parts[0], parts[1], parts[2], parts[3] if len(parts) > 3 else None)

    def _report(self, rows: PackedRows, inside: Inside, observer: Observer) -> None:
        """Call the observer for each micro-layer, with values of shape (batch, time, width)."""
        outputs, states, transform = (rows.by_sequence(part) for part in inside[:3])
        carry = None if inside.carry is None else rows.by_sequence(inside.carry)
        real = rows.real()
        for number in range(1, self.num_layers + 1):
            at = number - 1
            own = None if carry is None else carry[at]
            observer(number, output=outputs[at], state=states[at], transform=transform[at], carry=own, real=real)

    def without(self, layers: Iterable[int]) -> "RecurrentHighway":
        """Return a new layer without these micro-layers, numbered from 1; it computes the same as closing them, in less time.

        Raises:
            ValueError: If a micro-layer does not exist, or is the first, which alone sees the input.
        """
        removed = set(layers)
        if 1 in removed:
            raise ValueError("layers = [1]: the first micro-layer cannot be removed, because only it sees the input; close it with lesion")
        shorter = without_layers(self, removed)
        shorter.closed_layers = frozenset()
        return shorter

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return (
            f"in_features={self.in_features}, width={self.width}, depth={self.num_layers}, activation={self.activation}, "
            f"gate_bias={self.start_gate_bias:g}, carry={self.carry}, batch_first={self.batch_first}"
        )
