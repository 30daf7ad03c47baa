"""Checks of arguments and inputs: messages name the layer, what it was given and what it needs."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Proxy


def check_sizes(**sizes: object) -> None:
    """Raise ValueError if a size is not an integer, or is below 1.

    >>> check_sizes(width=5, layers=0)
    Traceback (most recent call last):
    ValueError: layers = 0: must be at least 1
    """
    for name, size in sizes.items():
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            raise ValueError(f"{name} = {size!r}: give an integer of at least 1")
        if size.__index__() < 1:
            raise ValueError(f"{name} = {size}: must be at least 1")


def is_foreign(x: object) -> bool:
    """Whether x is not a tensor. Type checkers do not see that: by its type, the input of a layer always is one."""
    return not isinstance(x, Tensor)


def not_a_tensor(
    layer: nn.Module, x: object, inputs: Sequence[object] = (), options: Mapping[str, object] | None = None, **more: object
) -> Tensor:
    """Answer a call whose input is not a tensor: the layer becomes a leaf of a torch.fx graph, or TypeError is raised.

    Inside a layer there are decisions that depend on shapes and types, which torch.fx cannot trace.
    """
    name = type(layer).__name__
    if not isinstance(x, Proxy):
        raise TypeError(f"{name} takes a tensor, but got {type(x).__name__}: convert it, for instance with torch.as_tensor")
    tracer: Any = x.tracer
    path = tracer.path_of_module(layer)
    if not path:
        raise TypeError(f"{name} is one node of a torch.fx graph and cannot be its root: trace nn.Sequential(layer), or a model around it")
    given = {key: value for key, value in more.items() if value is not None and value is not False}
    node: Any = tracer.create_proxy("call_module", path, (x, *inputs), given | dict(options or {}))
    return node  # type: ignore[no-any-return]  # a proxy of a tensor


def not_scriptable(layer: nn.Module) -> Any:
    """Answer torch.jit.script, which calls this as a method ``__prepare_scriptable__``."""
    raise TypeError(f"torch.jit.script cannot compile {type(layer).__name__}: use torch.jit.trace, or torch.export, which replaces it")


def is_autocast(x: Tensor) -> bool:
    """Whether autocast asks for another type on the device of x."""
    device = x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def check_features(layer: nn.Module, x: Tensor, weight: Tensor, features: int) -> None:
    """Raise an error if a dense layer cannot take x (..., features); `weight` has the type and device that it needs."""
    if not x.dim() or x.shape[-1] != features:
        raise ValueError(f"{type(layer).__name__} takes (..., {features}), but the input has shape {tuple(x.shape)}")
    check_kind(layer, x, weight)


def check_maps(layer: nn.Module, x: Tensor, weight: Tensor, channels: int, axes: str = "height, width") -> None:
    """Raise an error if a convolutional layer cannot take x, with or without a batch axis."""
    places = axes.count(",") + 1
    if x.dim() not in {places + 1, places + 2} or x.shape[-places - 1] != channels:
        form = f"(batch, {channels}, {axes}) or ({channels}, {axes})"
        raise ValueError(f"{type(layer).__name__} takes {form}, but the input has shape {tuple(x.shape)}")
    check_kind(layer, x, weight)


def check_kind(layer: nn.Module, x: Tensor, weight: Tensor, what: str = "input") -> None:
    """Raise an error if x and the weights differ in type or device; under autocast, types may differ. `what` names x in the message."""
    name, variable = type(layer).__name__, "x" if what == "input" else what
    if is_foreign(weight):  # of a quantized layer
        return
    if x.device != weight.device:
        remedy = f"{variable}.to({str(weight.device)!r}) or layer.to({str(x.device)!r})"
        raise ValueError(f"{name} has its weights on {weight.device}, but the {what} is on {x.device}: move one of them, {remedy}")
    if x.dtype is not weight.dtype and not (x.is_floating_point() and is_autocast(x)):
        remedy = f"{variable}.to({weight.dtype})" + (f" or layer.to({x.dtype})" if x.is_floating_point() else "")
        raise ValueError(f"{name} has {weight.dtype} weights, but the {what} is {x.dtype}: convert it, {remedy}")
