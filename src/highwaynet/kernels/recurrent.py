"""Recurrent highway layers over all time steps as one operator, `highwaynet::recurrent`, with its gradients as another.

Sequences are packed, as in torch's `PackedSequence`: the rows of each step together, the longest sequence first. `counts` has the number of
rows of each step. torch would start about ten operators for each micro-layer of each step. The result does not depend on the number of
threads, and a sequence's result does not depend on the others. One tensor is kept for the backward pass: for each micro-layer and step the
state before it, H and T, and C if the carry gate is independent.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from highwaynet.kernels.operators import (
    ACTIVATIONS,
    LIBRARY,
    PLAIN,
    can_take,
    check_fake,
    compiled,
    gradients_in_torch,
    readable,
    refuse_second_derivative,
    register,
    through_registry,
)


def can_recur(x: Tensor, start: Tensor, input_weight: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None, counts: Tensor) -> bool:
    """Whether `run_recurrent` accepts these tensors; if not, use the readable version in `layers`.

    Raises:
        InputError: If the environment variable HIGHWAYNET_KERNEL has an unknown value.
    """
    tensors = (x, start, input_weight, weight, bias, *(() if mask is None else (mask,)))
    if not can_take(*tensors, counts) or (mask is not None and mask.requires_grad):
        return False
    return _fits(x, start, input_weight, weight, bias, mask, counts)


def _fits(x: Tensor, start: Tensor, input_weight: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None, counts: Tensor) -> bool:
    """Whether types, shapes and the memory layout of the parameters fit; the values of `counts` are checked by the kernel."""
    if weight.dim() != 3 or x.dim() != 2 or start.dim() != 2 or counts.dim() != 1 or counts.dtype is not torch.int64:
        return False
    depth, height, width = weight.shape
    tensors = (x, start, input_weight, weight, bias, *(() if mask is None else (mask,)))
    return (
        all(tensor.dtype is torch.float32 for tensor in tensors)
        and depth > 0
        and width > 0
        and height in (2 * width, 3 * width)
        and input_weight.shape == (height, x.shape[1])
        and bias.shape == (depth, height)
        and start.shape[1] == width
        and (mask is None or mask.shape == start.shape)
        and all(tensor.is_contiguous() for tensor in (input_weight, weight, bias))
    )


def run_recurrent(
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    activation: str,
    closed: Collection[int] = (),
) -> Tensor:
    """Return the states after each step, (total, width). Call `can_recur` first.

    Args:
        x: The packed inputs, (total, inputs).
        start: The states before the first step, (rows, width).
        input_weight: Shape (parts·width, inputs): H, T and, with an independent carry gate, C below each other.
        weight: Shape (depth, parts·width, width).
        bias: Shape (depth, parts·width).
        mask: Factors for what the weights see of the states, (rows, width), the same at each step; None is 1.
        counts: Number of rows at each step, int64, not increasing, from `rows` on.
        activation: relu, tanh, sigmoid or identity.
        closed: Numbers of the micro-layers, from 1, that copy their state.

    Raises:
        ValueError: If `counts` does not fit x and start.
    """
    tensors, order = (x, start, input_weight, weight, bias), sorted(closed)
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    if through_registry():
        y: Tensor = torch.ops.highwaynet.recurrent.default(*tensors, mask, counts, activation, order, keep)[0]
        return y
    if keep:
        recorded: Tensor = _Recurrent.apply(*tensors, mask, counts, activation, order)  # type: ignore[no-untyped-call]
        return recorded
    return recurrent_forward(*tensors, mask, counts, activation, order, keep=False)[0]


def recurrent_inside(
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    activation: str,
    closed: Collection[int] = (),
) -> tuple[Tensor, list[Tensor]]:
    """Return what `run_recurrent` returns and, of shape (depth, total, width), the states before each micro-layer, H, T and possibly C.

    Without gradients. H, T and C of closed micro-layers are 0.
    """
    (depth, height, width), total = weight.shape, len(x)
    y, kept = recurrent_forward(x.detach(), start, input_weight, weight, bias, mask, counts, activation, sorted(closed), keep=True)
    return y, [part[..., :width] for part in kept.view(1 + height // width, depth, total, -1)]


def recurrent_forward(
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    activation: str,
    closed: Sequence[int],
    *,
    keep: bool,
) -> tuple[Tensor, Tensor]:
    """Call the forward kernel, which checks everything; returns y and what the backward pass reads (or scratch memory)."""
    x, start, mask, counts = x.contiguous(), start.contiguous(), None if mask is None else mask.contiguous(), counts.contiguous()
    native, inputs = compiled(), (x, start, input_weight, weight, bias, mask, counts)
    size, scratch_size = native.recurrent_memory(*inputs, keep)
    # Closed micro-layers write no gates, and equal calls must give equal results.
    kept, scratch = x.new_zeros(size) if closed else x.new_empty(size), x.new_empty(scratch_size)
    y = x.new_empty(len(x), weight.shape[2])
    native.recurrent(*inputs, y, kept, scratch, activation, closed, keep, torch.get_num_threads())
    return y, kept


Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def recurrent_backward(
    gy: Tensor,
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    kept: Tensor,
    activation: str,
    closed: Sequence[int],
    *,
    inputs: bool = True,
    parameters: bool = True,
) -> Gradients:
    """Call the backward kernel, which checks everything; returns the gradients of x (if `inputs`), start, weights and bias.

    Those of weights and bias only if `parameters`. Of `start`, only the shape matters.
    """
    x, start, gy = x.contiguous(), start.contiguous(), gy.contiguous()
    mask, counts = None if mask is None else mask.contiguous(), counts.contiguous()
    native, given = compiled(), (gy, x, start, input_weight, weight, mask, counts, kept)
    scratch = x.new_empty(native.recurrent_scratch(*given))
    gx, gstart = torch.empty_like(x) if inputs else None, x.new_empty(start.shape)
    giw, gw = (torch.empty_like(input_weight), torch.empty_like(weight)) if parameters else (None, None)
    gb = weight.new_empty(weight.shape[:2]) if parameters else None
    native.recurrent_backward(*given, gx, gstart, giw, gw, gb, scratch, activation, closed, torch.get_num_threads())
    return gx, gstart, giw, gw, gb


def recurrent_in_torch(
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    mask: Tensor | None,
    counts: Tensor,
    activation: str,
    closed: Sequence[int],
) -> Tensor:
    """Compute the same with torch's operators, for gradients of gradients."""
    width, found = weight.shape[2], list[Tensor]()
    for rows in x.split(counts.tolist()):
        state = (found[-1] if found else start)[: len(rows)]
        for number, (w, b) in enumerate(zip(weight.unbind(), bias.unbind(), strict=True), start=1):
            if number in closed:
                continue
            z = F.linear(state if mask is None else state * mask[: len(rows)], w, b)
            if number == 1:
                z = z + F.linear(rows, input_weight)
            h, t, *c = z.split(width, dim=1)
            h, t = h if activation == "identity" else getattr(torch, activation)(h), torch.sigmoid(t)
            state = h * t + state * torch.sigmoid(c[0]) if c else torch.lerp(state, h, t)
        found.append(state)
    return torch.cat(found)


def _kept_size(x: Tensor, weight: Tensor) -> int:
    """Return how many floats are kept for the backward pass."""
    lanes, (depth, height, width) = compiled().recurrent_lanes(), weight.shape
    size: int = (1 + height // width) * depth * x.shape[0] * ((width + lanes - 1) // lanes * lanes)
    return size


def _is_kept(kept: Tensor, x: Tensor, weight: Tensor) -> bool:
    """Whether `kept` has the form that the backward kernel reads: hooks on saved tensors may have compressed or moved it."""
    return kept.dtype is torch.float32 and kept.shape == (_kept_size(x, weight),) and kept.is_contiguous()


def _gradients(ctx: Any, gy: Tensor) -> Gradients:
    x, start, input_weight, weight, bias, mask, counts, kept = ctx.saved_tensors
    names = (ctx.activation, ctx.closed)
    if through_registry() and not torch.is_grad_enabled():
        arguments = (gy, x, start, input_weight, weight, mask, counts, kept, *names)
        found: Gradients = torch.ops.highwaynet.recurrent_backward.default(*arguments)
        return found
    # Hooks may have compressed or moved the saved tensors; batched gradients of torch have no storage.
    tensors = (gy, x, start, input_weight, weight, kept, *(() if mask is None else (mask,)))
    usual = not torch.is_grad_enabled() and torch._C._has_storage(gy) and all(type(tensor) in PLAIN for tensor in tensors)
    usual = usual and readable(*tensors) and gy.dtype is torch.float32 and _fits(x, start, input_weight, weight, bias, mask, counts)
    if usual and _is_kept(kept, x, weight):
        needs = ctx.needs_input_grad
        arguments = (gy, x, start, input_weight, weight, mask, counts, kept, *names)
        return recurrent_backward(*arguments, inputs=needs[0], parameters=any(needs[2:5]))
    function = partial(recurrent_in_torch, mask=mask, counts=counts, activation=ctx.activation, closed=ctx.closed)
    gx, gstart, giw, gw, gb = gradients_in_torch(function, (x, start, input_weight, weight, bias), ctx.needs_input_grad, gy)
    return gx, gstart, giw, gw, gb


class _Recurrent(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        x, start, input_weight, weight, bias, mask, counts, ctx.activation, ctx.closed = arguments
        names = (ctx.activation, ctx.closed)
        y, kept = recurrent_forward(x, start, input_weight, weight, bias, mask, counts, *names, keep=True)
        ctx.save_for_backward(x, start, input_weight, weight, bias, mask, counts, kept)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *_gradients(ctx, grads[0]), None, None, None, None


# ----- Registration with torch

_TENSORS = "Tensor x, Tensor start, Tensor input_weight, Tensor weight"
LIBRARY.define(
    f"recurrent({_TENSORS}, Tensor bias, Tensor? mask, Tensor counts, str activation, int[] closed, bool keep) -> (Tensor y, Tensor kept)"
)
LIBRARY.define(
    f"recurrent_backward(Tensor gy, {_TENSORS}, Tensor? mask, Tensor counts, Tensor kept, str activation, int[] closed) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)


def _on_cpu(
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    activation: str,
    closed: Sequence[int],
    keep: bool,
) -> tuple[Tensor, Tensor]:
    weights = (input_weight.contiguous(), weight.contiguous(), bias.contiguous())
    y, kept = recurrent_forward(x, start, *weights, mask, counts, activation, closed, keep=keep)
    return y, kept if keep else kept.new_empty(0)


def _backward_on_cpu(
    gy: Tensor,
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    kept: Tensor,
    activation: str,
    closed: Sequence[int],
) -> Gradients:
    weights = (input_weight.contiguous(), weight.contiguous())
    return recurrent_backward(gy, x, start, *weights, mask, counts, kept.contiguous(), activation, closed)


def _fake(
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    activation: str,
    closed: Sequence[int],
    keep: bool,
) -> tuple[Tensor, Tensor]:
    weights = (input_weight.contiguous(), weight.contiguous(), bias.contiguous())
    fits = activation in ACTIVATIONS and _fits(x, start, *weights, mask, counts)
    tensors = {"x": x, "start": start, "input_weight": input_weight, "weight": weight, "bias": bias, "mask": mask, "counts": counts}
    check_fake("recurrent", fits, activation, **tensors)
    return x.new_empty(x.shape[0], weight.shape[2]), x.new_empty(_kept_size(x, weight) if keep else 0)


def _fake_backward(
    gy: Tensor,
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    kept: Tensor,
    activation: str,
    closed: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    weights = (input_weight.contiguous(), weight.contiguous(), weight.new_empty(weight.shape[:2]))
    fits = activation in ACTIVATIONS and _fits(x, start, *weights, mask, counts) and _is_kept(kept.contiguous(), x, weight)
    fits = fits and gy.dtype is torch.float32 and gy.shape == (x.shape[0], weight.shape[2])
    tensors = {"gy": gy, "x": x, "start": start, "input_weight": input_weight, "weight": weight, "mask": mask, "counts": counts}
    check_fake("recurrent_backward", fits, activation, **tensors, kept=kept)
    shapes = (x.shape, start.shape, input_weight.shape, weight.shape, weight.shape[:2])
    gx, gstart, giw, gw, gb = (x.new_empty(shape) for shape in shapes)
    return gx, gstart, giw, gw, gb


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.activation, ctx.closed, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*tensors, output[1])


def _registered_gradients(ctx: Any, gy: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return *_gradients(ctx, gy), None, None, None, None, None


register("recurrent", _on_cpu, _fake)
register("recurrent_backward", _backward_on_cpu, _fake_backward)
torch.library.register_autograd("highwaynet::recurrent", _registered_gradients, setup_context=_keep, lib=LIBRARY)
refuse_second_derivative("recurrent_backward")


@register_flop_formula(torch.ops.highwaynet.recurrent)
def _flops(x: Sequence[int], start: Any, input_weight: Sequence[int], weight: Sequence[int], *rest: Any, **options: Any) -> int:
    """Count FLOPs for torch's counter: a multiplication and an addition for each row and weight."""
    return 2 * x[0] * (input_weight[0] * input_weight[1] + weight[0] * weight[1] * weight[2])


@register_flop_formula(torch.ops.highwaynet.recurrent_backward)
def _backward_flops(
    gy: Any, x: Sequence[int], start: Any, input_weight: Sequence[int], weight: Sequence[int], *rest: Any, **options: Any
) -> int:
    return 2 * _flops(x, start, input_weight, weight)
