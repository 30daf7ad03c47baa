"""Criteria: in which order layers are removed. Each ranks the removable layers of a network from training samples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from highwaynet.analysis.closing import closing, score_routes
from highwaynet.analysis.greedy import greedy_order, removable_layers
from highwaynet.analysis.watching import Progress, batch_size
from highwaynet.base.errors import InputError
from highwaynet.base.randomness import generator_for
from highwaynet.data.dataset import Split
from highwaynet.layers.lesion import count_layers
from highwaynet.networks.network import Network
from highwaynet.shrinking.names import Criterion
from highwaynet.shrinking.states import LayerStates, measure_states


@dataclass(frozen=True)
class Ranking:
    """Which layers a criterion removes, for every number of removed layers."""

    criterion: Criterion
    removed: tuple[tuple[int, ...], ...]
    """removed[k]: the numbers of the k layers that are removed first, in ascending order. They need not contain those of removed[k − 1]."""

    @staticmethod
    def of(criterion: Criterion, order: Sequence[int]) -> "Ranking":
        """Return the ranking that removes layers in this order.

        >>> Ranking.of("random", [3, 1, 2]).removed
        ((), (3,), (1, 3), (1, 2, 3))
        """
        return Ranking(criterion, tuple(tuple(sorted(order[:count])) for count in range(len(order) + 1)))


def rank(
    criterion: Criterion,
    network: Network,
    split: Split,
    *,
    seed: int = 0,
    states: LayerStates | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """Rank the removable layers of a network.

    Args:
        criterion: The criterion:
            greedy: remove the layer whose removal raises the loss least, and rank the others again;
            lesion: the loss with each single layer closed;
            influence: 1 − cosine of a layer's input and output (block influence);
            angular: angle between input and output of whole spans of layers;
            gates: the mean opening of the transform gates;
            taylor: first-order estimate of the change of the loss;
            random: a random order.
        network: A network with highway or residual layers.
        split: Training samples.
        seed: Seed of the random order.
        states: What was measured of these samples already (`measure_states`), for influence, angular and gates.
        progress: Called with (done, total).

    Raises:
        InputError: If no layer can be removed, or the criterion does not apply to the network.
    """
    layers = removable_layers(network.plan)
    if criterion == "random":
        drawn = torch.randperm(len(layers), generator=generator_for(seed, "removal"))
        return Ranking.of(criterion, [layers[place] for place in drawn.tolist()])
    if criterion == "greedy":
        return Ranking.of(criterion, greedy_order(network, split, layers, progress)[0])
    if criterion == "lesion":
        routes = {number: closing(count_layers(network), {number}) for number in layers}
        scores = score_routes(network, split, routes.values(), progress)
        return Ranking.of(criterion, sorted(layers, key=lambda number: scores[routes[number]].loss))
    if states is None or criterion == "taylor":  # which needs gradients
        states = measure_states(network, split, batch_size(network), gradients=criterion == "taylor", progress=progress)
    if criterion == "angular":
        return Ranking(criterion, _spans(states, layers))
    values = _VALUES[criterion](states)
    return Ranking.of(criterion, sorted(layers, key=lambda number: values[number - 1]))


def _gate_values(states: LayerStates) -> list[float]:
    if any(value is None for value in states.opening):
        raise InputError("criterion = 'gates': the network has residual layers, which have no gates; choose another criterion")
    return [value or 0.0 for value in states.opening]


_VALUES: dict[Criterion, Callable[[LayerStates], Sequence[float]]] = {
    "influence": lambda states: states.influence,
    "gates": _gate_values,
    "taylor": lambda states: states.taylor,
}


def _spans(states: LayerStates, layers: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return for each count the layers of disjoint spans with the smallest sum of angles, at most one span in each row of layers."""
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for row in states.rows:
        inside = [number for number in row if number in set(layers)]
        options = [(0.0, tuple[int, ...]()), *(_best_span(states.angles, inside, count) for count in range(1, len(inside) + 1))]
        merged: list[tuple[float, tuple[int, ...]]] = []
        for count in range(len(best) + len(options) - 1):
            pairs = [(best[count - own], options[own]) for own in range(len(options)) if 0 <= count - own < len(best)]
            merged.append(min((one[0] + two[0], (*one[1], *two[1])) for one, two in pairs))
        best = merged
    return tuple(tuple(sorted(removed)) for _, removed in best)


def _best_span(angles: Tensor, row: Sequence[int], count: int) -> tuple[float, tuple[int, ...]]:
    """Return the span of `count` consecutive layers with the smallest angle between its input and output."""
    spans = [tuple(row[first : first + count]) for first in range(len(row) - count + 1)]
    return min((float(angles[span[0] - 1, span[-1]]), span) for span in spans if span[-1] - span[0] == count - 1)
