"""Lesion studies: layers closed one by one (figure 4 of the paper), in pairs, in spans and at random, and layers in other orders."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import torch
from torch import nn

from highwaynet.analysis.analysis_records import DeletionsRecord, LesionsRecord, Origin, PairsRecord
from highwaynet.analysis.closing import Route, closing, exchangeable, score_routes
from highwaynet.analysis.watching import Progress
from highwaynet.base.arrays import Numbers
from highwaynet.base.randomness import generator_for
from highwaynet.data.dataset import Split
from highwaynet.layers.lesion import count_layers
from highwaynet.runs.run_records import Score

MOST_FOR_PAIRS = 200
"""Largest number of layers for pairs: time grows with its square, memory with its cube."""


def analyse_lesions(network: nn.Module, split: Split, *, origin: Origin, progress: Progress | None = None) -> LesionsRecord:
    """Score the intact network, and the network with each single layer closed.

    Args:
        network: Any model with closable layers. Layers that are already closed stay closed.
        split: The samples.
        origin: Fields of the record that say where it comes from.
        progress: Called with (done, total).
    """
    layers = count_layers(network)
    intact, *closed = [closing(layers, numbers) for numbers in ((), *((number,) for number in range(1, layers + 1)))]
    scores = score_routes(network, split, [intact, *closed], progress)
    return LesionsRecord(**origin.fields(len(split)), intact=scores[intact], closed=tuple(scores[route] for route in closed))


def analyse_pairs(network: nn.Module, split: Split, *, origin: Origin, progress: Progress | None = None) -> PairsRecord:
    """Score the network with every pair of layers closed, and with every span; arguments are those of `analyse_lesions`.

    Raises:
        ValueError: If there are too many layers.
    """
    layers = count_layers(network)
    if layers > MOST_FOR_PAIRS:
        raise ValueError(f"{layers} layers can be closed, and {layers**2:,} pairs and spans are too many: at most {MOST_FOR_PAIRS} layers")
    intact = closing(layers, ())
    ends = [(first, last) for first in range(1, layers + 1) for last in range(first, layers + 1)]
    pairs = {(first, last): closing(layers, {first, last}) for first, last in ends}
    spans = {(first, last): closing(layers, range(first, last + 1)) for first, last in ends}
    scores = score_routes(network, split, [intact, *pairs.values(), *spans.values()], progress)
    pair_loss, span_loss = np.full((2, layers, layers), np.nan)
    for first, last in ends:
        pair_loss[first - 1, last - 1] = pair_loss[last - 1, first - 1] = scores[pairs[first, last]].loss
        span_loss[first - 1, last - 1] = scores[spans[first, last]].loss
    return PairsRecord(**origin.fields(len(split)), intact=scores[intact], pair_loss=pair_loss, span_loss=span_loss)


def analyse_deletions(
    network: nn.Module, split: Split, *, origin: Origin, seed: int = 0, draws: int = 10, progress: Progress | None = None
) -> DeletionsRecord:
    """Score the network with random sets of layers closed, and with random swaps of layers (Veit et al. 2016, sections 4.2 and 4.3).

    Args:
        network: As in `analyse_lesions`. Only layers that are `exchangeable` swap places.
        split: The samples.
        origin: Fields of the record that say where it comes from.
        seed: Seed of the draws; they depend only on it and on the layers of the network.
        draws: How many sets and orders are drawn for each number of closed layers and each number of swaps.
        progress: Called with (done, total).
    """
    layers = count_layers(network)
    groups = exchangeable(network)
    pairs = [pair for group in groups for pair in combinations(group, 2)]  # places whose layers may be swapped
    deleted, swaps = _counts(layers), _counts(sum(map(len, groups)))
    deletions = [[_deletion(layers, count, seed, draw) for draw in range(draws)] for count in deleted]
    shuffles = [[_shuffle(layers, pairs, count, seed, draw) for draw in range(draws)] for count in swaps]
    intact = closing(layers, ())
    scores = score_routes(network, split, [intact, *(route for row in deletions + shuffles for route in row)], progress)

    def table(rows: list[list[Route]], metric: str) -> Numbers:
        return _array([[_metric(scores[route], metric) for route in row] for row in rows], draws)

    return DeletionsRecord(
        **origin.fields(len(split)),
        seed=seed,
        intact=scores[intact],
        deleted=deleted,
        deletion_loss=table(deletions, "loss"),
        deletion_accuracy=table(deletions, "accuracy"),
        swaps=swaps,
        order=_array([[kendall_tau(route) for route in row] for row in shuffles], draws),
        shuffle_loss=table(shuffles, "loss"),
        shuffle_accuracy=table(shuffles, "accuracy"),
    )


def kendall_tau(order: Sequence[int]) -> float:
    """Kendall's rank correlation of distinct numbers with their ascending order: share of pairs in order minus share of the others.

    >>> kendall_tau([1, 2, 3]), kendall_tau([3, 2, 1])
    (1.0, -1.0)
    """
    ranks, pairs = np.array(order), len(order) * (len(order) - 1) // 2
    wrong = int(np.triu(ranks[:, None] > ranks).sum())
    return 1 - 2 * wrong / pairs if pairs else 1.0


def _counts(most: int) -> tuple[int, ...]:
    """Return 1, 2, 3, 5, 8, 12, …, each larger by half, up to `most`; empty if `most` is 0."""
    counts, count = [], 1
    while count < most:
        counts.append(count)
        count += (count + 1) // 2
    return (*counts, most) if most else ()


def _deletion(layers: int, count: int, seed: int, draw: int) -> Route:
    """Return the route with `count` random layers closed."""
    drawn = torch.randperm(layers, generator=generator_for(seed, "deletion", count, draw))[:count]
    return closing(layers, set((drawn + 1).tolist()))


def _shuffle(layers: int, pairs: Sequence[tuple[int, ...]], swaps: int, seed: int, draw: int) -> Route:
    """Return the route after `swaps` swaps, one after the other, of pairs drawn from `pairs`."""
    order = list(range(1, layers + 1))
    for drawn in torch.randint(len(pairs), (swaps,), generator=generator_for(seed, "shuffle", swaps, draw)).tolist():
        one, two = (place - 1 for place in pairs[drawn])
        order[one], order[two] = order[two], order[one]
    return tuple(order)


def _metric(score: Score, name: str) -> float:
    value: float | None = getattr(score, name)
    return float("nan") if value is None else value


def _array(rows: list[list[float]], draws: int) -> Numbers:
    """Return an array of shape (counts, draws), also if there are no counts."""
    return np.array(rows, dtype=np.float32).reshape(len(rows), draws)
