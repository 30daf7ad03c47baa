"""Convolutions with windows of 3×3 as one operator, `highwaynet::convolution`, with its gradients as another.

They take a quarter of the multiplications (Winograd's algorithm), for maps of equal size with at least 16 channels. Only inputs and
weights are kept for the backward pass.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from highwaynet.kernels.operators import (
    LIBRARY,
    PLAIN,
    arranged,
    can_take,
    check_fake,
    compiled,
    gradients_in_torch,
    readable,
    refuse_second_derivative,
    register,
    through_registry,
)
from highwaynet.kernels.workspace import workspace

LEAST_CHANNELS = 16
"""Of inputs and outputs: a vector of the widest instruction set."""
TILE = 4
"""Outputs are computed in tiles of 4×4."""
LEAST_TILES = 48
"""With fewer tiles, preparing the weights takes longer than what is gained."""
MOST_PAIRS = 2**20
"""Of an input and an output channel: transformed weights of more would take more than 151 MB."""


def in_torch(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return the convolution by torch's operator."""
    return F.conv2d(x, weight, bias, padding=1)


def _fits(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether type, shape and memory layout are those that the kernel reads; weights are arranged for it."""
    if x.dtype is not torch.float32 or weight.dtype is not torch.float32 or x.dim() != 4 or weight.dim() != 4:
        return False
    outputs, inputs, *window = weight.shape
    if window != [3, 3] or x.shape[1] != inputs or min(inputs, outputs) < LEAST_CHANNELS:
        return False
    if bias is not None and (bias.dtype is not torch.float32 or bias.shape != (outputs,)):
        return False
    return x.is_contiguous(memory_format=torch.channels_last)


def can_convolve(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether `convolution` accepts these tensors.

    It accepts float32 on the CPU: x of shape (N, in, H, W) in channels_last format, a weight (out, in, 3, 3), and a bias (out,) or None,
    where in and out are at least 16. As `can_gate`, it accepts nothing while a model is exported, nor under torch.func and forward-mode
    gradients; nor under autocast, where torch chooses the type.
    """
    given = (x, weight) if bias is None else (x, weight, bias)
    return can_take(*given) and _fits(x, weight, bias) and not torch.is_autocast_enabled("cpu")


def is_faster(x: Tensor, weight: Tensor) -> bool:
    """Whether `convolution` is faster than torch's operator: if there are enough tiles, most of them full, and not too many channels."""
    samples, inputs, height, width = x.shape
    tiles = -(-height // TILE) * -(-width // TILE)
    return samples * tiles >= LEAST_TILES and 8 * tiles <= height * width and inputs * weight.shape[0] <= MOST_PAIRS


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute what `in_torch` computes: the convolution with zeros around the maps, which keeps their size.

    Rounding errors are a few times those of torch's operator. A number that is not finite reaches a tile of 4×4 outputs. The results do not
    depend on the number of threads.

    Args:
        x: Maps (N, in, H, W) in channels_last format.
        weight: Weights (out, in, 3, 3).
        bias: Biases (out,), or None.

    Raises:
        ValueError: If `can_convolve` is false.
    """
    if not can_convolve(x, weight, bias):
        forms = ", ".join(f"{tuple(tensor.shape)} {tensor.dtype} on {tensor.device}" for tensor in (x, weight, bias) if tensor is not None)
        raise ValueError(f"no kernel for x, weight and bias of {forms}: call can_convolve first")
    if through_registry():
        registered: Tensor = torch.ops.highwaynet.convolution.default(x, weight, bias)
        return registered
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)):
        recorded: Tensor = _Convolution.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return recorded
    return _forward(x, weight, bias)


def _maps(x: Tensor, channels: int) -> Tensor:
    """Memory for maps of the size of x."""
    return torch.empty((x.shape[0], channels, *x.shape[2:]), dtype=x.dtype, device=x.device, memory_format=torch.channels_last)


def _forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Call the forward kernel; the tensors must fit."""
    native, threads = compiled(), torch.get_num_threads()
    weight = weight.contiguous()
    scratch = workspace(x, native.convolution_scratch(x, weight, False, threads))  # refuses what does not fit
    y = _maps(x, weight.shape[0])
    native.convolution(x, weight, None if bias is None else bias.contiguous(), y, scratch, threads)
    return y


def _backward(gy: Tensor, x: Tensor, weight: Tensor, for_x: bool, for_weight: bool, for_bias: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Call the backward kernel; the tensors must fit. A gradient that is not wanted is empty."""
    native, threads = compiled(), torch.get_num_threads()
    weight = weight.contiguous()
    scratch = workspace(x, native.convolution_scratch(x, weight, True, threads))  # refuses what does not fit
    gx = torch.empty_like(x) if for_x else None
    gw = torch.empty_like(weight) if for_weight or for_bias else None
    gb = weight.new_empty(weight.shape[0]) if for_bias else None
    native.convolution_backward(gy, x, weight, gx, gw, gb, scratch, threads)
    wanted = (gx, gw if for_weight else None, gb)
    gx, gw, gb = (x.new_empty(0) if gradient is None else gradient for gradient in wanted)
    return gx, gw, gb


def _gradients(ctx: Any, gy: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    x, weight, bias = ctx.saved_tensors
    needed = (*ctx.needs_input_grad[:2], bias is not None and ctx.needs_input_grad[2])
    if not (torch.is_grad_enabled() or not torch._C._has_storage(gy)):  # batched gradients of torch have no storage
        found: tuple[Tensor, Tensor, Tensor] | None = None
        if through_registry():
            found = torch.ops.highwaynet.convolution_backward.default(gy, x, weight, *needed)
        # Hooks may have compressed or moved the saved tensors.
        elif type(gy) is Tensor and gy.dtype is x.dtype and type(x) in PLAIN and type(weight) in PLAIN and readable(gy, x, weight):
            x = arranged(x)
            found = _backward(arranged(gy), x, weight, *needed) if _fits(x, weight, None) else None
        if found is not None:
            gx, gw, gb = (gradient if wanted else None for gradient, wanted in zip(found, needed, strict=True))
            return gx, gw, gb
    given = (x, weight) if bias is None else (x, weight, bias)
    gradients = gradients_in_torch(lambda x, weight, bias=None: in_torch(x, weight, bias), given, needed[: len(given)], gy)
    return gradients[0], gradients[1], gradients[2] if len(gradients) > 2 else None


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        _keep(ctx, (x, weight, bias), x)
        return _forward(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        return _gradients(ctx, grads[0])


LIBRARY.define("convolution(Tensor x, Tensor weight, Tensor? bias) -> Tensor")
LIBRARY.define(
    "convolution_backward(Tensor gy, Tensor x, Tensor weight, bool for_x, bool for_weight, bool for_bias) -> (Tensor, Tensor, Tensor)"
)


def _convolution_on_cpu(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return _forward(arranged(x), weight, bias)


def _backward_on_cpu(gy: Tensor, x: Tensor, weight: Tensor, for_x: bool, for_weight: bool, for_bias: bool) -> tuple[Tensor, Tensor, Tensor]:
    return _backward(arranged(gy), arranged(x), weight, for_x, for_weight, for_bias)


def _fake_convolution(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    x = arranged(x)
    check_fake("convolution", _fits(x, weight, bias), x=x, weight=weight, bias=bias)
    return _maps(x, weight.shape[0])


def _fake_backward(gy: Tensor, x: Tensor, weight: Tensor, for_x: bool, for_weight: bool, for_bias: bool) -> tuple[Tensor, Tensor, Tensor]:
    x = arranged(x)
    fits = _fits(x, weight, None) and gy.shape == (x.shape[0], weight.shape[0], *x.shape[2:]) and gy.dtype is x.dtype
    check_fake("convolution_backward", fits, gy=gy, x=x, weight=weight)
    gx = torch.empty_like(x) if for_x else x.new_empty(0)
    gw = torch.empty_like(weight, memory_format=torch.contiguous_format) if for_weight else x.new_empty(0)
    return gx, gw, x.new_empty(weight.shape[0] if for_bias else 0)


register("convolution", _convolution_on_cpu, _fake_convolution)
register("convolution_backward", _backward_on_cpu, _fake_backward)
torch.library.register_autograd("highwaynet::convolution", _gradients, setup_context=_keep, lib=LIBRARY)
refuse_second_derivative("convolution_backward")


@register_flop_formula(torch.ops.highwaynet.convolution)
def _flops(x: Sequence[int], weight: Sequence[int], *rest: Any, **options: Any) -> int:
    """Those of the convolution as torch computes it, so that counts can be compared."""
    outputs, inputs, *window = weight
    return 2 * x[0] * x[2] * x[3] * outputs * inputs * window[0] * window[1]


@register_flop_formula(torch.ops.highwaynet.convolution_backward)
def _backward_flops(
    gy: Sequence[int], x: Sequence[int], weight: Sequence[int], for_x: bool, for_weight: bool, *rest: Any, **options: Any
) -> int:
    return (for_x + for_weight) * _flops(x, weight)
