"""Scores of a network with many sets of its layers closed, or with its layers in other orders, without computing anything twice.

Each variant of the network is a route, place by place. Sorted, routes that begin alike stand together: what a beginning makes of a batch
is computed once and kept as long as a later route goes on from there, and layers of a stack that follow each other are one call of the
compiled operator. The network itself is not touched: its parts become modules of their own on the same memory.
"""

import copy
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import NamedTuple

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
"""For each place the number of the layer that stands there, counted as `lesion` does; negative where that layer is closed."""

ClosableDense = DenseHighway | DenseResidual
ClosableModule = ClosableDense | ConvHighway | ConvResidual


def closing(layers: int, closed: Collection[int]) -> Route:
    """All layers at their own places, some of them closed.

    >>> closing(4, {2, 3})
    (1, -2, -3, 4)
    """
    return tuple(-number if number in closed else number for number in range(1, layers + 1))


def score_routes(network: nn.Module, split: Split, routes: Iterable[Route], progress: Progress | None = None) -> dict[Route, Score]:
    """What `evaluate` gives for each of these variants of the network; with the same batches, the same bits.

    Layers that are closed already stay closed. The network is as before at the end, whatever happens.

    Args:
        network: A network of ours; or anything that contains gated modules, which is evaluated as a whole for each route.
        split: The samples.
        routes: The variants. Layers may trade places where they are `exchangeable`.
        progress: Told (done, total).
    """
    distinct, chain = sorted(set(routes)), _chain(network)
    with evaluating(network):
        if chain is None:
            return _one_by_one(network, split, distinct, progress)
        return _together(chain, next(network.parameters()), split, distinct, progress)


def exchangeable(network: nn.Module) -> list[list[int]]:
    """The numbers of layers that may trade places, in groups of at least two.

    They have the same type and the same shapes, and between them are none but layers that can be closed. Of a model that is not ours the
    order of execution is not known: there, layers trade places within their stack.
    """
    chain = _chain(network)
    groups = _stacks(network) if chain is None else chain.alike()
    return [group for group in groups if len(group) > 1]


# ----- Any model


def _one_by_one(network: nn.Module, split: Split, routes: Sequence[Route], progress: Progress | None) -> dict[Route, Score]:
    """A whole evaluation for each route."""
    scores = {}
    for done, route in enumerate(routes, start=1):
        with _rerouted(network, route):
            scores[route] = evaluate(network, split)
        if progress:
            progress(done, len(routes))
    return scores


@contextmanager
def _rerouted(network: nn.Module, route: Route) -> Iterator[None]:
    """The model with its layers as the route says, until the end of the block."""
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
    """A stack at whose places 1, 2, … stand its layers with these numbers; closed ones are closed at their new places."""
    weight, bias, closed = stack.weight.data, stack.bias.data, stack.closed_layers
    order = [number - 1 for number in numbers]
    try:
        stack.weight.data, stack.bias.data = weight[order], bias[order]
        stack.closed_layers = frozenset(place for place, number in enumerate(numbers, start=1) if number in closed)
        yield
    finally:
        stack.weight.data, stack.bias.data, stack.closed_layers = weight, bias, closed


def _stacks(network: nn.Module) -> list[list[int]]:
    """The numbers of the layers of each stack."""
    groups, before = [], 0
    for module in closable_modules(network):
        if type(module) in {DenseHighway, DenseResidual}:  # a parametrised one is of another type: its weights are computed
            groups.append(list(range(before + 1, before + module.num_layers + 1)))
        before += module.num_layers
    return groups


# ----- Networks of ours


class _Chain:
    """A network as places in a row: what comes before the first, a layer that can be closed at each, and what follows each."""

    def __init__(self, pieces: Iterable[nn.Module]) -> None:
        self.start: list[nn.Module] = []
        self._layers: list[tuple[ClosableModule, int]] = []  # for each number the module and the number inside it
        self._behind: list[list[nn.Module]] = []
        self._parts: dict[Route, nn.Module] = {}
        for piece in pieces:
            if isinstance(piece, ClosableModule):
                self._layers += [(piece, number) for number in range(1, piece.num_layers + 1)]
                self._behind += [[] for _ in range(piece.num_layers)]
            else:
                (self._behind[-1] if self._behind else self.start).append(piece)

    def alike(self) -> list[list[int]]:
        """The numbers of layers with the same type and shapes in a row of closable layers."""
        groups: dict[object, list[int]] = {}
        row = 0
        for number, ((module, _), behind) in enumerate(zip(self._layers, self._behind, strict=True), start=1):
            shapes = tuple(parameter.shape for parameter in module.parameters())
            groups.setdefault((row, type(module), shapes), []).append(number)
            row += bool(behind)
        return list(groups.values())

    def between(self, route: Route, first: int, last: int) -> list[nn.Module]:
        """The modules of a route from the state before place `first` to that before place `last`; places count from 0."""
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
        """Layers that follow each other in one module, negative ones closed, as a module on the same memory."""
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
    """The network as a chain; None where it is not ours, or where somebody looks on: hooks and observers know modules, not parts."""
    for module in network.modules():
        if module._forward_hooks or module._forward_pre_hooks or getattr(module, "observer", None):
            return None
    if not isinstance(network, Network) or Network not in type(network).__bases__:  # a subclass may compute something else
        return None
    pieces = list(network.in_order())
    known: list[object] = [piece for piece in pieces if type(piece) in {DenseHighway, DenseResidual, ConvHighway, ConvResidual}]
    return _Chain(pieces) if known == closable_modules(network) else None


class _Step(NamedTuple):
    """What one route needs of a batch."""

    start: int
    """The place before which it leaves the route that was computed before."""
    stretches: list[tuple[list[nn.Module], int]]
    """The modules from there on, up to each place before which the state is kept, and to the end."""
    needed: frozenset[int]
    """The places before which later routes begin."""


def _plan(chain: _Chain, routes: Sequence[Route]) -> list[_Step]:
    """The steps for sorted routes. Negative numbers come first, so that a state is kept for a short time: few are at any moment."""
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
    """At how many places two routes begin alike."""
    return next((place for place, (one, two) in enumerate(zip(route, other, strict=True)) if one != two), len(route))


def _together(chain: _Chain, weights: Tensor, split: Split, routes: Sequence[Route], progress: Progress | None) -> dict[Route, Score]:
    """All routes at once, batch by batch."""
    record = split.preparation.record
    objective = standard_objective(record.task)
    steps, tallies = _plan(chain, routes), [Tally(record) for _ in routes]
    done, total = 0, len(routes) * math.ceil(len(split) / EVALUATION_BATCH)
    for inputs, targets in split.batches(EVALUATION_BATCH):
        states = {0: _through(chain.start, inputs.to(weights))}
        for step, tally in zip(steps, tallies, strict=True):
            x = states[step.start]
            for modules, place in step.stretches:
                x = states[place] = _through(modules, x)
            outputs = x.cpu()
            tally.add(objective.measure(outputs, targets), outputs, targets)
            states = {place: states[place] for place in step.needed}
            done += 1
            if progress:
                progress(done, total)
    return {route: tally.score() for route, tally in zip(routes, tallies, strict=True)}


def _through(modules: Iterable[nn.Module], x: Tensor) -> Tensor:
    for module in modules:
        x = module(x)
    return x
