"""Affine maps in place of removed layers: the module, and stacks of layers with such maps between them."""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.dense_plain import DensePlain
from highwaynet.layers.dense_residual import DenseResidual
from highwaynet.layers.depth_lstm import DepthLSTM
from highwaynet.networks.plan import Shape

AnyStack = DenseHighway | DensePlain | DenseResidual | DepthLSTM


def affine_map(shape: Shape) -> nn.Linear | nn.Conv2d:
    """Return an affine map that starts as the identity: of the features, or of the channels at each pixel."""
    size = shape[0]
    module = nn.Linear(size, size) if len(shape) == 1 else nn.Conv2d(size, size, 1)
    with torch.no_grad():
        module.weight.copy_(torch.eye(size).view_as(module.weight))
        module.bias.zero_()  # type: ignore[union-attr]
    return module


class MixedStack(nn.Module):
    """Stacks of dense layers with affine maps between them.

    Args:
        modules: The stacks and maps, in the order of execution; all have the same width.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.parts)

    def forward(self, x: Tensor, return_gates: bool = False) -> Any:
        """Map (batch, width) to (batch, width); on request also return the gates, (layers, batch, width)."""
        gates: list[list[Tensor]] = []
        for part in self.parts:
            if return_gates and not isinstance(part, nn.Linear):
                x, *opened = part(x, return_gates=True)
                gates.append(opened)
            else:
                x = part(x)
        return (x, *(torch.cat(kind) for kind in zip(*gates, strict=True))) if return_gates else x

    def without(self, layers: Iterable[int]) -> "MixedStack":
        """Return a copy without these layers, numbered from 1 over all stacks; the maps stay."""
        removed, before, parts = set(layers), 0, list[nn.Module]()
        for part in self.parts:
            if isinstance(part, AnyStack):
                inside = range(before + 1, before + part.num_layers + 1)
                parts.append(part.without([number - before for number in inside if number in removed]))
                before += part.num_layers
            else:
                parts.append(copy.deepcopy(part))
        return MixedStack(parts)
