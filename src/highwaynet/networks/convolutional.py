"""Convolutional networks: the modules of a plan in sequence."""

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
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
from highwaynet.layers.lesion import Closable
from highwaynet.layers.maxout import ConvMaxout, DenseMaxout
from highwaynet.layers.recomputation import segments, through_modules
from highwaynet.networks.affine import affine_map
from highwaynet.networks.network import Network
from highwaynet.networks.plan import (
    Affine,
    Companion,
    Conv,
    Dense,
    DenseStack,
    DropoutPart,
    GlobalPool,
    HighwayConv,
    Plan,
    PlanPart,
    Pooling,
    ResidualBlock,
    Shape,
)


class GlobalAverage(nn.Module):
    """Global average pooling, the mean of each map."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to (batch, channels)."""
        return x.mean(dim=(2, 3))


class _Start(nn.Module):
    """Puts the input into the memory layout that the layers keep."""

    forward = staticmethod(channels_last)


class CompanionHead(nn.Module):
    """A classifier on the mean of each map, for deep supervision (Lee et al. 2014)."""

    def __init__(self, channels: int, outputs: int, generator: Generator | None) -> None:
        super().__init__()
        self.dense = DensePlain(channels, outputs, activation="identity", generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to logits (batch, outputs)."""
        logits: Tensor = self.dense(x.mean(dim=(2, 3)))
        return logits


class ConvNetwork(Network):
    """A convolutional network: images (batch, channels, height, width) → logits (or the numbers of a regression).

    Args:
        plan: The plan of the network.
        layers: The modules of the plan's parts, including companion classifiers, in the order of execution.
    """

    recomputes = False
    """Whether activations are computed again in the backward pass; see `recompute`."""

    def __init__(self, plan: Plan, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.plan = plan
        self.input_shape = plan.input_shape
        self.layers = nn.ModuleList(layers)
        self.head_name = f"layers.{plan.head}"

    @overload
    def forward(self, x: Tensor, return_gates: Literal[False] = False, return_companions: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(
        self, x: Tensor, return_gates: Literal[False] = False, *, return_companions: Literal[True]
    ) -> tuple[Tensor, list[Tensor]]: ...

    # With gates: logits, then one to three lists. With a more exact type, mypy would demand a starred name when a caller unpacks it.
    @overload
    def forward(self, x: Tensor, return_gates: Literal[True], return_companions: bool = False) -> tuple[Any, ...]: ...

    @overload
    def forward(self, x: Tensor, return_gates: bool = False, return_companions: bool = False) -> Tensor | tuple[Any, ...]: ...

    def forward(self, x: Tensor, return_gates: bool = False, return_companions: bool = False) -> Tensor | tuple[Any, ...]:
        """Compute logits (batch, outputs) and, on request, gates and the logits of companions.

        Args:
            x: Images of shape (batch, channels, height, width).
            return_gates: Also return a list of T, one tensor for each layer, and with independent carry gates a list of C.
            return_companions: Also return a list of the companion classifiers' logits.
        """
        if tuple(x.shape[1:]) != self.input_shape:
            wanted = "×".join(map(str, self.input_shape))
            raise ValueError(
                f"images of shape {tuple(x.shape)}: this network takes (batch, {', '.join(map(str, self.input_shape))}), {wanted} each"
            )
        x = channels_last(x)
        observed = any(getattr(layer, "observer", None) for layer in self.layers)  # recomputing would call observers twice
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
        """Do the same in segments that are recomputed in the backward pass; a segment ends before each companion."""
        companions: list[Tensor] = []
        for part in segments(list(self.layers)):
            for is_companion, layers in groupby(part, key=lambda layer: isinstance(layer, CompanionHead)):
                if not is_companion:
                    x = through_modules(x, list(layers))
                elif return_companions:
                    companions += [layer(x) for layer in layers]
        return (x, companions) if return_companions else x

    def in_order(self) -> Iterator[nn.Module]:
        """The layers without the companions."""
        yield _Start()
        yield from (layer for layer in self.layers if not isinstance(layer, CompanionHead))

    def without(self, layers: Iterable[int]) -> "ConvNetwork":
        """Return the network without these closable layers, numbered from 1; raises ValueError if one changes the shape."""
        numbers = [index(number) for number in layers]
        plan = self.plan.without(numbers)  # checks the numbers
        closable = [place for place, layer in enumerate(self.layers) if isinstance(layer, Closable)]
        removed = {closable[number - 1] for number in numbers}
        kept = [copy.deepcopy(layer) for place, layer in enumerate(self.layers) if place not in removed]
        shorter = ConvNetwork(plan, kept)
        for layer in kept:
            if isinstance(layer, Closable):
                layer.closed_layers = frozenset()
        return shorter.train(self.training)


def build_convolutional(plan: Plan, generator: Generator | None) -> ConvNetwork:
    """Build the convolutional network of a plan; weights are drawn in the order of the layers."""
    return ConvNetwork(plan, [_module(part, before, generator) for part, before, _ in plan.walk()])


def _module(part: PlanPart, shape: Shape, generator: Generator | None) -> nn.Module:
    """Return the module of a part whose input has this shape."""
    module: nn.Module
    match part:
        case Conv(pieces=1):
            module = ConvPlain(
                shape[0],
                part.channels,
                part.kernel,
                stride=part.stride,
                padding=part.padding,
                activation=part.activation,
                norm=part.norm,
                **_start(part, generator),
            )
        case Conv():
            module = ConvMaxout(shape[0], part.channels, part.kernel, part.pieces, padding=part.padding, **_start(part, generator))
        case HighwayConv(kernel=kernel):
            module = ConvHighway(
                shape[0],
                kernel,
                activation=part.activation,
                gate_bias=part.gate_bias,
                carry=part.carry,
                gate_init=part.gate_init,
                **_start(part, generator),
            )
        case ResidualBlock():
            module = ConvResidual(
                shape[0],
                part.channels,
                stride=part.stride,
                norm=part.norm,
                shortcut=part.shortcut,
                start_scale=part.start_scale,
                **_start(part, generator),
            )
        case Pooling():
            pooling = nn.MaxPool2d if part.kind == "max" else nn.AvgPool2d
            module = pooling(part.size, part.stride, ceil_mode=part.ceil)
        case GlobalPool():
            module = GlobalAverage()
        case DropoutPart(probability=probability):
            module = Dropout(probability)
        case Affine():
            module = affine_map(shape)
        case Companion(outputs=outputs):
            module = CompanionHead(shape[0], outputs, generator)
        case Dense():
            module = _dense(part, shape, generator)
        case DenseStack():
            raise ValueError(f"{part}: convolutional networks have no dense stacks")
    return module


def _dense(part: Dense, shape: Shape, generator: Generator | None) -> nn.Module:
    """Return a dense layer, behind a module that flattens maps."""
    way, inputs = _start(part, generator), math.prod(shape)
    module: nn.Module
    if part.pieces > 1:
        module = DenseMaxout(inputs, part.units, part.pieces, **way)
    else:
        module = DensePlain(inputs, part.units, activation=part.activation, **way)
    return module if len(shape) == 1 else nn.Sequential(nn.Flatten(), module)


def _start(part: Conv | HighwayConv | ResidualBlock | Dense, generator: Generator | None) -> dict[str, Any]:
    """Return the arguments for a layer's initialisation."""
    return {"init": part.init, "init_std": DEFAULT_STD if part.init_std is None else part.init_std, "generator": generator}
