"""A single dense layer, and the cross-entropy loss, with fewer operators than torch needs."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from highwaynet.kernels.operators import can_take, compiled, gradients_in_torch, readable, through_registry


def can_layer(x: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Whether `dense_layer` accepts x (rows, inputs), weight (outputs, inputs) and bias; if not, use torch, which computes the same."""
    return (
        can_take(x, weight, bias)
        and not through_registry()
        and x.dtype is weight.dtype is bias.dtype is torch.float32
        and x.dim() == weight.dim() == 2
        and bias.shape == weight.shape[:1]
        and x.shape[1] == weight.shape[1]
        and not torch.is_autocast_enabled("cpu")
    )


def dense_layer(x: Tensor, weight: Tensor, bias: Tensor, activation: str) -> Tensor:
    """Compute activation(x·Wᵀ + b); call `can_layer` first."""
    y: Tensor = _DenseLayer.apply(x, weight, bias, activation)  # type: ignore[no-untyped-call]
    return y


class _DenseLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, activation: str) -> Tensor:
        y = layer_forward(x, weight, bias, activation)
        ctx.activation = activation
        ctx.save_for_backward(x, weight, bias, y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, y = ctx.saved_tensors
        gy, needs = grads[0], ctx.needs_input_grad
        if torch.is_grad_enabled() or not torch._C._has_storage(gy) or not readable(gy, y) or not y.is_contiguous():
            return *gradients_in_torch(partial(layer_in_torch, activation=ctx.activation), (x, weight, bias), needs, gy), None
        gz, gb = layer_backward(gy.contiguous(), y, ctx.activation)
        return gz.mm(weight) if needs[0] else None, gz.t().mm(x) if needs[1] else None, gb if needs[2] else None, None


def layer_forward(x: Tensor, weight: Tensor, bias: Tensor, activation: str) -> Tensor:
    """Call the forward kernel; the tensors must fit."""
    y, bias = x.mm(weight.t()), bias.contiguous()
    compiled().activate(y, bias, activation)
    return y


def layer_backward(gy: Tensor, y: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    """Return the gradients of the pre-activations and of the bias."""
    gz, gb = torch.empty_like(gy), gy.new_empty(gy.shape[1])
    compiled().activation_gradient(gy, y, gz, gb, activation)
    return gz, gb


def layer_in_torch(x: Tensor, weight: Tensor, bias: Tensor, activation: str) -> Tensor:
    """Compute the same with torch's operators, for gradients of gradients."""
    z = F.linear(x, weight, bias)
    return z if activation == "identity" else getattr(torch, activation)(z)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits (rows, classes) and class numbers (rows); no class number is ignored.

    The compiled operator computes the gradient in the same pass.
    """
    usual = can_take(logits, targets) and not through_registry() and logits.dtype is torch.float32 and targets.dtype is torch.int64
    if usual and logits.dim() == 2 and targets.dim() == 1 and 0 < len(logits) == len(targets) and logits.shape[1]:
        loss: Tensor = _CrossEntropy.apply(logits, targets)  # type: ignore[no-untyped-call]
        return loss
    return F.cross_entropy(logits, targets)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        logits, targets = logits.contiguous(), targets.contiguous()
        gradient = torch.empty_like(logits)
        loss = compiled().cross_entropy(logits, targets, gradient)
        ctx.save_for_backward(gradient)
        return logits.new_full((), loss)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * g, None
