"""A plan: the parts of a network one after the other, from which the module is built and the table of layers is drawn. Free of torch."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from highwaynet.base.errors import InputError
from highwaynet.layers.names import Activation, Init

Shape = tuple[int, ...]
"""Shape of one sample: (channels, height, width), or (features,)."""


@dataclass(frozen=True)
class Conv:
    """A plain or, with several pieces, a maxout convolution."""

    channels: int
    kernel: int = 3
    stride: int = 1
    padding: int | Literal["same"] = "same"
    pieces: int = 1
    norm: bool = False
    activation: Activation | None = None
    """None is the network's own."""
    start_std: float | None = None
    """Start as a gaussian with this deviation instead of the network's way."""
    head: bool = False
    """Whether it gives the outputs."""


@dataclass(frozen=True)
class HighwayConv:
    """A convolutional highway layer; it keeps the shape."""

    kernel: int = 3


@dataclass(frozen=True)
class ResidualBlock:
    """Two 3×3 convolutions with a shortcut."""

    channels: int
    stride: int = 1
    norm: bool = True


@dataclass(frozen=True)
class Pool:
    """The largest value, or the mean, in each window."""

    kind: Literal["max", "average"]
    size: int
    stride: int
    ceil: bool = False
    """Whether a last window may hang over the edge, as in Caffe."""


@dataclass(frozen=True)
class GlobalPool:
    """The mean of each map."""


@dataclass(frozen=True)
class Dropout:
    """Sets values to zero while training."""

    probability: float


@dataclass(frozen=True)
class Dense:
    """A plain or, with several pieces, a maxout dense layer."""

    units: int
    pieces: int = 1
    activation: Activation | None = None
    start: Init | None = None
    """None is the network's own way."""
    start_std: float | None = None
    head: bool = False


@dataclass(frozen=True)
class DenseStack:
    """Dense layers of the network's kind that keep the width."""

    kind: Literal["highway", "plain", "residual"]
    layers: int


@dataclass(frozen=True)
class Companion:
    """A classifier of its own on the mean of each map, used while training (deep supervision)."""

    outputs: int


Part = Conv | HighwayConv | ResidualBlock | Pool | GlobalPool | Dropout | Dense | DenseStack | Companion
Plan = tuple[Part, ...]


def walk(plan: Plan, input_shape: Sequence[int], name: str) -> Iterator[tuple[Part, Shape, Shape]]:
    """Each part with the shapes that it takes and gives; raises InputError where the input does not fit."""
    shape: Shape = tuple(input_shape)
    if len(shape) != 3 and not any(isinstance(part, DenseStack) for part in plan):
        raise InputError(f"{name} takes images; samples of {'×'.join(map(str, shape))} values are none: choose fc-highway, or give images")
    for part in plan:
        after = shape_after(part, shape)
        if min(after) < 1:
            least = next((size for size in range(1, 1024) if _fits(plan, (input_shape[0], size, size))), None)
            way = f"it needs at least {least}×{least}; own images can be brought there with data.resize, else choose another network"
            raise InputError(f"images of {input_shape[1]}×{input_shape[2]} are too small for {name}: {way}")
        yield part, shape, after
        shape = after


def _fits(plan: Plan, shape: Shape) -> bool:
    for part in plan:
        shape = shape_after(part, shape)
        if min(shape) < 1:
            return False
    return True


def shape_after(part: Part, shape: Shape) -> Shape:
    """The shape that a part gives; a size below 1 means that the input is too small for it."""
    match part:
        case Conv(channels=channels, kernel=kernel, stride=stride, padding=padding):
            zeros = kernel - 1 if padding == "same" else 2 * padding
            return (channels, *((size + zeros - kernel) // stride + 1 for size in shape[1:]))
        case ResidualBlock(channels=channels, stride=stride):
            return (channels, *(math.ceil(size / stride) for size in shape[1:]))
        case Pool(size=window, stride=stride, ceil=ceil):
            return (shape[0], *(_pooled(size, window, stride, ceil) for size in shape[1:]))
        case GlobalPool():
            return (shape[0],)
        case Dense(units=units):
            return (units,)
    return shape


def _pooled(size: int, window: int, stride: int, ceil: bool) -> int:
    if not ceil:
        return (size - window) // stride + 1
    count = math.ceil((size - window) / stride) + 1
    return count - 1 if (count - 1) * stride >= size else count  # no window begins outside
