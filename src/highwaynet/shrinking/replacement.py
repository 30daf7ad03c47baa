"""Replacing spans of layers by affine maps: the least-squares map from a span's input to its output, in closed form."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from highwaynet.analysis.watching import batch_size
from highwaynet.base.errors import InputError
from highwaynet.data.dataset import Split
from highwaynet.layers.conv_plain import ConvPlain
from highwaynet.layers.dense_plain import DensePlain
from highwaynet.layers.lesion import Closable
from highwaynet.layers.maxout import ConvMaxout, DenseMaxout
from highwaynet.networks.affine import affine_map
from highwaynet.networks.build import build_plan
from highwaynet.networks.convolutional import CompanionHead
from highwaynet.networks.layerwise import layerwise
from highwaynet.networks.network import Network
from highwaynet.networks.plan import (
    Affine,
    DenseStack,
    DropoutPart,
    GlobalPool,
    HighwayConv,
    Plan,
    PlanPart,
    ResidualBlock,
)
from highwaynet.shrinking.shrink_record import Span

RIDGES = tuple(10.0**power for power in range(-6, 3))
"""Strengths of the penalty that are tried, as multiples of the mean variance of the inputs; adding only a constant is tried too."""
HELD_OUT = 4
"""Every fourth sample chooses the penalty; the others fit the map."""
MOST_VALUES = 2**26
"""At most this many values of one layer's outputs are kept in memory; with large maps fewer samples are used."""


class Replaced(NamedTuple):
    """A network in which spans of layers were replaced."""

    network: Network
    spans: tuple[Span, ...]


@dataclass
class _Item:
    """A layer or operation of the network, with its part of the plan."""

    part: PlanPart
    module: nn.Module | None
    """None if it has no weights."""
    number: int = 0
    """Number among the closable layers; 0 if it is none."""
    merged: bool = False
    """Whether another layer computes it too, so that it is no longer needed."""


def replace_spans(network: Network, removed: Iterable[int], split: Split) -> Replaced:
    """Replace spans of consecutive layers by affine maps.

    Each map is fitted from the input of its span in the shortened network to the output of the span in the intact network, so that it also
    corrects what earlier maps changed. A ridge penalty on the difference from the identity is chosen on samples that were not fitted.
    A map is merged into the next layer if the result is exactly the same network.

    Args:
        network: The network; it stays as it is.
        removed: Numbers of the layers, counted from 1 among those that can be removed.
        split: Training samples.

    Raises:
        ValueError: If a layer does not exist, or changes the shape of its input.
        InputError: If the layers are LSTM cells over depth, which pass on more than their outputs.
    """
    if any(isinstance(part, DenseStack) and part.kind == "lstm" for part in network.plan.parts):
        raise InputError(f"--replace: the layers of {network.plan.name} pass on a cell besides their outputs; leave it out")
    numbers = set(removed)
    network.plan.without(numbers)  # checks the numbers
    items = _items(network)
    spans = _spans(items, numbers)
    maps = _fit(network, spans, split)
    placed = {first: _Item(Affine(), found.module) for first, found in maps.items()}
    shorter: list[_Item] = []
    for item in items:
        if item.number in placed:
            shorter.append(placed[item.number])
        if item.number not in numbers:
            shorter.append(item)
    _merge(shorter)
    found = [
        Span(first=first, last=last, ridge=maps[first].ridge, explained=maps[first].explained, merged=placed[first].merged)
        for first, *_, last in ([*span, span[-1]] for span in spans)
    ]
    return Replaced(_assemble(network, [item for item in shorter if not item.merged]), tuple(found))


def _items(network: Network) -> list[_Item]:
    """Return the network layer by layer."""
    weighted = (piece.module for piece in layerwise(network) if any(True for _ in piece.module.parameters()))
    items, number = list[_Item](), 0
    for part in network.plan.parts:
        for single in _singles(part):
            closable = isinstance(part, DenseStack | HighwayConv | ResidualBlock)
            number += closable
            has_weights = closable or part.part in {"conv", "dense", "affine"}
            items.append(_Item(single, next(weighted) if has_weights else None, number if closable else 0))
    return items


def _singles(part: PlanPart) -> Iterator[PlanPart]:
    if isinstance(part, DenseStack):
        yield from [replace(part, layers=1)] * part.layers
    else:
        yield part


def _spans(items: Sequence[_Item], removed: set[int]) -> list[list[int]]:
    """Return the removed layers in runs without any other operation between them."""
    spans: list[list[int]] = [[]]
    for item in items:
        if item.number in removed and item.number:
            spans[-1].append(item.number)
        elif spans[-1]:
            spans.append([])
    return [span for span in spans if span]


class _Map(NamedTuple):
    module: nn.Module
    ridge: float | None
    explained: float


def _fit(network: Network, spans: Sequence[Sequence[int]], split: Split) -> dict[int, _Map]:
    """Fit the maps in the order of execution; the result is keyed by the first layer of each span."""
    first_of, last_of = {span[0] for span in spans}, {span[-1]: span[0] for span in spans}
    inside = {number for span in spans for number in span}
    sizes = [prod(network.plan.input_shape), *(prod(after) for _, _, after in network.plan.walk())]
    samples = split.spread(max(2 * HELD_OUT, min(len(split), MOST_VALUES // max(sizes))))
    weights, maps = next(network.parameters()), dict[int, _Map]()
    with torch.no_grad():
        intact = [inputs.to(weights) for inputs, _ in samples.batches(batch_size(network))]
        short, number = list(intact), 0
        for piece in layerwise(copy.deepcopy(network).eval()):
            is_closable = isinstance(piece.module, Closable)
            number += is_closable
            before = short
            intact = [piece.module(x) for x in intact]
            if not is_closable or number not in inside:
                short = [piece.module(x) for x in short]
            if is_closable and number in first_of:
                held = before
            if is_closable and number in last_of:
                maps[last_of[number]] = found = _solve(held, intact)
                short = [found.module(x) for x in held]
    return maps


class _Moments:
    """Sums over samples (and pixels) from which the error of any affine map follows: of z = (x, 1) and of the change d = y − x."""

    def __init__(self, size: int) -> None:
        self.zz = torch.zeros(size + 1, size + 1, dtype=torch.float64)
        self.zd = torch.zeros(size + 1, size, dtype=torch.float64)
        self.dd = torch.zeros(size, dtype=torch.float64)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Count a batch (samples, features) or (samples, channels, height, width)."""
        rows, target = (value.movedim(1, -1).reshape(-1, value.shape[1]).double() for value in (x, y))
        z = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
        d = target - rows
        self.zz += z.T @ z
        self.zd += z.T @ d
        self.dd += d.square().sum(0)

    def error(self, change: Tensor) -> float:
        """Return the sum of squared errors of y ≈ x + (x, 1)·change."""
        return float(self.dd.sum() - 2 * (change * self.zd).sum() + (change * (self.zz @ change)).sum())


def _solve(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> _Map:
    """Fit the affine map from a span's input to its output, and choose the penalty on held-out batches."""
    shape = tuple(inputs[0].shape[1:])
    fitting, choosing = _Moments(shape[0]), _Moments(shape[0])
    start = 0
    for x, y in zip(inputs, outputs, strict=True):
        held = torch.arange(start, start + len(x)) % HELD_OUT == HELD_OUT - 1
        fitting.add(x[~held], y[~held])
        choosing.add(x[held], y[held])
        start += len(x)
    changes = {ridge: _change(fitting, ridge) for ridge in RIDGES} | {None: _change(fitting, None)}
    ridge = min(changes, key=lambda ridge: choosing.error(changes[ridge]))
    change, size = changes[ridge], shape[0]
    module = affine_map(shape)
    with torch.no_grad():
        matrix = torch.eye(size, dtype=torch.float64) + change[:size].T
        module.weight.copy_(matrix.view_as(module.weight))
        module.bias.copy_(change[size])  # type: ignore[union-attr]
    dropped = float(choosing.dd.sum())  # the error without any map
    return _Map(module, ridge, 1 - choosing.error(change) / dropped if dropped > 0 else 1.0)


def _change(moments: _Moments, ridge: float | None) -> Tensor:
    """Return the change (size + 1, size) that minimises the squared error plus the penalty; with None only a constant is added."""
    count = moments.zz[-1, -1]
    mean, target = moments.zz[-1, :-1] / count, moments.zd[-1] / count
    size = len(mean)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    if ridge is not None:
        covariance = moments.zz[:-1, :-1] / count - torch.outer(mean, mean)
        strength = ridge * covariance.diagonal().mean().clamp_min(1e-12)
        cross = moments.zd[:-1] / count - torch.outer(mean, target)
        matrix = torch.linalg.solve(covariance + strength * torch.eye(size, dtype=torch.float64), cross)
    return torch.cat([matrix, (target - mean @ matrix)[None]])


def _merge(items: Sequence[_Item]) -> None:
    """Merge maps into the next layer where that is exact."""
    for place, item in enumerate(items):
        if isinstance(item.part, Affine) and (target := _next_linear(items[place + 1 :])) is not None:
            target.module, item.merged = _product(target.module, item.module), True


def _next_linear(items: Iterable[_Item]) -> _Item | None:
    """Return the layer that can absorb a map before these items: the next one, if it is a linear map of the same values."""
    for item in items:
        if isinstance(item.module, nn.Linear | nn.Conv2d | DensePlain | DenseMaxout):
            return item
        if isinstance(item.module, ConvPlain | ConvMaxout):
            pads = item.module.kernel_size > 1 and item.module.padding != 0  # zeros at the edges would become the map's constant
            return None if pads or item.module.bias is None else item
        if not isinstance(item.part, GlobalPool) and item.part != DropoutPart(0.0):
            return None
    return None


def _product(layer: Any, affine: Any) -> Any:
    """Return a copy of a layer that first applies an affine map to its input."""
    made = copy.deepcopy(layer)
    matrix, constant = affine.weight.double().flatten(1), affine.bias.double()
    with torch.no_grad():
        weight = made.weight[0].double() if isinstance(made, DensePlain) else made.weight.double()  # (outputs, inputs, ...)
        made.bias += torch.einsum("oi...,i->o", weight, constant).view_as(made.bias)
        made.weight.copy_(torch.einsum("oi...,ij->oj...", weight, matrix).view_as(made.weight))
    return made


def _assemble(network: Network, items: Sequence[_Item]) -> Network:
    """Build the network of these items, with their weights."""
    parts: list[PlanPart] = []
    for item in items:
        last = parts[-1] if parts else None
        if isinstance(item.part, DenseStack) and isinstance(last, DenseStack) and replace(last, layers=1) == item.part:
            parts[-1] = replace(last, layers=last.layers + 1)
        else:
            parts.append(item.part)
    plan = _with_a_stack(network.plan, parts)
    made = build_plan(plan, generator=torch.Generator())
    sources = [item.module for item in items if item.module is not None]
    pieces = [piece.module for piece in layerwise(made) if any(True for _ in piece.module.parameters())]
    sources += [module for module in network.modules() if isinstance(module, CompanionHead)]
    pieces += [module for module in made.modules() if isinstance(module, CompanionHead)]
    with torch.no_grad():
        for piece, source in zip(pieces, sources, strict=True):
            values = source.state_dict()
            for name, value in piece.state_dict().items():
                value.copy_(values[name])
    return made.train(network.training)


def _with_a_stack(plan: Plan, parts: list[PlanPart]) -> Plan:
    """Return the plan with these parts; a dense network keeps its stack even if no layer is left."""
    stack = next((part for part in plan.parts if isinstance(part, DenseStack)), None)
    if stack is not None and not any(isinstance(part, DenseStack) for part in parts):
        place = plan.parts.index(stack)  # behind the dropout of the first layer
        parts = [*parts[:place], replace(stack, layers=0), *parts[place:]]
    return plan.model_copy(update={"parts": tuple(parts)})
