"""The maximum of a maxout layer's pieces as one operator, `highwaynet::maxout`, with its gradients as another.

torch needs an operator for each piece but one, and seven for the gradients of each, which take as long as the convolution before them. Only
the pieces are kept for the backward pass.
"""

from typing import Any

import torch
from torch import Tensor

from highwaynet.kernels.operators import (
    LIBRARY,
    PLAIN,
    ROWS,
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

MOST_PIECES = 32


def largest_in_torch(z: Tensor, pieces: int, axis: int = 1) -> Tensor:
    """Return the maximum over the pieces, which follow each other on this axis; where two are equal, each gets half the gradient."""
    first, *others = z.chunk(pieces, dim=axis)
    for other in others:
        first = torch.maximum(first, other)
    return first


def _fits(z: Tensor, pieces: int) -> bool:
    """Whether type, shape and memory layout are those that the kernel reads: channels innermost."""
    if z.dtype not in ROWS or z.dim() not in {2, 4} or not 2 <= pieces <= MOST_PIECES or z.shape[1] % pieces:
        return False
    return z.is_contiguous(memory_format=torch.channels_last if z.dim() == 4 else torch.contiguous_format)


def can_maxout(z: Tensor, pieces: int) -> bool:
    """Whether `maxout` accepts z; if not, use `largest_in_torch`, which computes the same.

    It accepts float32 and bfloat16 on the CPU: z of shape (batch, pieces·width) or (N, pieces·C, H, W) in channels_last format, with 2 to
    32 pieces. As `can_gate`, it accepts nothing while a model is exported, nor under torch.func and forward-mode gradients.
    """
    return can_take(z) and _fits(z, pieces)


def maxout(z: Tensor, pieces: int) -> Tensor:
    """Compute the maximum over the pieces, which follow each other along the second axis.

    Numbers and gradients are equal to those of `largest_in_torch`, for any number of threads; the sign of a zero may differ.

    Args:
        z: Pieces of shape (batch, pieces·width), or (N, pieces·C, H, W) in channels_last format.
        pieces: Their number.

    Raises:
        ValueError: If `can_maxout` is false.
    """
    if not can_maxout(z, pieces):
        raise ValueError(f"no kernel for z of {tuple(z.shape)} {z.dtype} on {z.device}, pieces = {pieces}: call can_maxout first")
    if through_registry():
        registered: Tensor = torch.ops.highwaynet.maxout.default(z, pieces)
        return registered
    if torch.is_grad_enabled() and z.requires_grad:
        recorded: Tensor = _Maxout.apply(z, pieces)  # type: ignore[no-untyped-call]
        return recorded
    return _forward(z, pieces)


def _one_piece(z: Tensor, pieces: int) -> Tensor:
    """Memory for one piece, in the format of z."""
    size = (z.shape[0], z.shape[1] // pieces, *z.shape[2:])
    return z.new_empty(size) if z.dim() == 2 else torch.empty(size, dtype=z.dtype, device=z.device, memory_format=torch.channels_last)


def _forward(z: Tensor, pieces: int) -> Tensor:
    """Call the forward kernel; z must fit."""
    y = _one_piece(z, pieces)
    compiled().maxout(z, y, pieces, torch.get_num_threads())
    return y


def _backward(gy: Tensor, z: Tensor, pieces: int) -> Tensor:
    """Call the backward kernel; z and gy must fit."""
    gz = torch.empty_like(z)
    compiled().maxout_backward(gy, z, gz, pieces, torch.get_num_threads())
    return gz


def _gradients(ctx: Any, gy: Tensor) -> tuple[Tensor | None, None]:
    (z,) = ctx.saved_tensors
    pieces = ctx.pieces
    if torch.is_grad_enabled() or not torch._C._has_storage(gy):  # batched gradients of torch have no storage
        return gradients_in_torch(lambda z: largest_in_torch(z, pieces), (z,), (True,), gy)[0], None
    if through_registry():
        return torch.ops.highwaynet.maxout_backward.default(gy, z, pieces), None
    # Hooks may have compressed or moved the saved tensor.
    if type(gy) is Tensor and gy.dtype is z.dtype and type(z) in PLAIN and readable(gy, z) and _fits(z, pieces):
        return _backward(arranged(gy), z, pieces), None
    return gradients_in_torch(lambda z: largest_in_torch(z, pieces), (z,), (True,), gy)[0], None


def _keep(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
    z, ctx.pieces = inputs
    ctx.save_for_backward(z)


class _Maxout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, pieces: int) -> Tensor:
        _keep(ctx, (z, pieces), z)
        return _forward(z, pieces)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None]:
        return _gradients(ctx, grads[0])


LIBRARY.define("maxout(Tensor z, int pieces) -> Tensor")
LIBRARY.define("maxout_backward(Tensor gy, Tensor z, int pieces) -> Tensor")


def _maxout_on_cpu(z: Tensor, pieces: int) -> Tensor:
    z = arranged(z)
    if not _fits(z, pieces):
        compiled().maxout(z, z.new_empty(0), pieces, 1)  # says what does not fit
    return _forward(z, pieces)


def _maxout_backward_on_cpu(gy: Tensor, z: Tensor, pieces: int) -> Tensor:
    return _backward(arranged(gy), arranged(z), pieces)


def _fake_maxout(z: Tensor, pieces: int) -> Tensor:
    z = arranged(z)
    check_fake("maxout", _fits(z, pieces), pieces, z=z)
    return _one_piece(z, pieces)


def _fake_maxout_backward(gy: Tensor, z: Tensor, pieces: int) -> Tensor:
    z = arranged(z)
    fits = _fits(z, pieces) and gy.shape == (z.shape[0], z.shape[1] // pieces, *z.shape[2:]) and gy.dtype is z.dtype
    check_fake("maxout_backward", fits, pieces, gy=gy, z=z)
    return torch.empty_like(z)


register("maxout", _maxout_on_cpu, _fake_maxout)
register("maxout_backward", _maxout_backward_on_cpu, _fake_maxout_backward)
torch.library.register_autograd("highwaynet::maxout", _gradients, setup_context=_keep, lib=LIBRARY)
refuse_second_derivative("maxout_backward")
