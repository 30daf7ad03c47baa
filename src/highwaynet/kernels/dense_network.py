"""The loss of a whole dense network (first layer, stack, last layer, cross-entropy) and all its gradients, as one autograd function.

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


def can_network(x: Tensor, targets: Tensor, parameters: Parameters, kind: str) -> bool:
    """Whether `network_loss` accepts x (rows, inputs), class numbers (rows) and the parameters; if not, compute layer by layer.

    False if nothing requires a gradient, because `network_loss` always computes the gradients.
    """
    tensors = (x, *parameters)
    if not torch.is_grad_enabled() or not can_take(targets, *tensors) or through_registry() or torch.is_autocast_enabled("cpu"):
        return False
    if targets.dtype is not torch.int64 or any(tensor.dtype is not torch.float32 for tensor in tensors):
        return False
    return _fits(x, targets, parameters, kind) and any(tensor.requires_grad for tensor in tensors)


def _fits(x: Tensor, targets: Tensor, parameters: Parameters, kind: str) -> bool:
    """Check every size, so that the kernels need not refuse anything."""
    entry_weight, entry_bias, weight, bias, head_weight, head_bias = parameters
    rows, width, classes = len(targets), entry_weight.shape[-2], head_weight.shape[0]
    return (
        rows > 0
        and targets.dim() == 1
        and x.shape == (rows, entry_weight.shape[-1])
        and entry_weight.numel() == width * entry_weight.shape[-1]
        and entry_bias.numel() == width
        and stack_fits(weight, bias, kind, width)
        and head_weight.shape == (classes, width)
        and head_bias.shape == (classes,)
    )


def network_loss(
    x: Tensor, targets: Tensor, parameters: Parameters, kind: str, activation: str, closed: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return the logits (rows, classes), without gradient, and the mean cross-entropy, with gradient; call `can_network` first."""
    logits, loss = _Network.apply(x, targets, kind, activation, closed, *parameters)  # type: ignore[no-untyped-call]
    return logits, loss


class _Network(torch.autograd.Function):
    """Computes the gradients in the forward pass: the backward pass adds only a factor, and their inputs are still in the cache."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, targets: Tensor, kind: str, activation: str, closed: Sequence[int], *parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        entry_weight, entry_bias, weight, bias, head_weight, head_bias = parameters
        entry = entry_weight.view(entry_weight.shape[-2:])
        first = layer_forward(x, entry, entry_bias.view(-1), activation)
        last, kept = stack_forward(first, weight, bias, kind, activation, closed, keep=True)
        logits = layer_forward(last, head_weight, head_bias, "identity")
        error = torch.empty_like(logits)
        classes = targets.contiguous()
        loss = compiled().cross_entropy(logits, classes, error)

        gz, gw, gb = stack_backward(error.mm(head_weight), weight, kept, kind, activation, closed)
        gz, entry_gb = layer_backward(gz, first, activation)
        head_gb = layer_backward(error, logits, "identity")[1]
        gx = gz.mm(entry) if ctx.needs_input_grad[0] else None
        entries = (gz.t().mm(x).view(entry_weight.shape), entry_gb.view(entry_bias.shape))
        ctx.gradients = (gx, None, None, None, None, *entries, gw, gb, error.t().mm(last), head_gb)
        ctx.names = (kind, activation, closed)
        ctx.save_for_backward(x, targets, *parameters)
        ctx.mark_non_differentiable(logits)
        return logits, logits.new_full((), loss)

    @staticmethod
    def backward(ctx: Any, _: Tensor, g: Tensor) -> tuple[Tensor | None, ...]:
        found: tuple[Tensor | None, ...] | None = ctx.gradients
        ctx.gradients = None  # the caller owns them now; a second backward pass computes them with torch
        if found is None or torch.is_grad_enabled() or through_registry() or not torch._C._has_storage(g) or not readable(g):
            return _gradients_in_torch(ctx, g)
        factor = g.item()
        return found if factor == 1 else tuple(None if gradient is None else gradient.mul_(factor) for gradient in found)


def _gradients_in_torch(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    x, targets, *parameters = ctx.saved_tensors
    kind, activation, closed = ctx.names
    function = partial(_in_torch, targets=targets, kind=kind, activation=activation, closed=closed)
    needs = ctx.needs_input_grad
    gx, *found = gradients_in_torch(function, (x, *parameters), (needs[0], *needs[5:]), g)
    return gx, None, None, None, None, *found


def _in_torch(
    x: Tensor,
    entry_weight: Tensor,
    entry_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    head_weight: Tensor,
    head_bias: Tensor,
    *,
    targets: Tensor,
    kind: str,
    activation: str,
    closed: Sequence[int],
) -> Tensor:
    """Compute the loss with torch's operators, for gradients of gradients."""
    first = layer_in_torch(x, entry_weight.view(entry_weight.shape[-2:]), entry_bias.view(-1), activation)
    return F.cross_entropy(F.linear(stack_in_torch(first, weight, bias, kind, activation, closed), head_weight, head_bias), targets)
