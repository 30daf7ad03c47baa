"""The plans of all presets: which layers, in which order. Does not import torch; settings and sources are in presets.py."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from highwaynet.layers.gate_bias import resolve_gate_bias
from highwaynet.networks.plan import (
    Companion,
    Conv,
    Dense,
    DenseStack,
    DropoutPart,
    GlobalPool,
    HighwayConv,
    MembersPart,
    Plan,
    PlanPart,
    Pooling,
    ResidualBlock,
)
from highwaynet.networks.spec import NetworkSpec


def plan_of(spec: NetworkSpec, input_shape: Sequence[int], outputs: int) -> Plan:
    """Return the plan of the network that a spec describes, for samples of this shape; `Plan.walk` checks whether they fit."""
    parts = tuple(part for part in _DRAWN[spec.preset.drawing](spec, outputs) if part != DropoutPart(0.0))
    return Plan(name=spec.name, family=spec.preset.family, input_shape=tuple(input_shape), parts=parts)


def _dense(spec: NetworkSpec, outputs: int) -> list[PlanPart]:
    if spec.kind == "maxout":
        raise ValueError("dense networks have no maxout layers: choose highway, plain, residual or lstm")
    drop = _dropouts(spec)
    gates: dict[str, Any] = {name: value for name, value in _gates(spec).items() if name in spec.preset.settings}
    stack = DenseStack(spec.kind, spec.depth - 1, **_own(spec), **gates)
    members = [MembersPart(spec.members)] if spec.members is not None and spec.members > 1 else []
    return [*members, _dense_layer(spec, spec.width or 1), next(drop), stack, next(drop), _head(outputs)]


def _mnist(spec: NetworkSpec, outputs: int) -> list[PlanPart]:
    """Three stages of the same width; pooling rounds up, so that map sizes are 24 → 12 → 6 → 3."""
    width, drop = spec.preset.channels[0], _dropouts(spec)
    return [
        next(drop),
        _conv(spec, width, 5, padding=0),
        *_layers(spec, width, [3] * 2),
        Pooling("max", 3, 2, ceil=True),
        next(drop),
        *_companion(spec, outputs),
        *_layers(spec, width, [3] * 3),
        Pooling("max", 3, 2, ceil=True),
        next(drop),
        *_companion(spec, outputs),
        *_layers(spec, width, [3] * 3),
        Pooling("max", 2, 2, ceil=True),
        next(drop),
        _head(outputs, std=0.1 if spec.variant == "released" else None),
    ]


def _cifar(spec: NetworkSpec, outputs: int) -> list[PlanPart]:
    """Three stages, each with a first plain layer that sets its width; the head is a 1×1 convolution with pooling, or a dense layer."""
    preset, drop, released = spec.preset, _dropouts(spec), spec.variant == "released"
    parts: list[PlanPart] = [next(drop)]
    for stage, (channels, kernels) in enumerate(zip(preset.channels, preset.kernels, strict=True)):
        # The released file misspells the standard deviation of its first convolution, so that the default, 1, applies.
        own: dict[str, Any] = {"init": "normal", "init_std": 1.0} if released and stage == 0 else {}
        parts += [_conv(spec, channels, **own), *_layers(spec, channels, kernels)]
        if stage < len(preset.channels) - 1:
            parts += [Pooling("max", 2, 2, ceil=True), next(drop), *_companion(spec, outputs)]
    if spec.head == "dense":
        parts += [GlobalPool(), next(drop), _dense_layer(spec, preset.head_units)]
    else:
        parts += [_conv(spec, preset.gap_channels, 1), GlobalPool(), next(drop)]
    if not released:
        return [*parts, _head(outputs)]
    return [*parts, Dense(outputs, activation="identity", init="he", head=True) if outputs == 100 else _head(outputs, std=0.05)]


def _resnet(spec: NetworkSpec, outputs: int) -> list[PlanPart]:
    """6n + 2 layers, with batch norm and strides as in He et al., or with pooling and dropout instead (variant 2016)."""
    norm, drop = spec.variant != "2016", _dropouts(spec)
    parts: list[PlanPart] = [_conv(spec, spec.preset.channels[0], norm=norm)]
    block: dict[str, Any] = {"norm": norm, "shortcut": spec.shortcut or "pad", "init": spec.init, "init_std": _std(spec)}
    block |= {} if norm else {"start_scale": 1 / math.sqrt((spec.depth - 2) / 2)}
    for stage, channels in enumerate(spec.preset.channels):
        if stage and not norm:
            parts += [Pooling("max", 2, 2, ceil=True), next(drop)]
        for number in range((spec.depth - 2) // 6):
            parts.append(ResidualBlock(channels, stride=2 if norm and stage and number == 0 else 1, **block))
    return [*parts, GlobalPool(), _head(outputs)]


def _fitnet(spec: NetworkSpec, outputs: int) -> list[PlanPart]:
    parts: list[PlanPart] = []
    for stage in spec.preset.stages:
        parts += [*([Pooling("max", 2, 2)] if parts else []), *(_maxout(spec, channels) for channels in stage)]
    pieces = 5 if spec.variant == "released" and spec.name == "fitnet-b" else 2
    return [*parts, Pooling("max", 8, 8), _dense_layer(spec, 500, pieces=pieces), _uniform_head(spec, outputs)]


def _mnist_fitnet(spec: NetworkSpec, outputs: int) -> list[PlanPart]:
    """Sizes of the maps: 24, 22 → 10, 12, 10 → 4, 8, 6 → 3."""
    return [
        _maxout(spec, 16, 5, padding=0),
        _maxout(spec, 16, 3, padding=0),
        Pooling("max", 4, 2, ceil=True),
        _maxout(spec, 16, 5, padding=3),
        _maxout(spec, 16, 3, padding=0),
        Pooling("max", 4, 2, ceil=True),
        _maxout(spec, 12, 3, padding=3, pieces=4),
        _maxout(spec, 12, 3, padding=0, pieces=4),
        Pooling("max", 2, 2, ceil=True),
        _uniform_head(spec, outputs),
    ]


def _mnist_maxout(spec: NetworkSpec, outputs: int) -> list[PlanPart]:
    """Sizes of the maps: 21 → 10, 9 → 4, 6 → 3."""
    drop = _dropouts(spec)
    return [
        next(drop),
        _maxout(spec, 48, 8, padding=0),
        Pooling("max", 4, 2, ceil=True),
        next(drop),
        _maxout(spec, 48, 8, padding=3),
        Pooling("max", 4, 2, ceil=True),
        next(drop),
        _maxout(spec, 24, 5, padding=3),
        Pooling("max", 2, 2, ceil=True),
        next(drop),
        _uniform_head(spec, outputs),
    ]


def _teacher(spec: NetworkSpec, outputs: int) -> list[PlanPart]:
    drop, (first, second, third) = _dropouts(spec), spec.preset.channels
    return [
        next(drop),
        _maxout(spec, first, 8, padding=4),
        Pooling("max", 4, 2),
        next(drop),
        _maxout(spec, second, 8, padding=3),
        Pooling("max", 4, 2),
        next(drop),
        _maxout(spec, third, 5, padding=2),
        Pooling("max", 2, 2),
        next(drop),
        _dense_layer(spec, spec.preset.head_units, pieces=5),
        _uniform_head(spec, outputs),
    ]


def _nin(spec: NetworkSpec, outputs: int) -> list[PlanPart]:
    drop = _dropouts(spec)
    return [
        _conv(spec, 192, 5),
        _conv(spec, 160, 1),
        _conv(spec, 96, 1),
        Pooling("max", 3, 2, ceil=True),
        next(drop),
        _conv(spec, 192, 5),
        _conv(spec, 192, 1),
        _conv(spec, 192, 1),
        Pooling("average", 3, 2, ceil=True),
        next(drop),
        _conv(spec, 192, 3),
        _conv(spec, 192, 1),
        _conv(spec, outputs, 1, activation="identity", head=True),
        GlobalPool(),
    ]


def _all_cnn(spec: NetworkSpec, outputs: int) -> list[PlanPart]:
    drop = _dropouts(spec)
    return [
        next(drop),
        _conv(spec, 96),
        _conv(spec, 96),
        _conv(spec, 96, stride=2),
        next(drop),
        _conv(spec, 192),
        _conv(spec, 192),
        _conv(spec, 192, stride=2),
        next(drop),
        _conv(spec, 192, padding=0),
        _conv(spec, 192, 1),
        _conv(spec, outputs, 1, activation="identity", head=True),
        GlobalPool(),
    ]


def _layers(spec: NetworkSpec, channels: int, kernels: Iterable[int]) -> list[PlanPart]:
    """Highway layers, or plain layers for the plain twin."""
    return [_highway(spec, kernel) if spec.kind == "highway" else _conv(spec, channels, kernel) for kernel in kernels]


def _companion(spec: NetworkSpec, outputs: int) -> list[PlanPart]:
    return [Companion(outputs)] if spec.deep_supervision else []


def _dropouts(spec: NetworkSpec) -> Iterator[DropoutPart]:
    return iter([DropoutPart(probability) for probability in spec.dropout or ()])


def _head(outputs: int, std: float | None = None) -> Dense:
    return Dense(outputs, activation="identity", init="glorot-uniform" if std is None else "normal", init_std=std, head=True)


def _uniform_head(spec: NetworkSpec, outputs: int) -> Dense:
    """The head of a maxout network, whose weights start like all others if those are uniform."""
    return replace(_head(outputs), init="uniform", init_std=_std(spec)) if spec.init == "uniform" else _head(outputs)


def _conv(spec: NetworkSpec, channels: int, kernel: int = 3, **own: Any) -> Conv:
    """A plain convolution with the network's activation and initialisation, unless `own` has others."""
    return Conv(channels, kernel, **(_own(spec) | own))


def _maxout(spec: NetworkSpec, channels: int, kernel: int = 3, **own: Any) -> Conv:
    return _conv(spec, channels, kernel, **{"pieces": 2, "activation": "identity"} | own)


def _dense_layer(spec: NetworkSpec, units: int, **own: Any) -> Dense:
    """A dense layer with the network's activation and initialisation, unless `own` has others."""
    return Dense(units, **(_own(spec) | own))


def _highway(spec: NetworkSpec, kernel: int) -> HighwayConv:
    # The released files initialise the gate weights like those of H.
    return HighwayConv(kernel, gate_init=spec.init if spec.variant == "released" else None, **_own(spec), **_gates(spec))


def _own(spec: NetworkSpec) -> dict[str, Any]:
    """The network's activation and initialisation."""
    return {"activation": spec.activation, "init": spec.init, "init_std": _std(spec)}


def _std(spec: NetworkSpec) -> float | None:
    """The standard deviation of the initial weights, if the initialisation takes one."""
    return spec.init_std if spec.init_range is None else spec.init_range / math.sqrt(3)


def _gates(spec: NetworkSpec) -> dict[str, Any]:
    """The network's gate settings, with a number for "auto"."""
    bias = resolve_gate_bias("auto" if spec.gate_bias is None else spec.gate_bias, spec.depth, family=spec.preset.traits.gate_rule)
    return {"gate_bias": bias, "carry": spec.carry or "coupled"}


_DRAWN = {
    "dense": _dense,
    "mnist": _mnist,
    "cifar": _cifar,
    "resnet": _resnet,
    "fitnet": _fitnet,
    "teacher": _teacher,
    "mnist-fitnet": _mnist_fitnet,
    "mnist-maxout": _mnist_maxout,
    "nin": _nin,
    "all-cnn": _all_cnn,
}
