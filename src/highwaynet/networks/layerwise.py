"""A network as a sequence of its layers, even if one module holds many of them."""

from collections.abc import Iterator
from typing import NamedTuple

from torch import nn

from highwaynet.layers.convolution import channels_last
from highwaynet.layers.stacking import single_layer
from highwaynet.networks.build import Network
from highwaynet.networks.convolutional import CompanionHead, ConvNetwork


class Piece(NamedTuple):
    """A layer, or an operation between layers."""

    label: str
    """Its name in messages."""
    module: nn.Module
    """Maps the output of the piece before; its parameters share the network's memory."""


class _Start(nn.Module):
    forward = staticmethod(channels_last)


def layerwise(network: Network) -> Iterator[Piece]:
    """Yield the pieces of a network in the order of execution; in sequence, they compute what the network does, without companions."""
    if isinstance(network, ConvNetwork):
        yield Piece("the input", _Start())
        number = 0
        for place, layer in enumerate(network.layers):
            if isinstance(layer, CompanionHead):
                continue
            number += any(True for _ in layer.parameters())
            label = "the last layer" if network.head_name == f"layers.{place}" else f"layer {number} ({type(layer).__name__})"
            yield Piece(label, layer)
        return
    yield Piece("layer 1 (DensePlain)", nn.Sequential(nn.Flatten(), network.entry, network.entry_dropout))
    for number in range(1, network.stack.num_layers + 1):
        yield Piece(f"layer {number + 1} ({type(network.stack).__name__})", single_layer(network.stack, number))
    yield Piece("the last layer", nn.Sequential(network.head_dropout, network.head))
