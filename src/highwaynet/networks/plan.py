"""A plan: the sequence of a network's parts, with all that is needed to build it. Does not import torch; stored as JSON.

A preset and its settings define a plan (architectures.py). Removing layers returns another plan. Modules (build.py) and the table of
layers (description.py) are made from a plan.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import index
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from highwaynet.base.errors import InputError, unknown
from highwaynet.base.specs import Spec
from highwaynet.layers.names import Activation, Carry, Init, Shortcut
from highwaynet.networks.families import FAMILIES, Family

Shape = tuple[int, ...]
"""Shape of one sample: (channels, height, width), or (features,)."""

Size = Annotated[int, Field(ge=1, le=2**31)]
Window = Annotated[int, Field(ge=1, le=1024)]
Deviation = Annotated[float, Field(gt=0)]
_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Conv:
    """A plain convolution or, with several pieces, a maxout convolution."""

    __pydantic_config__ = _CONFIG
    channels: Size
    kernel: Window = 3
    stride: Window = 1
    padding: Annotated[int, Field(ge=0, le=1024)] | Literal["same"] = "same"
    pieces: Window = 1
    norm: bool = False
    activation: Activation = "relu"
    init: Init = "he"
    init_std: Deviation | None = None
    """Standard deviation of the initial weights, for init = normal."""
    head: bool = False
    """Whether its output is that of the network."""
    part: Literal["conv"] = "conv"


@dataclass(frozen=True)
class HighwayConv:
    """A convolutional highway layer; it keeps the shape."""

    __pydantic_config__ = _CONFIG
    kernel: Window = 3
    activation: Activation = "relu"
    gate_bias: float = -1.0
    """Initial value of the transform gate biases."""
    carry: Carry = "coupled"
    init: Init = "he"
    init_std: Deviation | None = None
    gate_init: Init | None = None
    """Initialisation of the gates' weights; None is the default of `ConvHighway`."""
    part: Literal["highway-conv"] = "highway-conv"


@dataclass(frozen=True)
class ResidualBlock:
    """Two 3×3 convolutions with a shortcut."""

    __pydantic_config__ = _CONFIG
    channels: Size
    stride: Window = 1
    norm: bool = True
    shortcut: Shortcut = "pad"
    start_scale: Deviation = 1.0
    """Factor for the initial weights of the second convolution."""
    init: Init = "he"
    init_std: Deviation | None = None
    part: Literal["residual-block"] = "residual-block"


@dataclass(frozen=True)
class Pooling:
    """Pooling: the maximum or the mean in each window."""

    __pydantic_config__ = _CONFIG
    kind: Literal["max", "average"]
    size: Window
    stride: Window
    ceil: bool = False
    """Whether the last window may extend over the edge, as in Caffe."""
    part: Literal["pool"] = "pool"


@dataclass(frozen=True)
class GlobalPool:
    """Global average pooling, the mean of each map."""

    __pydantic_config__ = _CONFIG
    part: Literal["global-pool"] = "global-pool"


@dataclass(frozen=True)
class DropoutPart:
    """Dropout, which sets values to zero in training."""

    __pydantic_config__ = _CONFIG
    probability: Annotated[float, Field(ge=0, lt=1)]
    part: Literal["dropout"] = "dropout"


@dataclass(frozen=True)
class Dense:
    """A plain dense layer or, with several pieces, a dense maxout layer."""

    __pydantic_config__ = _CONFIG
    units: Size
    pieces: Window = 1
    activation: Activation = "tanh"
    init: Init = "glorot-uniform"
    init_std: Deviation | None = None
    head: bool = False
    part: Literal["dense"] = "dense"


@dataclass(frozen=True)
class DenseStack:
    """Dense layers of one kind that keep the width."""

    __pydantic_config__ = _CONFIG
    kind: Literal["highway", "plain", "residual", "lstm"]
    layers: Annotated[int, Field(ge=0, le=100_000)]
    activation: Activation = "tanh"
    init: Init = "glorot-uniform"
    init_std: Deviation | None = None
    gate_bias: float | None = None
    """Initial value of the transform gate biases; highway layers, and of the input gates of LSTM layers."""
    carry: Carry | None = None
    """Kind of carry gate; highway layers only."""
    part: Literal["dense-stack"] = "dense-stack"


@dataclass(frozen=True)
class Affine:
    """An affine map of the features, or of the channels at each pixel, in place of layers that were removed; starts as the identity."""

    __pydantic_config__ = _CONFIG
    part: Literal["affine"] = "affine"


@dataclass(frozen=True)
class Companion:
    """A companion classifier on the mean of each map, used in training (deep supervision)."""

    __pydantic_config__ = _CONFIG
    outputs: Size
    part: Literal["companion"] = "companion"


@dataclass(frozen=True)
class MembersPart:
    """Several dense networks in one: they share all weights but factors of the inputs and the head, and the outputs are their means."""

    __pydantic_config__ = _CONFIG
    count: Annotated[int, Field(ge=2, le=1024)]
    """Number of members."""
    part: Literal["members"] = "members"


PlanPart = Conv | HighwayConv | ResidualBlock | Pooling | GlobalPool | DropoutPart | Dense | DenseStack | Affine | Companion | MembersPart


class Plan(Spec):
    """The parts of a network with all sizes, but without weights; every network of this package has one as `network.plan`."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    name: str
    """Name of the preset."""
    family: str
    """dense or convolutional."""
    input_shape: Annotated[tuple[Size, ...], Field(min_length=1, max_length=8)]
    """Shape of one sample."""
    parts: tuple[Annotated[PlanPart, Field(discriminator="part")], ...]
    """The parts, in the order of execution."""

    @model_validator(mode="after")
    def _check(self) -> "Plan":
        if self.family not in FAMILIES:
            raise ValueError(str(unknown("family", self.family, FAMILIES)))
        if sum(isinstance(part, Conv | Dense) and part.head for part in self.parts) != 1:
            raise ValueError("a network needs exactly one part with head = true")
        for part in self.parts:
            if isinstance(part, DenseStack) and not self.traits.has_stacks:
                raise ValueError(f"a {self.family} network cannot have a part {part.part!r}")
            if isinstance(part, Conv) and part.pieces > 1 and (part.stride, part.norm, part.activation) != (1, False, "identity"):
                raise ValueError("a maxout convolution has no stride, batch norm or activation")
            if isinstance(part, Dense) and part.pieces > 1 and (part.activation != "identity" or part.head):
                raise ValueError("a maxout layer has no activation and cannot be the head")
            if isinstance(part, MembersPart) and (self.family != "dense" or part is not self.parts[0]):
                raise ValueError("members are the first part of a dense network")
        stacks = [part for part in self.parts if isinstance(part, DenseStack | Affine)]
        if len(stacks) > 1 and any(isinstance(part, DenseStack) and part.kind == "lstm" for part in stacks):
            raise ValueError("LSTM layers pass on a cell besides their outputs, so that no affine map or other stack fits beside them")
        return self

    @property
    def traits(self) -> Family:
        """The properties of its family."""
        return FAMILIES[self.family]

    @property
    def outputs(self) -> int:
        """Number of outputs for a sample."""
        *_, (_, _, shape) = self.walk()
        return shape[0]

    @property
    def members(self) -> int:
        """Number of members that share the network; 1 for a usual network."""
        return next((part.count for part in self.parts if isinstance(part, MembersPart)), 1)

    @property
    def head(self) -> int:
        """Index of the part that computes the outputs."""
        return next(place for place, part in enumerate(self.parts) if isinstance(part, Conv | Dense) and part.head)

    def walk(self) -> Iterator[tuple[PlanPart, Shape, Shape]]:
        """Yield each part with the shapes of its input and output; raises InputError if the input does not fit."""
        shape: Shape = self.input_shape if self.traits.takes_images else (math.prod(self.input_shape),)
        if self.traits.takes_images and len(shape) != 3:
            values = "×".join(map(str, shape))
            raise InputError(f"{self.name} takes images, not samples of {values} values: choose fc-highway, or give images")
        for part in self.parts:
            after = shape_after(part, shape)
            if min(after) < 1:
                raise self._too_small()
            yield part, shape, after
            shape = after

    def _too_small(self) -> InputError:
        channels, height, width = self.input_shape
        least = next((size for size in range(1, 1024) if self._fits((channels, size, size))), None)
        way = f"it needs at least {least}×{least}; resize your own images with data.resize, or choose another network"
        return InputError(f"images of {height}×{width} are too small for {self.name}: {way}")

    def _fits(self, shape: Shape) -> bool:
        for part in self.parts:
            shape = shape_after(part, shape)
            if min(shape) < 1:
                return False
        return True

    def without(self, layers: Iterable[int]) -> "Plan":
        """Return the plan without these layers, numbered from 1 among those that can be removed: highway, residual, and dense stacks.

        Raises:
            ValueError: If a layer does not exist, or changes the shape of its maps.
        """
        removed, number = self._checked(layers), 0
        parts: list[PlanPart] = []
        for part, before, after in self.walk():
            if isinstance(part, DenseStack):
                gone = sum(number < layer <= number + part.layers for layer in removed)
                number += part.layers
                parts.append(replace(part, layers=part.layers - gone))
                continue
            number += isinstance(part, HighwayConv | ResidualBlock)
            if not isinstance(part, HighwayConv | ResidualBlock) or number not in removed:
                parts.append(part)
            elif before != after:
                raise ValueError(f"layers = [{number}]: this layer changes the shape of its maps and cannot be removed")
        return self.model_copy(update={"parts": tuple(parts)})

    def is_part_of(self, other: "Plan") -> bool:
        """Whether this plan is the other one with layers removed."""
        parts = list(other.parts)
        for part in self.parts:
            while parts and not _same_but_fewer(part, parts[0]):
                if not isinstance(parts.pop(0), HighwayConv | ResidualBlock):
                    return False
            if not parts:
                return False
            parts.pop(0)
        removable = all(isinstance(part, HighwayConv | ResidualBlock) for part in parts)
        return removable and (self.family, self.input_shape) == (other.family, other.input_shape)

    @property
    def removable(self) -> int:
        """Number of layers that can be removed."""
        stacks = sum(part.layers for part in self.parts if isinstance(part, DenseStack))
        return stacks + sum(isinstance(part, HighwayConv | ResidualBlock) for part in self.parts)

    @property
    def closable(self) -> int:
        """Number of layers that can be closed: highway and residual layers."""
        stacks = sum(part.layers for part in self.parts if isinstance(part, DenseStack) and part.kind != "plain")
        return stacks + sum(isinstance(part, HighwayConv | ResidualBlock) for part in self.parts)

    def _checked(self, layers: Iterable[int]) -> set[int]:
        numbers = {index(number) for number in layers}
        if wrong := sorted(number for number in numbers if not 1 <= number <= self.removable):
            raise ValueError(f"layers = {wrong}: the network has {self.removable} layers that can be removed, numbered from 1")
        return numbers


def _same_but_fewer(part: PlanPart, other: PlanPart) -> bool:
    if isinstance(part, DenseStack) and isinstance(other, DenseStack):
        return part == replace(other, layers=part.layers) and part.layers <= other.layers
    return part == other


def shape_after(part: PlanPart, shape: Shape) -> Shape:
    """Return the shape of a part's output; a size below 1 means that its input is too small."""
    match part:
        case Conv(channels=channels, kernel=kernel, stride=stride, padding=padding):
            zeros = kernel - 1 if padding == "same" else 2 * padding
            return (channels, *((size + zeros - kernel) // stride + 1 for size in shape[1:]))
        case ResidualBlock(channels=channels, stride=stride):
            return (channels, *(math.ceil(size / stride) for size in shape[1:]))
        case Pooling(size=window, stride=stride, ceil=ceil):
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
    return count - 1 if (count - 1) * stride >= size else count  # no window starts outside the map
