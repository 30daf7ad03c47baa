"""Convolutional networks: the modules of a plan, one after the other."""

import copy
import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import index
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Generator, Tensor, nn

from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.conv_plain import ConvPlain
from highwaynet.layers.conv_residual import ConvResidual
from highwaynet.layers.convolution import channels_last
from highwaynet.layers.dense_plain import DensePlain
from highwaynet.layers.dropout import Dropout
from highwaynet.layers.initialisation import DEFAULT_STD
from highwaynet.layers.lesion import Gated
from highwaynet.layers.maxout import ConvMaxout, DenseMaxout
from highwaynet.layers.names import Init
from highwaynet.layers.recomputation import segments, through_modules
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.plan import (
    Companion,
    Conv,
    Dense,
    DenseStack,
    GlobalPool,
    HighwayConv,
    Part,
    Pool,
    ResidualBlock,
    Shape,
    walk,
)
from highwaynet.networks.plan import Dropout as DropoutPart
from highwaynet.networks.spec import NetworkSpec


class GlobalAverage(nn.Module):
    """The mean of each map: (batch, channels, height, width) → (batch, channels)."""

    def forward(self, x: Tensor) -> Tensor:
        """The means."""
        return x.mean(dim=(2, 3))


class CompanionHead(nn.Module):
    """A classifier on the mean of each map, for deep supervision (Lee et al. 2014)."""

    def __init__(self, channels: int, outputs: int, generator: Generator | None) -> None:
        super().__init__()
        self.dense = DensePlain(channels, outputs, activation="identity", generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (batch, outputs)."""
        logits: Tensor = self.dense(x.mean(dim=(2, 3)))
        return logits


class ConvNetwork(nn.Module):
    """Images (batch, channels, height, width) → logits (or the numbers of a regression), through modules in a row.

    Args:
        input_shape: Shape of one sample.
        layers: The modules, companion classifiers among them, in the order of execution.
        head: Place of the module that gives the outputs.
    """

    takes_targets = False
    recomputes = False
    """Whether activations are computed again in the backward pass; see `recompute`."""

    def __init__(self, input_shape: Shape, layers: Sequence[nn.Module], head: int) -> None:
        super().__init__()
        self.input_shape = input_shape
        self.layers = nn.ModuleList(layers)
        self.head_name = f"layers.{head}"

    @overload
    def forward(self, x: Tensor, return_gates: Literal[False] = False, return_companions: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(
        self, x: Tensor, return_gates: Literal[False] = False, *, return_companions: Literal[True]
    ) -> tuple[Tensor, list[Tensor]]: ...

    # With gates: logits, then one to three lists. mypy would not let a caller unpack a type that says so without a starred name.
    @overload
    def forward(self, x: Tensor, return_gates: Literal[True], return_companions: bool = False) -> tuple[Any, ...]: ...

    @overload
    def forward(self, x: Tensor, return_gates: bool = False, return_companions: bool = False) -> Tensor | tuple[Any, ...]: ...

    def forward(self, x: Tensor, return_gates: bool = False, return_companions: bool = False) -> Tensor | tuple[Any, ...]:
        """Logits (batch, outputs), and on request what happened on the way.

        Args:
            x: Images.
            return_gates: Also a list of T, layer by layer, each of the shape of its maps, and with independent carry gates one of C.
            return_companions: Also a list of the companion classifiers' logits.
        """
        if tuple(x.shape[1:]) != self.input_shape:
            wanted = "×".join(map(str, self.input_shape))
            raise ValueError(
                f"images of shape {tuple(x.shape)}: this network takes (batch, {', '.join(map(str, self.input_shape))}), {wanted} each"
            )
        x = channels_last(x)
        observed = any(getattr(layer, "observer", None) for layer in self.layers)  # who would be told twice
        if self.recomputes and not return_gates and not observed and torch.is_grad_enabled():
            return self._recomputing(x, return_companions)
        gates: list[list[Tensor]] = []
        companions = []
        for layer in self.layers:
            if isinstance(layer, CompanionHead):
                if return_companions:
                    companions.append(layer(x))
            elif return_gates and isinstance(layer, ConvHighway):
                x, *opened = layer(x, return_gates=True)
                gates.append(opened)
            else:
                x = layer(x)
        extras: list[list[Tensor]] = [list(gate) for gate in zip(*gates, strict=True)] if gates else [[]] * return_gates
        extras += [companions] if return_companions else []
        return (x, *extras) if return_gates or return_companions else x

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def _recomputing(self, x: Tensor, return_companions: bool) -> Tensor | tuple[Tensor | list[Tensor], ...]:
        """The same, in segments that are computed again; one ends before each companion."""
        companions: list[Tensor] = []
        for part in segments(list(self.layers)):
            for is_companion, layers in groupby(part, key=lambda layer: isinstance(layer, CompanionHead)):
                if not is_companion:
                    x = through_modules(x, list(layers))
                elif return_companions:
                    companions += [layer(x) for layer in layers]
        return (x, companions) if return_companions else x

    @property
    def companions(self) -> bool:
        """Whether there are companion classifiers."""
        return any(isinstance(layer, CompanionHead) for layer in self.layers)

    def without(self, layers: Iterable[int]) -> "ConvNetwork":
        """The network with these closable layers removed, numbered from 1; raises ValueError where one changes the shape."""
        gated = [place for place, layer in enumerate(self.layers) if isinstance(layer, Gated)]
        numbers = {index(number) for number in layers}
        if wrong := sorted(number for number in numbers if not 1 <= number <= len(gated)):
            raise ValueError(f"layers = {wrong}: the network has {len(gated)} layers that can be removed, numbered from 1")
        removed = {gated[number - 1] for number in numbers}
        for place in removed:
            layer = self.layers[place]
            if isinstance(layer, ConvResidual) and not isinstance(layer.shortcut, nn.Identity):
                raise ValueError(f"layers = [{gated.index(place) + 1}]: this layer changes the shape of its maps and cannot be removed")
        kept = [place for place in range(len(self.layers)) if place not in removed]
        head = kept.index(int(self.head_name.rsplit(".", maxsplit=1)[1]))
        shorter = ConvNetwork(self.input_shape, [copy.deepcopy(self.layers[place]) for place in kept], head)
        for layer in shorter.layers:
            if isinstance(layer, Gated):
                layer.closed_layers = frozenset()
        return shorter.train(self.training)


def build_convolutional(spec: NetworkSpec, input_shape: Sequence[int], outputs: int, generator: Generator | None) -> ConvNetwork:
    """The convolutional network that a spec describes, its weights drawn in the order of the layers."""
    steps = list(walk(plan_of(spec, outputs), input_shape, spec.name))
    head = next(place for place, (part, _, _) in enumerate(steps) if isinstance(part, Conv | Dense) and part.head)
    layers = [_module(part, before, spec, generator) for part, before, _ in steps]
    return ConvNetwork(tuple(input_shape), layers, head)


def _module(part: Part, shape: Shape, spec: NetworkSpec, generator: Generator | None) -> nn.Module:
    """The module of one part whose input has this shape."""
    module: nn.Module
    match part:
        case Conv(pieces=1):
            module = ConvPlain(
                shape[0],
                part.channels,
                part.kernel,
                stride=part.stride,
                padding=part.padding,
                activation=part.activation or spec.activation,
                norm=part.norm,
                **_start(spec, None, part.start_std, generator),
            )
        case Conv():
            way = _start(spec, None, part.start_std, generator)
            module = ConvMaxout(shape[0], part.channels, part.kernel, part.pieces, padding=part.padding, **way)
        case HighwayConv(kernel=kernel):
            module = ConvHighway(
                shape[0],
                kernel,
                activation=spec.activation,
                gate_bias="auto" if spec.gate_bias is None else spec.gate_bias,
                depth=spec.depth,
                carry=spec.carry or "coupled",
                # The released files start the gate weights as those of H.
                gate_init=spec.init if spec.variant == "released" else None,
                **_start(spec, None, None, generator),
            )
        case ResidualBlock():
            way = _start(spec, None, None, generator)
            module = ConvResidual(
                shape[0],
                part.channels,
                stride=part.stride,
                norm=part.norm,
                shortcut=spec.shortcut or "pad",
                start_scale=1.0 if part.norm else 1 / math.sqrt((spec.depth - 2) / 2),
                **way,
            )
        case Pool():
            pooling = nn.MaxPool2d if part.kind == "max" else nn.AvgPool2d
            module = pooling(part.size, part.stride, ceil_mode=part.ceil)
        case GlobalPool():
            module = GlobalAverage()
        case DropoutPart(probability=probability):
            module = Dropout(probability)
        case Companion(outputs=outputs):
            module = CompanionHead(shape[0], outputs, generator)
        case Dense():
            way, inputs = _start(spec, part.start, part.start_std, generator), math.prod(shape)
            if part.pieces > 1:
                module = DenseMaxout(inputs, part.units, part.pieces, **way)
            else:
                module = DensePlain(inputs, part.units, activation=part.activation or spec.activation, **way)
            module = module if len(shape) == 1 else nn.Sequential(nn.Flatten(), module)
        case DenseStack():
            raise ValueError(f"{part} has no place in a convolutional network")
    return module


def _start(spec: NetworkSpec, init: Init | None, std: float | None, generator: Generator | None) -> dict[str, Any]:
    """How a layer's weights start: by its own deviation, its own way, or the network's."""
    if std is not None:
        return {"init": "normal", "init_std": std, "generator": generator}
    return {"init": init or spec.init, "init_std": DEFAULT_STD if spec.init_std is None else spec.init_std, "generator": generator}
