"""Hidden layers by number, as `highway networks NAME` counts them, and what they compute. Pooling belongs to the layer before it."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from highwaynet.base.errors import InputError
from highwaynet.layers.convolution import channels_last
from highwaynet.networks.affine import AnyStack
from highwaynet.networks.convolutional import CompanionHead, ConvNetwork
from highwaynet.networks.dense import DenseNetwork
from highwaynet.networks.description import describe_plan
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Affine, Conv, Dense, DenseStack, Plan, PlanPart, Pooling, Shape


@dataclass(frozen=True)
class HiddenLayer:
    """A layer below the outputs."""

    place: int
    """Index of its part in the plan, or of the pooling behind it."""
    within: int
    """For a layer in a stack, its number there, from 1; otherwise 0."""
    part: PlanPart
    """Its part."""
    shape: Shape
    """Shape of its output for one sample."""


def find_hidden(plan: Plan, number: int) -> HiddenLayer:
    """Return a hidden layer by its number, from 1; raises InputError if it does not exist.

    >>> from highwaynet.networks.architectures import plan_of
    >>> from highwaynet.networks.spec import NetworkSpec
    >>> find_hidden(plan_of(NetworkSpec(name="fitnet-a"), (3, 32, 32), 10), 6).shape
    (32, 8, 8)
    """
    rows, before, skipped = list(describe_plan(plan).rows), 0, 0
    walked = list(plan.walk())
    for place, (part, _, shape) in enumerate(walked):
        if isinstance(part, Conv | Dense) and part.head:
            break
        layers = part.layers if isinstance(part, DenseStack) else rows[skipped].layers
        skipped += part.layers if isinstance(part, DenseStack) else 1
        before += layers
        if number > before or layers == 0:
            continue
        if isinstance(part, DenseStack):
            return HiddenLayer(place, number - (before - layers), part, shape)
        if number < before:
            raise InputError(f"layer {number} of {plan.name} is inside a residual block; choose {before}, the last layer of the block")
        if place + 1 < len(walked) and isinstance(walked[place + 1][0], Pooling):
            place, shape = place + 1, walked[place + 1][2]  # noqa: PLW2901
        return HiddenLayer(place, 0, part, shape)
    raise InputError(
        f"{plan.name} has no hidden layer {number}; choose one from 1 to {before} (`highway networks {plan.name}` numbers them)"
    )


def hidden_state(network: Network, x: Tensor, layer: HiddenLayer) -> Tensor:
    """Compute the output of a hidden layer, (samples, *layer.shape), in the mode of the network."""
    if isinstance(network, ConvNetwork):
        x = channels_last(x)
        for module in network.layers[: layer.place + 1]:
            x = x if isinstance(module, CompanionHead) else module(x)
        return x
    if not isinstance(network, DenseNetwork):
        raise TypeError(f"{type(network).__name__}: only dense and convolutional networks have numbered hidden layers")
    x = x.flatten(1)
    x = network.entry(x if network.members is None else network.members(x))
    if isinstance(layer.part, Dense):
        return _averaged(x)
    x = network.entry_dropout(x)
    for place, module in _middle(network):
        if place == layer.place:
            return _averaged(_lower(module, x, layer.within) if layer.within else module(x))
        x = module(x)
    raise AssertionError("the layer is one of the plan")


def _averaged(x: Tensor) -> Tensor:
    """Return the mean over the members, if there are any."""
    return x.mean(1) if x.dim() == 3 else x


def _lower(stack: nn.Module, x: Tensor, layers: int) -> Tensor:
    """Compute the output of the lower layers of a stack; gradients reach the stack's own parameters."""
    parameters = {name: parameter[:layers] for name, parameter in stack.named_parameters()}
    found: Tensor = torch.func.functional_call(stack, parameters, (x,))
    return found


def above(network: Network, layer: HiddenLayer) -> list[tuple[nn.Parameter, int]]:
    """The parameters that a hidden layer does not depend on; of a stack, from this layer on (counted from 0)."""
    if isinstance(network, ConvNetwork):
        inside = {id(parameter) for module in network.layers[: layer.place + 1] for parameter in _own(module)}
        return [(parameter, 0) for parameter in network.parameters() if id(parameter) not in inside]
    if not isinstance(network, DenseNetwork):
        raise TypeError(f"{type(network).__name__}: only dense and convolutional networks have numbered hidden layers")
    found = [(parameter, 0) for parameter in network.head.parameters()]
    for place, module in _middle(network):
        if place > layer.place or (place == layer.place and layer.within):
            found += [(parameter, layer.within if place == layer.place else 0) for parameter in module.parameters()]
    return found


def _middle(network: DenseNetwork) -> Iterator[tuple[int, nn.Module]]:
    """The modules between the first layer and the head, each with the index of its part in the plan."""
    first = next(place for place, part in enumerate(network.plan.parts) if isinstance(part, DenseStack | Affine))
    yield from enumerate([network.stack] if isinstance(network.stack, AnyStack) else network.stack, start=first)


def _own(module: nn.Module) -> list[nn.Parameter]:
    return [] if isinstance(module, CompanionHead) else list(module.parameters())
