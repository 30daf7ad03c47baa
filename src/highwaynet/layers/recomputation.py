"""Activation checkpointing: activations are kept at a few layers only; the others are recomputed in the backward pass.

With n layers in about √n segments, memory grows with √n: the inputs of the segments, and the activations of one segment at a time.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint


def recompute(model: nn.Module, wanted: bool = True) -> nn.Module:
    """Let the dense stacks and networks of this package in a model recompute their activations in the backward pass.

    Activation memory then grows with the square root of depth. Gradients stay the same, to the bit; a step takes about a third longer.

    Args:
        model: Anything that contains dense stacks or networks of this package, or is one. It is changed in place and returned.
        wanted: False switches it off again.

    Raises:
        ValueError: If the model contains none.

    >>> from highwaynet import DenseHighway
    >>> recompute(nn.Sequential(nn.Linear(784, 50), DenseHighway(50, layers=500)))[1].recomputes
    True
    """
    found = [module for module in model.modules() if hasattr(type(module), "recomputes")]
    if not found:
        raise ValueError("the model has no dense stack or network of highwaynet: there is nothing to recompute")
    for module in found:
        setattr(module, "recomputes", wanted)  # noqa: B010 (torch types every attribute of a module)
    return model


def through(layer: Callable[..., Tensor], x: Tensor, items: Sequence[tuple[Any, ...]], recomputes: bool) -> Tensor:
    """Apply layer(x, *item) for each item in turn, in checkpointed segments if `recomputes`. The layer must not be random."""
    if not recomputes or not torch.is_grad_enabled():
        return _all(layer, x, items)
    for part in segments(items):
        x = checkpoint(_all, layer, x, part, use_reentrant=False, preserve_rng_state=False)
    return x


def through_stack(
    stack: Callable[[Tensor, Tensor, Tensor, int], Tensor], x: Tensor, weight: Tensor, bias: Tensor, recomputes: bool
) -> Tensor:
    """Return stack(x, weight, bias, 0); if `recomputes`, call it for each segment, with the number of layers before the segment."""
    if not recomputes or not torch.is_grad_enabled() or not len(weight):
        return stack(x, weight, bias, 0)
    size = segment_size(len(weight))
    for number, (w, b) in enumerate(zip(weight.split(size), bias.split(size), strict=True)):
        x = checkpoint(stack, x, w, b, number * size, use_reentrant=False, preserve_rng_state=False)
    return x


def through_modules(x: Tensor, modules: Sequence[nn.Module]) -> Tensor:
    """Apply modules in turn and recompute them in the backward pass.

    Dropout draws the same mask again, and batch norm updates its running statistics only once.
    """
    norms = [module for outer in modules for module in outer.modules() if isinstance(module, _BatchNorm)]

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _statistics_kept(norms)

    rows: list[tuple[Any, ...]] = [(module,) for module in modules]
    y: Tensor = checkpoint(_all, lambda x, module: module(x), x, rows, use_reentrant=False, context_fn=contexts)
    return y


def segments(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Split n items into about √n segments of about √n items.

    >>> [list(piece) for piece in segments(range(5))]
    [[0, 1, 2], [3, 4]]
    """
    size = segment_size(len(items))
    for start in range(0, len(items), size):
        yield items[start : start + size]


def segment_size(count: int) -> int:
    """Return the number of layers of a segment."""
    return max(1, math.ceil(math.sqrt(count)))


def _all(layer: Callable[..., Tensor], x: Tensor, items: Sequence[tuple[Any, ...]]) -> Tensor:
    for item in items:
        x = layer(x, *item)
    return x


@contextmanager
def _statistics_kept(norms: list[_BatchNorm]) -> Iterator[None]:
    """Let batch norm update copies of its running statistics, which are then dropped: the batch was already counted."""
    before = [dict(norm._buffers) for norm in norms]
    for norm, buffers in zip(norms, before, strict=True):
        norm._buffers.update({name: buffer if buffer is None else buffer.clone() for name, buffer in buffers.items()})
    try:
        yield
    finally:
        for norm, buffers in zip(norms, before, strict=True):
            norm._buffers.update(buffers)
