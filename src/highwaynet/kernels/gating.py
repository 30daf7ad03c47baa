"""The gating of a highway layer as one operator, `highwaynet::gate`, with its gradients as another.

y = x + T·(H − x) with H = activation(h), T = sigmoid(t), where h and t are the halves of z. torch needs four operators for it and eight
for its gradients, and each reads and writes whole tensors. Only x and z are kept for the backward pass.
"""

from typing import Any

import torch
from torch import Tensor

from highwaynet.kernels.operators import (
    ACTIVATIONS,
    LIBRARY,
    PLAIN,
    ROWS,
    arranged,
    can_take,
    check_fake,
    compiled,
    readable,
    refuse_second_derivative,
    register,
    through_registry,
)


def _fits(x: Tensor, z: Tensor) -> bool:
    """Whether type, shape and memory layout are those that the kernel reads: one type, channels innermost, twice as many channels in z."""
    shape, double = x.shape, z.shape
    if x.dtype not in ROWS or z.dtype is not x.dtype or len(shape) != len(double):
        return False
    if len(shape) == 2:
        return shape[0] == double[0] and 2 * shape[1] == double[1] and x.is_contiguous() and z.is_contiguous()
    return (
        len(shape) == 4
        and shape[0] == double[0]
        and 2 * shape[1] == double[1]
        and shape[2:] == double[2:]
        and x.is_contiguous(memory_format=torch.channels_last)
        and z.is_contiguous(memory_format=torch.channels_last)
    )


def can_gate(x: Tensor, z: Tensor) -> bool:
    """Whether `gate` accepts x and z; if not, use the readable version in `layers`, which computes the same.

    It accepts float32 and bfloat16 on the CPU: x of shape (batch, width) or (N, C, H, W) in channels_last format, and z with twice the
    channels. It accepts nothing while a model is exported, so that exported models need no kernels of this package, nor under torch.func
    and forward-mode gradients.

    Raises:
        InputError: If the environment variable HIGHWAYNET_KERNEL has an unknown value.
    """
    return can_take(x, z) and _fits(x, z)


def gate(x: Tensor, z: Tensor, activation: str) -> Tensor:
    """Compute the highway equation from pre-activations: x + sigmoid(t)·(activation(h) − x), where h and t are the halves of z.

    Exact at both ends: T = 0 gives x and T = 1 gives H, to the bit. The result does not depend on the number of threads. In bfloat16 it
    is computed in float32 and rounded once.

    Args:
        x: Input of shape (batch, width), or (N, C, H, W) in channels_last format.
        z: Pre-activations of H, then of T, along the second dimension, in the same format.
        activation: relu, tanh, sigmoid or identity.

    Raises:
        ValueError: If `can_gate` is false, or the activation is unknown.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"unknown activation {activation!r}: choose one of {', '.join(ACTIVATIONS)}")
    if not can_gate(x, z):
        raise ValueError(f"no kernel for x of {_form(x)} and z of {_form(z)}: call can_gate first")
    if through_registry():
        registered: Tensor = torch.ops.highwaynet.gate.default(x, z, activation)
        return registered
    if torch.is_grad_enabled() and (x.requires_grad or z.requires_grad):
        recorded: Tensor = _Gate.apply(x, z, activation)  # type: ignore[no-untyped-call]
        return recorded
    return _forward(x, z, activation)


def _form(x: Tensor) -> str:
    return f"{tuple(x.shape)} {x.dtype} on {x.device}, strides {x.stride()}"


def _forward(x: Tensor, z: Tensor, activation: str) -> Tensor:
    """Call the forward kernel; x and z must fit."""
    y = torch.empty_like(x)
    compiled().gate(x, z, y, activation, torch.get_num_threads())
    return y


def _backward(gy: Tensor, x: Tensor, z: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    """Call the backward kernel; x, z and gy must fit."""
    gx, gz = torch.empty_like(x), torch.empty_like(z)
    compiled().gate_backward(gy, x, z, gx, gz, activation, torch.get_num_threads())
    return gx, gz


def _differentiable_gradients(gy: Tensor, x: Tensor, z: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    """Compute the gradients with torch's operators, for gradients of gradients and batched gradients."""
    h, t = z.chunk(2, dim=1)
    gate = torch.sigmoid(t)
    gh = gate * gy
    if activation == "relu":
        state = torch.relu(h)
        gh = torch.where(h <= 0, 0.0, gh)
    elif activation == "tanh":
        state = torch.tanh(h)
        gh = gh * (1 - state * state)
    elif activation == "sigmoid":
        state = torch.sigmoid(h)
        gh = gh * state * (1 - state)
    else:
        state = h
    return (1 - gate) * gy, torch.cat((gh, (state - x) * gy * gate * (1 - gate)), dim=1)


def _gradients(ctx: Any, gy: Tensor) -> tuple[Tensor, Tensor, None]:
    x, z = ctx.saved_tensors
    if torch.is_grad_enabled() or not torch._C._has_storage(gy):  # batched gradients of torch have no storage
        gx, gz = _differentiable_gradients(gy, x, z, ctx.activation)
    elif not through_registry():
        # Hooks may have compressed or moved the saved tensors.
        if type(gy) is Tensor and gy.dtype is x.dtype and type(x) in PLAIN and type(z) in PLAIN and readable(gy, x, z) and _fits(x, z):
            gx, gz = _backward(arranged(gy), x, z, ctx.activation)
        else:
            gx, gz = _differentiable_gradients(gy, x, z, ctx.activation)
    else:
        gx, gz = torch.ops.highwaynet.gate_backward.default(gy, x, z, ctx.activation)
    return gx, gz, None


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, str], output: Tensor) -> None:
    x, z, ctx.activation = inputs
    ctx.save_for_backward(x, z)


class _Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, z: Tensor, activation: str) -> Tensor:
        _keep(ctx, (x, z, activation), x)
        return _forward(x, z, activation)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        return _gradients(ctx, grads[0])


LIBRARY.define("gate(Tensor x, Tensor z, str activation) -> Tensor")
LIBRARY.define("gate_backward(Tensor gy, Tensor x, Tensor z, str activation) -> (Tensor, Tensor)")


def _gate_on_cpu(x: Tensor, z: Tensor, activation: str) -> Tensor:
    return _forward(arranged(x), arranged(z), activation)


def _gate_backward_on_cpu(gy: Tensor, x: Tensor, z: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    return _backward(arranged(gy), arranged(x), arranged(z), activation)


def _fake_gate(x: Tensor, z: Tensor, activation: str) -> Tensor:
    x, z = arranged(x), arranged(z)
    check_fake("gate", _fits(x, z) and activation in ACTIVATIONS, activation, x=x, z=z)
    return torch.empty_like(x)


def _fake_gate_backward(gy: Tensor, x: Tensor, z: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    x, z = arranged(x), arranged(z)
    fits = _fits(x, z) and gy.shape == x.shape and gy.dtype is x.dtype and activation in ACTIVATIONS
    check_fake("gate_backward", fits, activation, gy=gy, x=x, z=z)
    return torch.empty_like(x), torch.empty_like(z)


register("gate", _gate_on_cpu, _fake_gate)
register("gate_backward", _gate_backward_on_cpu, _fake_gate_backward)
torch.library.register_autograd("highwaynet::gate", _gradients, setup_context=_keep, lib=LIBRARY)
refuse_second_derivative("gate_backward")
