"""A network as a sequence of its layers, even if one module holds many of them."""

from collections.abc import Iterator
from typing import NamedTuple

from torch import nn

from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.dense_plain import DensePlain
from highwaynet.layers.dense_residual import DenseResidual
from highwaynet.layers.depth_lstm import Cell, DepthLSTM
from highwaynet.layers.stacking import single_layer
from highwaynet.networks.network import Network


class Piece(NamedTuple):
    """A layer, or an operation between layers."""

    label: str
    """Its name in messages."""
    module: nn.Module
    """Takes the output of the piece before; its parameters share the network's memory."""


def layerwise(network: Network) -> Iterator[Piece]:
    """Yield the pieces in the order of execution. Together they compute what the network computes, without its companions."""
    head, number = network.get_submodule(network.head_name), 0
    for module in network.in_order():
        for layer in _single(module):
            number += any(True for _ in layer.parameters())
            label = f"layer {number} ({type(layer).__name__})" if number else "the input"
            yield Piece("the last layer" if layer is head else label, layer)


def _single(module: nn.Module) -> Iterator[nn.Module]:
    """The layers of a stack, or the module itself."""
    if isinstance(module, DepthLSTM):
        yield from _single_cells(module)
    elif isinstance(module, DenseHighway | DensePlain | DenseResidual) and module.num_layers != 1:
        yield from (single_layer(module, number) for number in range(1, module.num_layers + 1))
    else:
        yield module


def _single_cells(stack: DepthLSTM) -> Iterator[nn.Module]:
    """The layers of a stack of LSTM cells; each finds the cell of the one before, if they are called in turn."""
    cell = Cell()
    for number in range(1, stack.num_layers + 1):
        layer = single_layer(stack, number)
        layer.__dict__["cell"], layer.__dict__["begins"] = cell, number == 1
        yield layer
