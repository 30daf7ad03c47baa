"""The plans of all presets: which layers, in which order. Free of torch; facts and their sources are in presets.py."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from highwaynet.networks.plan import Companion, Conv, Dense, DenseStack, Dropout, GlobalPool, HighwayConv, Part, Plan, Pool, ResidualBlock

if TYPE_CHECKING:
    from highwaynet.networks.spec import NetworkSpec


def plan_of(spec: "NetworkSpec", outputs: int) -> Plan:
    """The plan of the network that a spec describes."""
    return tuple(part for part in _DRAWN[spec.preset.family](spec, outputs) if part != Dropout(0.0))


def _dense(spec: "NetworkSpec", outputs: int) -> list[Part]:
    if spec.kind == "maxout":
        raise ValueError("there is no dense stack of maxout layers")
    drop = _dropouts(spec)
    return [Dense(spec.width or 1), next(drop), DenseStack(spec.kind, spec.depth - 1), next(drop), _head(outputs)]


def _mnist(spec: "NetworkSpec", outputs: int) -> list[Part]:
    """Three stages of one width; pooling rounds up, so that maps go 24 → 12 → 6 → 3."""
    width, drop = spec.preset.channels[0], _dropouts(spec)
    return [
        next(drop),
        Conv(width, 5, padding=0),
        *_layers(spec, width, [3] * 2),
        Pool("max", 3, 2, ceil=True),
        next(drop),
        *_companion(spec, outputs),
        *_layers(spec, width, [3] * 3),
        Pool("max", 3, 2, ceil=True),
        next(drop),
        *_companion(spec, outputs),
        *_layers(spec, width, [3] * 3),
        Pool("max", 2, 2, ceil=True),
        next(drop),
        _head(outputs, std=0.1 if spec.variant == "released" else None),
    ]


def _cifar(spec: "NetworkSpec", outputs: int) -> list[Part]:
    """Three stages, each begun by a plain layer that sets its width; the head is a 1×1 convolution with GAP, or a dense layer."""
    preset, drop, released = spec.preset, _dropouts(spec), spec.variant == "released"
    parts: list[Part] = [next(drop)]
    for stage, (channels, kernels) in enumerate(zip(preset.channels, preset.kernels, strict=True)):
        # The released file misnames the deviation of its first convolution, which is 1 by default.
        parts += [Conv(channels, start_std=1.0 if released and stage == 0 else None), *_layers(spec, channels, kernels)]
        if stage < len(preset.channels) - 1:
            parts += [Pool("max", 2, 2, ceil=True), next(drop), *_companion(spec, outputs)]
    if spec.head == "dense":
        parts += [GlobalPool(), next(drop), Dense(preset.head_units)]
    else:
        parts += [Conv(preset.gap_channels, 1), GlobalPool(), next(drop)]
    if not released:
        return [*parts, _head(outputs)]
    return [*parts, Dense(outputs, activation="identity", start="he", head=True) if outputs == 100 else _head(outputs, std=0.05)]


def _resnet(spec: "NetworkSpec", outputs: int) -> list[Part]:
    """6n + 2 layers: He's with batch norm and strides, or with pooling and dropout in their place."""
    norm, drop = spec.variant != "2016", _dropouts(spec)
    parts: list[Part] = [Conv(spec.preset.channels[0], norm=norm)]
    for stage, channels in enumerate(spec.preset.channels):
        if stage and not norm:
            parts += [Pool("max", 2, 2, ceil=True), next(drop)]
        for block in range((spec.depth - 2) // 6):
            parts.append(ResidualBlock(channels, stride=2 if norm and stage and block == 0 else 1, norm=norm))
    return [*parts, GlobalPool(), _head(outputs)]


def _fitnet(spec: "NetworkSpec", outputs: int) -> list[Part]:
    parts: list[Part] = []
    for stage in spec.preset.stages:
        parts += [*([Pool("max", 2, 2)] if parts else []), *(Conv(channels, pieces=2, activation="identity") for channels in stage)]
    return [*parts, Pool("max", 8, 8), Dense(500, pieces=2, activation="identity"), _head(outputs)]


def _teacher(spec: "NetworkSpec", outputs: int) -> list[Part]:
    drop = _dropouts(spec)
    return [
        next(drop),
        Conv(96, 8, padding=4, pieces=2, activation="identity"),
        Pool("max", 4, 2),
        next(drop),
        Conv(192, 8, padding=3, pieces=2, activation="identity"),
        Pool("max", 4, 2),
        next(drop),
        Conv(192, 5, padding=2, pieces=2, activation="identity"),
        Pool("max", 2, 2),
        next(drop),
        Dense(500, pieces=5, activation="identity"),
        _head(outputs),
    ]


def _nin(spec: "NetworkSpec", outputs: int) -> list[Part]:
    drop = _dropouts(spec)
    return [
        Conv(192, 5),
        Conv(160, 1),
        Conv(96, 1),
        Pool("max", 3, 2, ceil=True),
        next(drop),
        Conv(192, 5),
        Conv(192, 1),
        Conv(192, 1),
        Pool("average", 3, 2, ceil=True),
        next(drop),
        Conv(192, 3),
        Conv(192, 1),
        Conv(outputs, 1, activation="identity", head=True),
        GlobalPool(),
    ]


def _all_cnn(spec: "NetworkSpec", outputs: int) -> list[Part]:
    drop = _dropouts(spec)
    return [
        next(drop),
        Conv(96),
        Conv(96),
        Conv(96, stride=2),
        next(drop),
        Conv(192),
        Conv(192),
        Conv(192, stride=2),
        next(drop),
        Conv(192, padding=0),
        Conv(192, 1),
        Conv(outputs, 1, activation="identity", head=True),
        GlobalPool(),
    ]


def _layers(spec: "NetworkSpec", channels: int, kernels: Iterable[int]) -> list[Part]:
    """Highway layers, or the plain ones of the twin."""
    return [HighwayConv(kernel) if spec.kind == "highway" else Conv(channels, kernel) for kernel in kernels]


def _companion(spec: "NetworkSpec", outputs: int) -> list[Part]:
    return [Companion(outputs)] if spec.deep_supervision else []


def _dropouts(spec: "NetworkSpec") -> Iterator[Dropout]:
    return iter([Dropout(probability) for probability in spec.dropout or ()])


def _head(outputs: int, std: float | None = None) -> Dense:
    return Dense(outputs, activation="identity", start="glorot-uniform", start_std=std, head=True)


_DRAWN = {
    "dense": _dense,
    "mnist": _mnist,
    "cifar": _cifar,
    "resnet": _resnet,
    "fitnet": _fitnet,
    "teacher": _teacher,
    "nin": _nin,
    "all-cnn": _all_cnn,
}
