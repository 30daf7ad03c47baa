"""The layers of a network as ONNX nodes: one function for each type of module."""

from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from highwaynet.base.errors import InputError
from highwaynet.exporting.onnx_graph import OnnxGraph
from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.conv_plain import ConvPlain
from highwaynet.layers.conv_residual import ConvResidual
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.dense_plain import DensePlain
from highwaynet.layers.dense_residual import DenseResidual
from highwaynet.layers.depth_lstm import DepthLSTM
from highwaynet.layers.dropout import Dropout
from highwaynet.layers.maxout import ConvMaxout, DenseMaxout
from highwaynet.layers.names import Activation
from highwaynet.layers.shape_change import PadChannels, Subsample
from highwaynet.networks.affine import MixedStack
from highwaynet.networks.convolutional import ConvNetwork, GlobalAverage
from highwaynet.networks.dense import DenseNetwork
from highwaynet.networks.members import MemberJoin, Members
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Shape

ACTIVATIONS: dict[Activation, str] = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid"}
"""Operators by the names of activations; identity needs none."""

Value = tuple[str, Shape]
"""A value in the graph, and the shape of one sample of it."""


def write_network(network: Network, graph: OnnxGraph, x: str) -> str:
    """Write the network behind a value (batch, *input_shape) and return the name of its outputs, (batch, outputs).

    Raises:
        InputError: If a module of the network has no ONNX form here.
    """
    place: Value = (x, tuple(network.plan.input_shape))
    if not isinstance(network, DenseNetwork | ConvNetwork):
        raise _no_form(network)
    for module in network.in_order():
        place = write_module(module, graph, place)
    return place[0]


def _no_form(module: nn.Module) -> InputError:
    return InputError(f"a network with a {type(module).__name__} cannot be exported to ONNX: export it with --to torch or safetensors")


@singledispatch
def write_module(module: nn.Module, graph: OnnxGraph, place: Value) -> Value:
    """Write one module behind a value, and return its output; every type of module registers a function."""
    if type(module).__name__ == "_Start" or isinstance(module, nn.Identity | Dropout):  # a memory layout, or something for training
        return place
    raise _no_form(module)


@write_module.register
def _(module: nn.Flatten, graph: OnnxGraph, place: Value) -> Value:
    x, shape = place
    return (x, shape) if len(shape) == 1 else (graph.add("Flatten", x, axis=1), (int(np.prod(shape)),))


@write_module.register
def _(module: nn.Sequential | MixedStack, graph: OnnxGraph, place: Value) -> Value:
    for part in module:
        place = write_module(part, graph, place)
    return place


@write_module.register
def _(module: nn.Linear, graph: OnnxGraph, place: Value) -> Value:
    return graph.add("Gemm", place[0], _array(module.weight), _array(module.bias), transB=1), (module.out_features,)


@write_module.register
def _(module: nn.Conv2d, graph: OnnxGraph, place: Value) -> Value:
    if module.kernel_size != (1, 1) or module.bias is None:
        raise _no_form(module)
    return _convolved(graph, place, module.weight, module.bias, padding=0)


@write_module.register
def _(module: Members, graph: OnnxGraph, place: Value) -> Value:
    """The members of a sample become rows one after the other."""
    x, shape = place
    scaled = graph.add("Mul", graph.add("Unsqueeze", x, np.array([1])), _array(module.factors))
    return graph.add("Reshape", scaled, np.array([-1, *shape])), shape


@write_module.register
def _(module: MemberJoin, graph: OnnxGraph, place: Value) -> Value:
    x, shape = place
    size = module.count * shape[0]
    return graph.add("Div", graph.add("Reshape", x, np.array([-1, size])), np.float32(module.count)), (size,)


@write_module.register
def _(module: DensePlain, graph: OnnxGraph, place: Value) -> Value:
    x, _ = place
    for weight, bias in zip(module.weight.unbind(), module.bias.unbind(), strict=True):
        x = _dense(graph, x, weight, bias, module.activation)
    return x, (module.out_features,)


@write_module.register
def _(module: DenseResidual, graph: OnnxGraph, place: Value) -> Value:
    x, shape = place
    for number, (weight, bias) in enumerate(zip(module.weight.unbind(), module.bias.unbind(), strict=True), start=1):
        if number not in module.closed_layers:
            x = graph.add("Add", x, _dense(graph, x, weight, bias, module.activation))
    return x, shape


@write_module.register
def _(module: DenseHighway, graph: OnnxGraph, place: Value) -> Value:
    """Each part (H, T and perhaps C) is a product of its own, because ONNX Runtime joins a product with the activation behind it."""
    x, shape = place
    for number, (weights, biases) in enumerate(zip(module.weight.unbind(), module.bias.unbind(), strict=True), start=1):
        if number in module.closed_layers:
            continue
        parts = zip(weights.split(module.width), biases.split(module.width), strict=True)
        h, *gates = (_dense(graph, x, *part, "sigmoid" if gate else module.activation) for gate, part in enumerate(parts))
        x = _mixed(graph, x, h, *gates)
    return x, shape


@write_module.register
def _(module: DepthLSTM, graph: OnnxGraph, place: Value) -> Value:
    x, shape = place
    cell = x
    for number, (weights, biases) in enumerate(zip(module.weight.unbind(), module.bias.unbind(), strict=True), start=1):
        if number in module.closed_layers:
            continue
        parts = zip(weights.split(module.width), biases.split(module.width), strict=True)
        g, i, f, o = (_dense(graph, x, *part, "sigmoid" if gate else module.activation) for gate, part in enumerate(parts))
        cell = _mixed(graph, cell, g, i, f)
        x = graph.add("Mul", o, _activated(graph, cell, module.activation))
    return x, shape


@write_module.register
def _(module: DenseMaxout, graph: OnnxGraph, place: Value) -> Value:
    parts = zip(module.weight.chunk(module.pieces), module.bias.chunk(module.pieces), strict=True)
    pieces = [_dense(graph, place[0], *part, "identity") for part in parts]
    return graph.add("Max", *pieces), (module.out_features,)


@write_module.register
def _(module: ConvPlain, graph: OnnxGraph, place: Value) -> Value:
    z, shape = _convolved(graph, place, module.weight, module.bias, stride=module.stride, padding=module.padding)
    if module.norm is not None:
        z = _normed(graph, z, module.norm)
    return _activated(graph, z, module.activation), shape


@write_module.register
def _(module: ConvHighway, graph: OnnxGraph, place: Value) -> Value:
    """All parts are one convolution, which reads the maps once; for convolutions, this is faster than joining activations."""
    if module.closed_layers:
        return place
    x, shape = place
    z, _ = _convolved(graph, place, module.weight, module.bias)
    h, *gates = graph.add("Split", z, outputs=module.weight.shape[0] // module.channels, axis=1)
    h = _activated(graph, h, module.activation)
    return _mixed(graph, x, h, *(_activated(graph, gate, "sigmoid") for gate in gates)), shape


@write_module.register
def _(module: ConvMaxout, graph: OnnxGraph, place: Value) -> Value:
    parts = zip(module.weight.chunk(module.pieces), module.bias.chunk(module.pieces), strict=True)
    pieces = [_convolved(graph, place, *part, padding=module.padding) for part in parts]
    return graph.add("Max", *(piece for piece, _ in pieces)), pieces[0][1]


@write_module.register
def _(module: ConvResidual, graph: OnnxGraph, place: Value) -> Value:
    carried, shape = write_module(module.shortcut, graph, place)
    if module.closed_layers:
        return carried, shape
    first, inner = write_module(module.first, graph, place)
    state, _ = write_module(module.second, graph, (graph.add("Relu", first), inner))
    return graph.add("Relu", graph.add("Add", carried, state)), shape


@write_module.register
def _(module: Subsample, graph: OnnxGraph, place: Value) -> Value:
    x, (channels, *sizes) = place
    if module.stride == 1:
        return place
    both = np.array([2, 3])
    sliced = graph.add("Slice", x, np.array([0, 0]), np.array(sizes), both, np.array([module.stride] * 2))
    return sliced, (channels, *(-(-size // module.stride) for size in sizes))


@write_module.register
def _(module: PadChannels, graph: OnnxGraph, place: Value) -> Value:
    x, (channels, *sizes) = place
    if channels == module.channels:
        return place
    ends = np.array([0, 0, 0, 0, 0, module.channels - channels, 0, 0])
    return graph.add("Pad", x, ends, np.zeros((), np.float32)), (module.channels, *sizes)


@write_module.register
def _(module: nn.MaxPool2d | nn.AvgPool2d, graph: OnnxGraph, place: Value) -> Value:
    """Windows over the edge become padding at the far side, which neither a maximum nor a mean without padding counts."""
    x, (channels, *sizes) = place
    window, stride = int(module.kernel_size), int(module.stride)  # type: ignore[arg-type]
    counts = [_windows(size, window, stride, module.ceil_mode) for size in sizes]
    over = [max(0, (count - 1) * stride + window - size) for count, size in zip(counts, sizes, strict=True)]
    own: dict[str, Any] = {"count_include_pad": 0} if isinstance(module, nn.AvgPool2d) else {}
    operator = "AveragePool" if isinstance(module, nn.AvgPool2d) else "MaxPool"
    pooled = graph.add(operator, x, kernel_shape=[window] * 2, strides=[stride] * 2, pads=[0, 0, *over], **own)
    return pooled, (channels, *counts)


@write_module.register
def _(module: GlobalAverage, graph: OnnxGraph, place: Value) -> Value:
    x, (channels, *_) = place
    return graph.add("Flatten", graph.add("GlobalAveragePool", x), axis=1), (channels,)


def _windows(size: int, window: int, stride: int, ceil: bool) -> int:
    """Return how many windows torch's pooling has along one side."""
    if not ceil:
        return (size - window) // stride + 1
    count = -(-(size - window) // stride) + 1
    return count - 1 if (count - 1) * stride >= size else count


def _dense(graph: OnnxGraph, x: str, weight: Tensor, bias: Tensor, activation: Activation) -> str:
    return _activated(graph, graph.add("Gemm", x, _array(weight), _array(bias), transB=1), activation)


def _convolved(graph: OnnxGraph, place: Value, weight: Tensor, bias: Tensor | None, *, stride: int = 1, padding: Any = "same") -> Value:
    """Write a convolution; with padding "same" and an even window, the far side has one zero more."""
    x, (_, *sizes) = place
    kernel = weight.shape[-1]
    near, far = ((kernel - 1) // 2, kernel // 2) if padding == "same" else (padding, padding)
    inputs: list[Any] = [x, _array(weight), *([] if bias is None else [_array(bias)])]
    made = graph.add("Conv", *inputs, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[near, near, far, far])
    return made, (weight.shape[0], *((size + near + far - kernel) // stride + 1 for size in sizes))


def _normed(graph: OnnxGraph, z: str, norm: nn.BatchNorm2d) -> str:
    if norm.running_mean is None or norm.running_var is None:
        raise _no_form(norm)
    values = [_array(value) for value in (norm.weight, norm.bias, norm.running_mean, norm.running_var)]
    normed: str = graph.add("BatchNormalization", z, *values, epsilon=norm.eps)
    return normed


def _activated(graph: OnnxGraph, z: str, activation: Activation) -> str:
    return z if activation == "identity" else str(graph.add(ACTIVATIONS[activation], z))


def _mixed(graph: OnnxGraph, x: str, h: str, t: str, c: str | None = None) -> str:
    """Write the highway equation: x + T·(H − x), or H·T + x·C with an independent carry gate."""
    if c is None:
        mixed: str = graph.add("Add", x, graph.add("Mul", t, graph.add("Sub", h, x)))
        return mixed
    return str(graph.add("Add", graph.add("Mul", h, t), graph.add("Mul", x, c)))


def _array(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().float().cpu().numpy()
    return array
