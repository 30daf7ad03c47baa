"""The loss of a whole dense network (first layer, stack, last layer, loss) and all its gradients, as one autograd function.

The loss is cross-entropy for class numbers and the mean squared error for floating-point targets. With members, each of which scales the
inputs by factors of its own, the loss is the mean of their losses. Instead of the inputs, the kernel scales the first weights: this gives
the same products, and the factors' gradients follow from those of the scaled weights without another product.

Between operators, a thin network waits for Python and autograd. Four functions in a row take a quarter of a millisecond longer than one:
a third of the step at ten layers.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from highwaynet.kernels.dense_layer import layer_backward, layer_forward, layer_in_torch
from highwaynet.kernels.dense_stack import stack_backward, stack_fits, stack_forward, stack_in_torch
from highwaynet.kernels.operators import can_take, compiled, gradients_in_torch, readable, through_registry


class Parameters(NamedTuple):
    """Parameters of the first layer (weight (1, width, inputs) or (width, inputs)), the stack, and the last layer (classes, width)."""

    entry_weight: Tensor
    entry_bias: Tensor
    weight: Tensor
    bias: Tensor
    head_weight: Tensor
    head_bias: Tensor
    scale: Tensor | None = None
    """Factors of the inputs, (members, inputs); None if the network has no members. The last layer is (classes, members·width) then."""


def can_network(x: Tensor, targets: Tensor, parameters: Parameters, kind: str) -> bool:
    """Whether `network_loss` accepts x (rows, inputs), the targets and the parameters; if not, compute layer by layer.

    False if nothing requires a gradient, because `network_loss` always computes the gradients.
    """
    tensors = [tensor for tensor in (x, *parameters) if tensor is not None]
    if not torch.is_grad_enabled() or not can_take(targets, *tensors) or through_registry() or torch.is_autocast_enabled("cpu"):
        return False
    if targets.dtype not in {torch.int64, torch.float32} or any(tensor.dtype is not torch.float32 for tensor in tensors):
        return False
    return _fits(x, targets, parameters, kind) and any(tensor.requires_grad for tensor in tensors)


def _fits(x: Tensor, targets: Tensor, parameters: Parameters, kind: str) -> bool:
    """Check every size, so that the kernels need not refuse anything."""
    entry_weight, entry_bias, weight, bias, head_weight, head_bias, scale = parameters
    rows, width, outputs = len(targets), entry_weight.shape[-2], head_weight.shape[0]
    each = {(rows,)} if not targets.is_floating_point() else {(rows, outputs), (rows,) if outputs == 1 else (rows, outputs)}
    return (
        rows > 0
        and tuple(targets.shape) in each
        and x.shape == (rows, entry_weight.shape[-1])
        and entry_weight.numel() == width * entry_weight.shape[-1]
        and entry_bias.numel() == width
        and stack_fits(weight, bias, kind, width)
        and head_weight.shape == (outputs, width if scale is None else width * len(scale))
        and head_bias.shape == (outputs,)
        and (scale is None or (scale.dim() == 2 and len(scale) > 0 and scale.shape[1] == x.shape[1]))
    )


def network_loss(
    x: Tensor, targets: Tensor, parameters: Parameters, kind: str, activation: str, closed: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return the outputs (rows, outputs), without gradient, and the mean loss, with gradient; call `can_network` first."""
    outputs, loss = _Network.apply(x, targets, kind, activation, closed, *parameters)  # type: ignore[no-untyped-call]
    return outputs, loss


class _Network(torch.autograd.Function):
    """Computes the gradients in the forward pass: the backward pass adds only a factor, and their inputs are still in the cache."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, targets: Tensor, kind: str, activation: str, closed: Sequence[int], *parameters: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        entry_weight, entry_bias, weight, bias, head_weight, head_bias, scale = Parameters(*parameters)  # type: ignore[arg-type]
        entry, entry_start = entry_weight.view(entry_weight.shape[-2:]), entry_bias.view(-1)
        members, width = 1 if scale is None else len(scale), len(entry)
        scaled = entry if scale is None else (scale[:, None] * entry).view(-1, entry.shape[1])  # (members·width, inputs)
        first = layer_forward(x, scaled, entry_start if members == 1 else entry_start.repeat(members), activation)  # (rows, members·width)
        last, kept = stack_forward(first.view(-1, width), weight, bias, kind, activation, closed, keep=True)  # (rows·members, width)
        head = _one_head if members == 1 else _heads
        outputs, loss, gy, head_gw, head_gb = head(last, head_weight, head_bias, targets)

        gz, gw, gb = stack_backward(gy, weight, kept, kind, activation, closed)
        gz, entry_gb = layer_backward(gz.view_as(first), first, activation)
        gx = gz.mm(scaled) if ctx.needs_input_grad[0] else None
        entry_gw, scale_g = gz.t().mm(x), None
        if scale is not None:
            by_member = entry_gw.view(members, *entry.shape)
            scale_g = (by_member * entry).sum(1)  # a product and a sum take a fifth of einsum's time
            entry_gw, entry_gb = by_member.mul_(scale[:, None]).sum(0), entry_gb.view(members, width).sum(0)
        entries = (entry_gw.view(entry_weight.shape), entry_gb.view(entry_bias.shape))
        ctx.gradients = (gx, None, None, None, None, *entries, gw, gb, head_gw, head_gb, scale_g)
        ctx.names = (kind, activation, closed)
        ctx.save_for_backward(x, targets, *parameters)
        ctx.mark_non_differentiable(outputs)
        return outputs, loss

    @staticmethod
    def backward(ctx: Any, _: Tensor, g: Tensor) -> tuple[Tensor | None, ...]:
        found: tuple[Tensor | None, ...] | None = ctx.gradients
        ctx.gradients = None  # the caller owns them now; a second backward pass computes them with torch
        if found is None or torch.is_grad_enabled() or through_registry() or not torch._C._has_storage(g) or not readable(g):
            return _gradients_in_torch(ctx, g)
        factor = g.item()
        return found if factor == 1 else tuple(None if gradient is None else gradient.mul_(factor) for gradient in found)


_Head = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Outputs (rows, outputs), mean loss, and the gradients of the last layer's input, weight and bias."""


def _one_head(last: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> _Head:
    """Compute the last layer of one network, with fewer operators than `_heads` needs."""
    outputs = layer_forward(last, weight, bias, "identity")
    loss, error = _loss_and_gradient(outputs, targets)
    return outputs, loss, error.mm(weight), error.t().mm(last), layer_backward(error, outputs, "identity")[1]


def _heads(last: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> _Head:
    """Compute the last layers of all members; last: (rows·members, width)."""
    width, rows = last.shape[1], len(targets)
    members = len(last) // rows
    states = last.view(rows, members, width).transpose(0, 1)  # (members, rows, width)
    heads = weight.view(-1, members, width).transpose(0, 1)  # (members, outputs, width)
    outputs = torch.baddbmm(bias, states, heads.mT)  # (members, rows, outputs)
    loss, error = _loss_and_gradient(outputs.flatten(0, 1), targets.repeat(members, *[1] * (targets.dim() - 1)))
    error = error.view_as(outputs)
    gy = error.bmm(heads).transpose(0, 1).reshape(-1, width)  # (rows·members, width)
    gw = error.mT.bmm(states).transpose(0, 1).reshape(weight.shape)
    return outputs.mean(0), loss, gy, gw, error.sum((0, 1))


def _loss_and_gradient(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean loss of the outputs (rows, outputs), and its gradient."""
    if targets.is_floating_point():
        error = outputs - targets.view(outputs.shape)
        flat = error.view(-1)
        return flat.dot(flat) / len(flat), error.mul_(2 / len(flat))
    error = torch.empty_like(outputs)
    loss = compiled().cross_entropy(outputs, targets.contiguous(), error)
    return outputs.new_full((), loss), error


def _gradients_in_torch(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    x, targets, *parameters = ctx.saved_tensors
    kind, activation, closed = ctx.names
    function = partial(_in_torch, targets=targets, kind=kind, activation=activation, closed=closed)
    given = [parameter for parameter in parameters if parameter is not None]
    needs = ctx.needs_input_grad
    gx, *found = gradients_in_torch(function, (x, *given), (needs[0], *needs[5 : 5 + len(given)]), g)
    return gx, None, None, None, None, *found, *[None] * (len(parameters) - len(given))


def _in_torch(
    x: Tensor,
    entry_weight: Tensor,
    entry_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    head_weight: Tensor,
    head_bias: Tensor,
    scale: Tensor | None = None,
    *,
    targets: Tensor,
    kind: str,
    activation: str,
    closed: Sequence[int],
) -> Tensor:
    """Compute the loss with torch's operators, for gradients of gradients."""
    members = 1
    if scale is not None:
        members, x = len(scale), (x[:, None] * scale).flatten(0, 1)
    first = layer_in_torch(x, entry_weight.view(entry_weight.shape[-2:]), entry_bias.view(-1), activation)
    states = stack_in_torch(first, weight, bias, kind, activation, closed).unflatten(0, (-1, members))
    outputs = torch.einsum("rmw,omw->rmo", states, head_weight.unflatten(1, (members, -1))) + head_bias
    if targets.is_floating_point():
        return F.mse_loss(outputs, targets.view(len(targets), 1, -1).expand_as(outputs))
    return F.cross_entropy(outputs.flatten(0, 1), targets.repeat_interleave(members))
