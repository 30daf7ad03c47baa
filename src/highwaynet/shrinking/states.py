"""What happens to the signal in each closable layer: its direction, its gates, and its effect on the loss."""

import copy
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from highwaynet.analysis.watching import Progress
from highwaynet.data.dataset import Split
from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.depth_lstm import DepthLSTM
from highwaynet.layers.lesion import Closable
from highwaynet.networks.layerwise import layerwise
from highwaynet.networks.network import Network
from highwaynet.training.objective import standard_objective

MOST_VALUES = 2**25
"""Numbers of double precision that are in memory at once, about."""


@dataclass(frozen=True)
class LayerStates:
    """Means over samples, for closable layers 1 to n."""

    rows: tuple[tuple[int, ...], ...]
    """The numbers of layers that keep the shape of their input and follow each other without another module between them."""
    angles: Tensor
    """(n, n + 1): angles[i − 1, j] is the angle between the input of layer i and the output of layer j, divided by π; NaN outside rows."""
    influence: tuple[float, ...]
    """1 − cosine of input and output."""
    opening: tuple[float | None, ...]
    """Mean of the transform gates; None for layers without gates."""
    taylor: tuple[float, ...]
    """First-order estimate of the absolute change of a sample's loss if the layer copies its input; NaN if it was not asked for."""


def measure_states(
    network: Network, split: Split, batch_size: int, *, gradients: bool = False, progress: Progress | None = None
) -> LayerStates:
    """Run samples through the layers one by one.

    Args:
        network: The network; it stays as it is.
        split: The samples.
        batch_size: Samples at a time.
        gradients: Whether to compute `taylor`, which needs a backward pass.
        progress: Called with (done, total) samples.
    """
    pieces = [piece.module for piece in layerwise(copy.deepcopy(network).eval())]
    batch_size = min(batch_size, _most_at_once(network))
    sums: _Sums | None = None
    objective = standard_objective(split.preparation.record.task)
    weights, done = next(network.parameters()), 0
    for inputs, targets in split.batches(batch_size):
        with torch.set_grad_enabled(gradients):
            x, before, after, gates = inputs.to(weights).requires_grad_(gradients), list[Tensor](), list[Tensor](), list[Tensor | None]()
            for piece in pieces:
                if isinstance(piece, Closable):
                    before.append(x)
                    x, gate = _with_gate(piece, x)
                    after.append(x)
                    gates.append(gate)
                else:
                    x = piece(x)
            sums = sums or _Sums(_rows(pieces, before, after), len(after))
            if gradients:
                loss = objective.measure(x, targets.to(weights.device)) * len(targets)
                sums.add_taylor(before, after, torch.autograd.grad(loss, after))
        sums.add([state.detach() for state in before], [state.detach() for state in after], gates)
        done += len(targets)
        if progress:
            progress(done, len(split))
    if sums is None:
        raise ValueError("there are no samples to send through the network")
    return sums.means(done, gradients=gradients)


def _most_at_once(network: Network) -> int:
    """Return how many samples fit into about a gigabyte: the cosines of all pairs of layers, and the outputs of all layers."""
    layers = network.plan.closable
    values = max(prod(after) for _, _, after in network.plan.walk())
    return max(1, MOST_VALUES // ((layers + 1) ** 2 + 2 * layers * values))


def _with_gate(layer: nn.Module, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return a layer's output, and its transform gates if it has any."""
    if isinstance(layer, DenseHighway | ConvHighway | DepthLSTM):
        output, gate, *_ = layer(x, return_gates=True)
        return output, gate.detach()
    return layer(x), None


def _rows(pieces: list[nn.Module], before: list[Tensor], after: list[Tensor]) -> tuple[tuple[int, ...], ...]:
    """Return the rows of layers that keep the shape of their input."""
    rows: list[list[int]] = [[]]
    number = 0
    for piece in pieces:
        number += isinstance(piece, Closable)
        if isinstance(piece, Closable) and before[number - 1].shape == after[number - 1].shape:
            rows[-1].append(number)
        elif rows[-1]:
            rows.append([])
    return tuple(tuple(row) for row in rows if row)


class _Sums:
    """Sums over samples."""

    def __init__(self, rows: tuple[tuple[int, ...], ...], layers: int) -> None:
        self.rows = rows
        self.angles = torch.full((layers, layers + 1), torch.nan, dtype=torch.float64)
        self.influence, self.opening, self.taylor = torch.zeros(3, layers, dtype=torch.float64)
        self.gated = [False] * layers

    def add(self, before: list[Tensor], after: list[Tensor], gates: list[Tensor | None]) -> None:
        """Count a batch, given input, output and gates of each layer."""
        for row in self.rows:
            states = [before[row[0] - 1], *(after[number - 1] for number in row)]
            self._add_row(row, torch.stack([nn.functional.normalize(state.flatten(1).double(), dim=1) for state in states]))
        for place, gate in enumerate(gates):
            if gate is not None:
                self.gated[place] = True
                self.opening[place] += gate.double().mean() * len(after[place])

    def _add_row(self, row: tuple[int, ...], directions: Tensor) -> None:
        """Count the directions of a row's states, (states, samples, values)."""
        cosines = torch.einsum("isd,jsd->ijs", directions, directions).clamp(-1, 1)
        angles = (cosines.arccos() / torch.pi).sum(2)
        for start, first in enumerate(row):
            self.influence[first - 1] += (1 - cosines[start, start + 1]).sum()
            for end in range(start + 1, len(row) + 1):
                place = self.angles[first - 1, row[end - 1] : row[end - 1] + 1]
                place.copy_(place.nan_to_num(0.0) + angles[start, end])

    def add_taylor(self, before: list[Tensor], after: list[Tensor], gradients: tuple[Tensor, ...]) -> None:
        """Count a batch, given the gradients of each sample's loss with respect to each layer's output."""
        for place, (x, y, gradient) in enumerate(zip(before, after, gradients, strict=True)):
            if x.shape == y.shape:
                self.taylor[place] += ((x - y).detach() * gradient).double().flatten(1).sum(1).abs().sum()

    def means(self, samples: int, *, gradients: bool) -> LayerStates:
        """Return the means."""
        opening = tuple(value if gated else None for value, gated in zip((self.opening / samples).tolist(), self.gated, strict=True))
        taylor = (self.taylor / samples).tolist() if gradients else [float("nan")] * len(self.taylor)
        return LayerStates(self.rows, self.angles / samples, tuple((self.influence / samples).tolist()), opening, tuple(taylor))
