"""A network as a list of steps that the page's engine (engine.js) computes, and its weights as one array of float32 numbers.

Maps are stored with the channels last. Batch norm becomes part of the convolution before it. Dropout and companions are left out.
Members become the places of maps, which dense layers treat alike, as 1×1 convolutions do.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from highwaynet.base.errors import InputError
from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.conv_plain import ConvPlain
from highwaynet.layers.conv_residual import ConvResidual
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.dense_plain import DensePlain
from highwaynet.layers.dense_residual import DenseResidual
from highwaynet.layers.depth_lstm import DepthLSTM
from highwaynet.layers.dropout import Dropout
from highwaynet.layers.maxout import ConvMaxout, DenseMaxout
from highwaynet.networks.convolutional import GlobalAverage
from highwaynet.networks.layerwise import layerwise
from highwaynet.networks.members import MemberJoin, Members
from highwaynet.networks.network import Network

StepValues = dict[str, Any]
"""A step: its kind as `op`, the shapes of its input and output, its settings, and where its weights begin."""


@dataclass
class Weights:
    """Collects arrays; each is known by the place where it begins."""

    arrays: list[NDArray[np.float32]] = field(default_factory=list)
    count: int = 0

    def add(self, values: Tensor) -> int:
        """Append the values; return the place of the first."""
        place = self.count
        array = np.ascontiguousarray(values.detach().cpu().to(torch.float32).numpy()).ravel()
        self.arrays.append(array)
        self.count += len(array)
        return place

    def packed(self) -> bytes:
        """Return all values as little-endian float32 numbers."""
        return b"".join(array.astype("<f4").tobytes() for array in self.arrays)


def lowered(network: Network, weights: Weights) -> list[StepValues]:
    """Return the steps of a network in the order of execution, and add its weights.

    Raises:
        InputError: If the network has a layer that the engine does not know.
    """
    steps: list[StepValues] = []
    head, number = network.get_submodule(network.head_name), 0
    images = network.plan.traits.takes_images
    shape = tuple(network.plan.input_shape) if images else (math.prod(network.plan.input_shape),)
    for piece in layerwise(network):
        module = piece.module
        if isinstance(module, Dropout | nn.Flatten) or type(module).__name__ == "_Start":
            continue
        for_members = isinstance(module, Members) or (len(shape) == 3 and not images)
        step = (_for_members if for_members else _step)(module, shape, weights)
        if step is None:
            raise InputError(f"the page cannot compute {piece.label} of {network.plan.name}: its engine does not know such layers")
        step["head"] = module is head or head in module.children()
        if step["op"] in {"highway", "residual", "lstm", "highway-conv", "residual-conv"}:
            number += 1
            step["number"] = number
        shape = tuple(step["out"])
        steps.append(step)
    return steps


def _step(module: nn.Module, shape: Sequence[int], weights: Weights) -> StepValues | None:
    """Return the step of a module; None for a module of an unknown type."""
    size = {"in": list(shape), "out": list(shape)}
    step: StepValues | None = None
    match module:
        case nn.Sequential() if len(module) == 2 and isinstance(module[0], nn.Flatten):
            step = _dense(module[1], shape, weights)
        case DensePlain() | DenseMaxout():
            step = _dense(module, shape, weights)
        case DenseHighway():
            own = {"act": module.activation, "independent": module.carry == "independent"}
            step = {"op": "highway", **size, **own, **_added(weights, module.weight[0], module.bias[0])}
        case DepthLSTM():
            step = {"op": "lstm", **size, "act": module.activation, **_added(weights, module.weight[0], module.bias[0])}
        case DenseResidual():
            step = {"op": "residual", **size, "act": module.activation, **_added(weights, module.weight[0], module.bias[0])}
        case nn.Linear():
            step = {"op": "dense", "in": list(shape), "out": [module.out_features], "act": "identity", "pieces": 1, "affine": True}
            step |= _added(weights, module.weight, module.bias)
        case ConvPlain() | ConvMaxout():
            step = _conv(module, shape, weights)
        case nn.Conv2d():  # an affine map in place of removed layers
            step = {"op": "conv", **size, "kernel": 1, "stride": 1, "pad": 0, "act": "identity", "pieces": 1, "affine": True}
            step |= _added(weights, module.weight.permute(0, 2, 3, 1), module.bias)
        case ConvHighway():
            kernel = module.kernel_size
            window = {"kernel": kernel, "stride": 1, "pad": (kernel - 1) // 2, "pieces": 1}
            own = {"act": module.activation, "independent": module.carry == "independent"}
            step = {"op": "highway-conv", **size, **own, **window, **_added(weights, module.weight.permute(0, 2, 3, 1), module.bias)}
        case ConvResidual():
            step = _block(module, shape, weights)
        case nn.MaxPool2d() | nn.AvgPool2d():
            kind = "max" if isinstance(module, nn.MaxPool2d) else "average"
            with torch.inference_mode():
                after = module(torch.zeros(1, *shape)).shape[1:]
            step = {"op": "pool", "in": list(shape), "out": list(after), "kind": kind, "size": module.kernel_size, "stride": module.stride}
        case GlobalAverage():
            step = {"op": "mean", "in": list(shape), "out": [shape[0]]}
    return step


def _for_members(module: nn.Module, shape: Sequence[int], weights: Weights) -> StepValues | None:
    """Return the step of members, or of a module behind them; None for one that has no form for maps."""
    each: StepValues = {"in": list(shape), "out": list(shape), "kernel": 1, "stride": 1, "pad": 0, "pieces": 1}
    match module:
        case DensePlain():
            own: StepValues = {"op": "conv", "out": [module.out_features, *shape[1:]], "act": module.activation}
            return each | own | _added(weights, module.weight[0], module.bias[0])
        case DenseHighway():
            own = {"op": "highway-conv", "act": module.activation, "independent": module.carry == "independent"}
            return each | own | _added(weights, module.weight[0], module.bias[0])
        case nn.Linear():  # an affine map in place of removed layers
            return each | {"op": "conv", "act": "identity", "affine": True} | _added(weights, module.weight, module.bias)
        case Members():
            return {"op": "members", "in": list(shape), "out": [shape[0], module.count, 1], "factors": weights.add(module.factors)}
        case MemberJoin():
            factors = torch.full((math.prod(shape),), 1 / module.count)
            return {"op": "members", "in": list(shape), "out": [len(factors)], "factors": weights.add(factors)}
    return None


def _added(weights: Weights, weight: Tensor, bias: Tensor | None) -> dict[str, int]:
    return {"w": weights.add(weight), "b": weights.add(torch.zeros(len(weight)) if bias is None else bias)}


def _dense(module: nn.Module, shape: Sequence[int], weights: Weights) -> StepValues | None:
    if isinstance(module, DensePlain):
        weight, bias, pieces, act = module.weight[0], module.bias[0], 1, module.activation
    elif isinstance(module, DenseMaxout):
        weight, bias, pieces, act = module.weight, module.bias, module.pieces, "identity"
    else:
        return None
    if len(shape) == 3:  # maps are flattened with the channels first here, and last in the engine
        weight = weight.view(len(weight), *shape).permute(0, 2, 3, 1)
    own: StepValues = {"act": act, "pieces": pieces}
    return {"op": "dense", "in": list(shape), "out": [len(weight) // pieces], **own, **_added(weights, weight, bias)}


def _conv(module: ConvPlain | ConvMaxout, shape: Sequence[int], weights: Weights) -> StepValues:
    """A convolution; batch norm in evaluation mode is a factor and a summand for each map, which become part of the weights."""
    kernel, stride = module.kernel_size, getattr(module, "stride", 1)
    zeros = kernel - 1 if module.padding == "same" else 2 * module.padding
    weight, bias = module.weight.detach().double(), module.bias
    if isinstance(module, ConvPlain) and module.norm is not None:
        norm = module.norm
        mean, variance = norm.running_mean, norm.running_var
        if mean is None or variance is None:
            raise InputError("the page cannot compute batch norm without running statistics")
        scale = norm.weight.detach().double() / (variance.double() + norm.eps).sqrt()
        weight, bias = weight * scale[:, None, None, None], norm.bias.detach().double() - mean.double() * scale  # type: ignore[assignment]
    sides = [(side + zeros - kernel) // stride + 1 for side in shape[1:]]
    return {
        "op": "conv",
        "in": list(shape),
        "out": [module.out_channels, *sides],
        "kernel": kernel,
        "stride": stride,
        "pad": (kernel - 1) // 2 if module.padding == "same" else module.padding,
        "act": getattr(module, "activation", "identity"),
        "pieces": getattr(module, "pieces", 1),
        **_added(weights, weight.permute(0, 2, 3, 1), bias),
    }


def _block(module: ConvResidual, shape: Sequence[int], weights: Weights) -> StepValues:
    first = _conv(module.first, shape, weights) | {"act": "relu"}
    second = _conv(module.second, first["out"], weights)
    shortcut: StepValues | None = None
    if isinstance(module.shortcut, ConvPlain):
        shortcut = _conv(module.shortcut, shape, weights)
    elif not isinstance(module.shortcut, nn.Identity):  # every stride-th pixel, and maps of zeros
        shortcut = {"op": "pad", "in": list(shape), "out": second["out"], "stride": module.first.stride}
    own: Mapping[str, Any] = {"first": first, "second": second, "shortcut": shortcut}
    return {"op": "residual-conv", "in": list(shape), "out": second["out"], **own}
