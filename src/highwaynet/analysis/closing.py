"""Scores of a network with many sets of its layers closed, or with its layers in other orders, without computing anything twice.

Each variant of the network is a route: which layer stands at each place. Routes are sorted, so that routes with a common beginning are
neighbours: its result for a batch is computed once and kept while later routes need it. Consecutive layers of a stack are one call of the
compiled operator. The network is not modified: its parts become separate modules that share its memory.
"""

import copy
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from highwaynet.analysis.watching import Progress
from highwaynet.data.dataset import Split
from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.conv_residual import ConvResidual
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.dense_residual import DenseResidual
from highwaynet.layers.lesion import closable_modules, lesion
from highwaynet.layers.stacking import single_layer
from highwaynet.networks.network import Network
from highwaynet.runs.run_records import Score
from highwaynet.training.evaluation import EVALUATION_BATCH, evaluate, evaluating
from highwaynet.training.measuring import Tally
from highwaynet.training.objective import standard_objective

Route = tuple[int, ...]
"""For each place the number of the layer there, counted as in `lesion`; negative if that layer is closed."""

ClosableDense = DenseHighway | DenseResidual
_MEASURED_TOGETHER = 64
"""Routes whose outputs for a batch are kept until their metrics are computed in one call."""

ClosableModule = ClosableDense | ConvHighway | ConvResidual


def closing(layers: int, closed: Collection[int]) -> Route:
    """Return the route with all layers in their order and some of them closed.

    >>> closing(4, {2, 3})
    (1, -2, -3, 4)
    """
    return tuple(-number if number in closed else number for number in range(1, layers + 1))


def score_routes(network: nn.Module, split: Split, routes: Iterable[Route], progress: Progress | None = None) -> dict[Route, Score]:
    """Score each of these variants of the network; the scores are bit-identical to those of `evaluate`.

    Layers that are already closed stay closed. The network is unchanged afterwards, also after an error.

    Args:
        network: A network of this package, or any model with highway or residual layers, which is evaluated as a whole for each route.
        split: The samples.
        routes: The variants. Only layers that are `exchangeable` may swap places.
        progress: Called with (done, total).
    """
    distinct, chain = sorted(set(routes)), _chain(network)
    with evaluating(network):
        if chain is None:
            return _one_by_one(network, split, distinct, progress)
        return _together(chain, next(network.parameters()), split, distinct, progress)


def exchangeable(network: nn.Module) -> list[list[int]]:
    """Return the numbers of layers that may swap places, in groups of at least two.

    Layers of a group have the same type and shapes, and only closable layers are between them. In models from outside this package the
    order of execution is unknown, so only layers of the same stack are exchangeable.
    """
    chain = _chain(network)
    groups = _stacks(network) if chain is None else chain.alike()
    return [group for group in groups if len(group) > 1]


# ----- Any model


def _one_by_one(network: nn.Module, split: Split, routes: Sequence[Route], progress: Progress | None) -> dict[Route, Score]:
    """Evaluate the whole network for each route."""
    scores = {}
    for done, route in enumerate(routes, start=1):
        with _rerouted(network, route):
            scores[route] = evaluate(network, split)
        if progress:
            progress(done, len(routes))
    return scores


@contextmanager
def _rerouted(network: nn.Module, route: Route) -> Iterator[None]:
    """Context manager: close and reorder the layers of a model as a route says."""
    with lesion(network, [-number for number in route if number < 0]), ExitStack() as orders:
        before = 0
        for module in closable_modules(network):
            numbers = [abs(number) - before for number in route[before : before + module.num_layers]]
            if isinstance(module, ClosableDense) and numbers != sorted(numbers):
                orders.enter_context(_reordered(module, numbers))
            before += module.num_layers
        yield


@contextmanager
def _reordered(stack: ClosableDense, numbers: Sequence[int]) -> Iterator[None]:
    """Context manager: put the layers with these numbers at places 1, 2, … of a stack; closed layers stay closed at their new places."""
    weight, bias, closed = stack.weight.data, stack.bias.data, stack.closed_layers
    order = [number - 1 for number in numbers]
    try:
        stack.weight.data, stack.bias.data = weight[order], bias[order]
        stack.closed_layers = frozenset(place for place, number in enumerate(numbers, start=1) if number in closed)
        yield
    finally:
        stack.weight.data, stack.bias.data, stack.closed_layers = weight, bias, closed


def _stacks(network: nn.Module) -> list[list[int]]:
    """Return the layer numbers of each stack."""
    groups, before = [], 0
    for module in closable_modules(network):
        if type(module) in {DenseHighway, DenseResidual}:  # parametrised modules have another type; their weights are computed
            groups.append(list(range(before + 1, before + module.num_layers + 1)))
        before += module.num_layers
    return groups


# ----- Networks of this package


class _Chain:
    """A network as a sequence of places: modules before the first, a closable layer at each place, and the modules that follow it."""

    def __init__(self, pieces: Iterable[nn.Module]) -> None:
        self.start: list[nn.Module] = []
        self._layers: list[tuple[ClosableModule, int]] = []  # for each layer its module and its number inside the module
        self._behind: list[list[nn.Module]] = []
        self._parts: dict[Route, nn.Module] = {}
        for piece in pieces:
            if isinstance(piece, ClosableModule):
                self._layers += [(piece, number) for number in range(1, piece.num_layers + 1)]
                self._behind += [[] for _ in range(piece.num_layers)]
            else:
                (self._behind[-1] if self._behind else self.start).append(piece)

    def alike(self) -> list[list[int]]:
        """Group the numbers of layers with the same type and shapes within each uninterrupted row of closable layers."""
        groups: dict[object, list[int]] = {}
        row = 0
        for number, ((module, _), behind) in enumerate(zip(self._layers, self._behind, strict=True), start=1):
            shapes = tuple(parameter.shape for parameter in module.parameters())
            groups.setdefault((row, type(module), shapes), []).append(number)
            row += bool(behind)
        return list(groups.values())

    def between(self, route: Route, first: int, last: int) -> list[nn.Module]:
        """Return the modules that lead from the state before place `first` to the state before place `last`; places count from 0."""
        modules: list[nn.Module] = []
        while first < last:
            end = first + 1
            while end < last and self._follow(abs(route[end - 1]), abs(route[end])):
                end += 1
            modules += [self._part(route[first:end]), *self._behind[end - 1]]
            first = end
        return modules

    def _follow(self, number: int, other: int) -> bool:
        """Whether the second layer follows the first in the same module."""
        return other == number + 1 and self._layers[other - 1][0] is self._layers[number - 1][0]

    def _part(self, numbers: Route) -> nn.Module:
        """Return consecutive layers of one module, negative numbers closed, as a module that shares its memory."""
        if numbers not in self._parts:
            module, first = self._layers[abs(numbers[0]) - 1]
            part: ClosableModule
            if isinstance(module, ClosableDense):
                part = single_layer(module, first)
                for name in ("weight", "bias"):
                    layers = getattr(module, name).detach()[first - 1 : first - 1 + len(numbers)]
                    setattr(part, name, nn.Parameter(layers, requires_grad=False))
            else:
                part = copy.copy(module)
            closed = (place for place, number in enumerate(numbers, 1) if number < 0 or first + place - 1 in module.closed_layers)
            part.closed_layers = frozenset(closed)
            self._parts[numbers] = part
        return self._parts[numbers]


def _chain(network: nn.Module) -> _Chain | None:
    """Return the network as a chain; None if it is not of this package, or if it has hooks or observers, which would not see the parts."""
    for module in network.modules():
        if module._forward_hooks or module._forward_pre_hooks or getattr(module, "observer", None):
            return None
    if not isinstance(network, Network) or Network not in type(network).__bases__:  # a subclass may compute something else
        return None
    pieces = list(network.in_order())
    known: list[object] = [piece for piece in pieces if type(piece) in {DenseHighway, DenseResidual, ConvHighway, ConvResidual}]
    return _Chain(pieces) if known == closable_modules(network) else None


class _Step(NamedTuple):
    """How to compute one route for a batch."""

    start: int
    """The place at which the route departs from the previous one; its state before this place is known."""
    stretches: list[tuple[list[nn.Module], int]]
    """The modules from there on, in stretches that end at each place whose state is kept, and at the end."""
    needed: frozenset[int]
    """The places from which later routes start; the states before them are kept."""


def _plan(chain: _Chain, routes: Sequence[Route]) -> list[_Step]:
    """Return the steps for sorted routes. Negative numbers sort first, so that each state is kept for a short time only."""
    starts = [0, *(_shared(*neighbours) for neighbours in pairwise(routes))]
    needed: list[frozenset[int]] = [frozenset()]
    for start in reversed(starts[1:]):
        needed.append(frozenset({start, *(place for place in needed[-1] if place < start)}))
    steps = []
    for route, start, places in zip(routes, starts, reversed(needed), strict=True):
        stops = [start, *sorted(place for place in places if place > start), len(route)]
        steps.append(_Step(start, [(chain.between(route, first, last), last) for first, last in pairwise(stops)], places))
    return steps


def _shared(route: Route, other: Route) -> int:
    """Return the length of the common beginning of two routes."""
    return next((place for place, (one, two) in enumerate(zip(route, other, strict=True)) if one != two), len(route))


def _together(chain: _Chain, weights: Tensor, split: Split, routes: Sequence[Route], progress: Progress | None) -> dict[Route, Score]:
    """Score all routes together, batch by batch."""
    record = split.preparation.record
    objective = standard_objective(record.task)
    steps = _plan(chain, routes)
    groups = [steps[first : first + _MEASURED_TOGETHER] for first in range(0, len(steps), _MEASURED_TOGETHER)]
    tallies = [Tally(record, variants=len(group)) for group in groups]
    done, total = 0, len(routes) * math.ceil(len(split) / EVALUATION_BATCH)
    for inputs, targets in split.batches(EVALUATION_BATCH):
        states = {0: _through(chain.start, inputs.to(weights))}
        for group, tally in zip(groups, tallies, strict=True):
            outputs = []
            for step in group:
                x = states[step.start]
                for modules, place in step.stretches:
                    x = states[place] = _through(modules, x)
                outputs.append(x.cpu())
                states = {place: states[place] for place in step.needed}
                done += 1
                if progress:
                    progress(done, total)
            losses = torch.stack([objective.measure(each, targets) for each in outputs])
            tally.add(losses, torch.stack(outputs), targets)
    return dict(zip(routes, (score for tally in tallies for score in tally.scores()), strict=True))


def _through(modules: Iterable[nn.Module], x: Tensor) -> Tensor:
    for module in modules:
        x = module(x)
    return x
