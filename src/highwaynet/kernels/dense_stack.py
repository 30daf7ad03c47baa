"""A whole stack of dense layers as one operator, `highwaynet::dense_stack`, with its gradients as another.

A tile of rows passes through all layers while it stays in the cache. Activation, gate and mixing happen before anything is stored. torch
would start about ten operators for each layer, and for thin layers starting takes longer than computing. The result does not depend on
the number of threads. One tensor is kept for the backward pass: the states of all layers and, for highway layers, H and T. One or two rows
of wide layers are computed in `dense_products`.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from highwaynet.kernels.dense_products import prefers_products, products_backward, products_forward
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
from highwaynet.kernels.workspace import fresh, workspace, workspace_like

KINDS = {"highway": 3, "plain": 1, "residual": 2}
"""The kinds of layers, and how many arrays are kept of each: x; of residual layers also H, of highway layers H and T."""


def can_stack(x: Tensor, weight: Tensor, bias: Tensor, kind: str) -> bool:
    """Whether the operators accept x (rows, width) and the parameters; if not, use the readable version in `layers`.

    Raises:
        InputError: If the environment variable HIGHWAYNET_KERNEL has an unknown value.
    """
    return can_take(x, weight, bias) and _fits(x, weight, bias, kind)


def _fits(x: Tensor, weight: Tensor, bias: Tensor, kind: str) -> bool:
    return x.dtype is weight.dtype is bias.dtype is torch.float32 and x.dim() == 2 and stack_fits(weight, bias, kind, x.shape[1])


def stack_fits(weight: Tensor, bias: Tensor, kind: str, width: int) -> bool:
    """Whether shapes and memory layout of the parameters fit layers of this kind and width."""
    height = (2 if kind == "highway" else 1) * width
    shapes = weight.dim() == 3 and weight.shape[1:] == (height, width) and bias.shape == weight.shape[:2]
    return shapes and weight.is_contiguous() and bias.is_contiguous()


def dense_stack(x: Tensor, weight: Tensor, bias: Tensor, kind: str, activation: str, closed: Collection[int] = ()) -> Tensor:
    """Return the output of the last layer, (rows, width).

    Args:
        x: Input of shape (rows, width).
        weight: Shape (layers, 2·width, width), H above T, for highway layers; (layers, width, width) for plain and residual ones.
        bias: Shape (layers, 2·width) or (layers, width).
        kind: highway, plain or residual.
        activation: relu, tanh, sigmoid or identity.
        closed: Numbers of the layers, from 1, that copy their input.

    Raises:
        ValueError: If the tensors do not fit, or a name is unknown.
    """
    _check(x, weight, bias, kind, activation)
    return run_stack(x, weight, bias, kind, activation, sorted(closed))


def run_stack(x: Tensor, weight: Tensor, bias: Tensor, kind: str, activation: str, closed: Sequence[int]) -> Tensor:
    """Do the same as `dense_stack` without its checks, which take as long as a layer; call `can_stack` first."""
    keep = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad or bias.requires_grad)
    if through_registry():
        y: Tensor = torch.ops.highwaynet.dense_stack.default(x, weight, bias, kind, activation, closed, keep)[0]
        return y
    if keep:
        recorded: Tensor = _DenseStack.apply(x, weight, bias, kind, activation, closed)  # type: ignore[no-untyped-call]
        return recorded
    return stack_forward(x, weight, bias, kind, activation, closed, keep=False)[0]


def dense_stack_gates(
    x: Tensor, weight: Tensor, bias: Tensor, kind: str, activation: str, closed: Collection[int] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output, the block states H and the gates T, H and T of shape (layers, rows, width), from one pass without gradients.

    H and T of closed layers are 0. For plain and residual layers, T has 0 layers. Arguments and errors are those of `dense_stack`.
    """
    _check(x, weight, bias, kind, activation)
    layers = weight.shape[0]
    h, t = x.new_empty(layers, *x.shape), x.new_empty(layers if kind == "highway" else 0, *x.shape)
    y, _ = stack_forward(x.detach(), weight, bias, kind, activation, sorted(closed), keep=False, t=t, h=h)
    return y, h, t


def _check(x: Tensor, weight: Tensor, bias: Tensor, kind: str, activation: str) -> None:
    if kind not in KINDS or activation not in ACTIVATIONS:
        raise ValueError(f"unknown kind {kind!r} or activation {activation!r}: choose from {', '.join(KINDS)} and {', '.join(ACTIVATIONS)}")
    if not can_stack(x, weight, bias, kind):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (x, weight, bias))
        raise ValueError(f"no kernel for a {kind} stack of x, weight and bias with shapes {shapes} and type {x.dtype}: ask can_stack first")


def _kept_size(weight: Tensor, kind: str, rows: int) -> int:
    """Return how many floats are kept for the backward pass."""
    lanes, (layers, _, width) = compiled().dense_stack_lanes(), weight.shape
    size: int = (rows + lanes - 1) // lanes * lanes * width * (1 + layers * KINDS[kind]) + rows % lanes
    return size


def _is_kept(gy: Tensor, weight: Tensor, kept: Tensor, kind: str) -> bool:
    """Whether the backward kernel can read what was saved: hooks on saved tensors may have compressed or moved it."""
    if not (gy.dtype is weight.dtype is kept.dtype is torch.float32) or weight.dim() != 3:
        return False
    return kept.shape == (_kept_size(weight, kind, len(gy)),) and weight.is_contiguous() and kept.is_contiguous()


def stack_forward(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    kind: str,
    activation: str,
    closed: Sequence[int],
    *,
    keep: bool,
    t: Tensor | None = None,
    h: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Call the forward kernel, which checks everything; returns y and what the backward pass reads (or scratch memory)."""
    native, x = compiled(), x.contiguous()
    size = native.dense_stack_memory(x, weight, bias, kind, activation, keep, h is not None)
    if prefers_products(*x.shape):
        kept = x.new_zeros(size if keep else 0)  # the rows that fill up a block stay 0, since equal calls must give equal results
        return products_forward(x, weight, bias, kind, activation, closed, kept if keep else None, t, h), kept
    kept = x.new_zeros(size) if closed and keep else workspace(x, size)  # closed layers write no H and T
    y = fresh(torch.empty_like(x))
    native.dense_stack(x, weight, bias, y, t, h, kept, kind, activation, closed, keep, torch.get_num_threads())
    return y, kept


def stack_backward(
    gy: Tensor, weight: Tensor, kept: Tensor, kind: str, activation: str, closed: Sequence[int], *, parameters: bool = True
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Call the backward kernel, which checks everything; returns the gradients of x and, if `parameters`, of weight and bias."""
    native, gy, threads = compiled(), gy.contiguous(), torch.get_num_threads()
    size = native.dense_stack_scratch(gy, weight, kept, kind, activation, threads)
    if prefers_products(*gy.shape):
        return products_backward(gy, weight, kept, kind, activation, closed, parameters=parameters)
    gx, scratch = fresh(torch.empty_like(gy)), workspace(gy, size)
    gw = workspace_like(weight) if parameters else None
    gb = weight.new_empty(weight.shape[:2]) if parameters else None
    native.dense_stack_backward(gy, weight, kept, gx, gw, gb, scratch, kind, activation, closed, threads)
    return gx, gw, gb


def stack_in_torch(x: Tensor, weight: Tensor, bias: Tensor, kind: str, activation: str, closed: Sequence[int]) -> Tensor:
    """Compute the same with torch's operators, for gradients of gradients."""
    for number, (w, b) in enumerate(zip(weight.unbind(), bias.unbind(), strict=True), start=1):
        if number in closed:
            continue
        # Not by split, which makes one part of two if they are empty.
        h, *t = F.linear(x, w, b).unflatten(1, (2 if kind == "highway" else 1, x.shape[1])).unbind(1)
        state = h if activation == "identity" else getattr(torch, activation)(h)
        mixed = torch.lerp(x, state, torch.sigmoid(t[0])) if kind == "highway" else x + state
        x = state if kind == "plain" else mixed
    return x


def _gradients(ctx: Any, gy: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    x, weight, bias, kept = ctx.saved_tensors
    names = (ctx.kind, ctx.activation, ctx.closed)
    # Hooks may have compressed or moved the saved tensors; batched gradients of torch have no storage.
    usual = torch._C._has_storage(gy) and all(type(tensor) in PLAIN for tensor in (gy, weight, kept))
    if through_registry() and not torch.is_grad_enabled():
        found: tuple[Tensor, Tensor, Tensor] = torch.ops.highwaynet.dense_stack_backward.default(gy, weight, kept, *names)
        return found
    if usual and not torch.is_grad_enabled() and readable(gy, weight, kept) and _is_kept(gy, weight, kept, ctx.kind):
        return stack_backward(gy, weight, kept, *names, parameters=ctx.needs_input_grad[1] or ctx.needs_input_grad[2])
    function = partial(stack_in_torch, kind=ctx.kind, activation=ctx.activation, closed=ctx.closed)
    gx, gw, gb = gradients_in_torch(function, (x, weight, bias), ctx.needs_input_grad, gy)
    return gx, gw, gb


class _DenseStack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, kind: str, activation: str, closed: Sequence[int]) -> Tensor:
        ctx.kind, ctx.activation, ctx.closed = kind, activation, closed
        y, kept = stack_forward(x, weight, bias, kind, activation, closed, keep=True)
        ctx.save_for_backward(x, weight, bias, kept)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *_gradients(ctx, grads[0]), None, None, None


LIBRARY.define(
    "dense_stack(Tensor x, Tensor weight, Tensor bias, str kind, str activation, int[] closed, bool keep) -> (Tensor y, Tensor kept)"
)
LIBRARY.define(
    "dense_stack_backward(Tensor gy, Tensor weight, Tensor kept, str kind, str activation, int[] closed) -> (Tensor, Tensor, Tensor)"
)


def _on_cpu(
    x: Tensor, weight: Tensor, bias: Tensor, kind: str, activation: str, closed: Sequence[int], keep: bool
) -> tuple[Tensor, Tensor]:
    y, kept = stack_forward(x, weight.contiguous(), bias.contiguous(), kind, activation, closed, keep=keep)
    return y, kept if keep else kept.new_empty(0)


def _backward_on_cpu(
    gy: Tensor, weight: Tensor, kept: Tensor, kind: str, activation: str, closed: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    gx, gw, gb = stack_backward(gy, weight.contiguous(), kept.contiguous(), kind, activation, closed)
    assert gw is not None and gb is not None  # noqa: S101, PT018
    return gx, gw, gb


def _fake(x: Tensor, weight: Tensor, bias: Tensor, kind: str, activation: str, closed: Sequence[int], keep: bool) -> tuple[Tensor, Tensor]:
    fits = kind in KINDS and activation in ACTIVATIONS and _fits(x, weight.contiguous(), bias.contiguous(), kind)
    check_fake("dense_stack", fits, kind, activation, x=x, weight=weight, bias=bias)
    return x.new_empty(x.shape), x.new_empty(_kept_size(weight, kind, x.shape[0]) if keep else 0)


def _fake_backward(
    gy: Tensor, weight: Tensor, kept: Tensor, kind: str, activation: str, closed: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    fits = kind in KINDS and activation in ACTIVATIONS and _is_kept(gy, weight.contiguous(), kept.contiguous(), kind)
    fits = fits and _fits(gy, weight.contiguous(), weight.new_empty(weight.shape[:2]), kind)
    check_fake("dense_stack_backward", fits, kind, activation, gy=gy, weight=weight, kept=kept)
    return gy.new_empty(gy.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape[:2])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, bias, ctx.kind, ctx.activation, ctx.closed, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(x, weight, bias, output[1])


def _registered_gradients(ctx: Any, gy: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return *_gradients(ctx, gy), None, None, None, None


register("dense_stack", _on_cpu, _fake)
register("dense_stack_backward", _backward_on_cpu, _fake_backward)
torch.library.register_autograd("highwaynet::dense_stack", _registered_gradients, setup_context=_keep, lib=LIBRARY)


@register_flop_formula(torch.ops.highwaynet.dense_stack)
def _flops(x: Sequence[int], weight: Sequence[int], *rest: Any, **options: Any) -> int:
    """Count FLOPs for torch's counter: a multiplication and an addition for each sample and weight."""
    return 2 * x[0] * weight[0] * weight[1] * weight[2]


@register_flop_formula(torch.ops.highwaynet.dense_stack_backward)
def _backward_flops(gy: Sequence[int], weight: Sequence[int], *rest: Any, **options: Any) -> int:
    return 2 * _flops(gy, weight)


refuse_second_derivative("dense_stack_backward")
