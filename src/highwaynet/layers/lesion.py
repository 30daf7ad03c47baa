"""Closing layers: a lesioned layer copies its input (T = 0 and C = 1). Srivastava et al. 2015, section 4.2.

Closable modules implement a small protocol. Hooks would not work, because they cannot see inside a fused stack.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import index
from typing import Protocol, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class Closable(Protocol):
    """A module made of layers that can be closed one by one."""

    closed_layers: frozenset[int]
    """The numbers of the closed layers, counted from 1 within this module."""

    @property
    def num_layers(self) -> int:
        """Number of layers of this module."""
        ...


def separate(y: Tensor, x: Tensor) -> Tensor:
    """Return y, or a copy if it is x itself: what works in place on the output of closed layers must not change their input."""
    return y.clone() if y is x else y


def closable_modules(model: nn.Module) -> list[Closable]:
    """Return all closable modules of a model, in the order in which they were registered."""
    found = [module for module in model.modules() if isinstance(module, Closable)]
    # The wrapper that torch.compile returns has the attributes of the module inside it, which would be counted twice.
    return [module for module in found if not isinstance(getattr(module, "_orig_mod", None), nn.Module)]


def count_layers(model: nn.Module) -> int:
    """Count the layers of a model that can be closed."""
    return sum(module.num_layers for module in closable_modules(model))


@contextmanager
def lesion(model: nn.Module, layers: Iterable[int]) -> Iterator[nn.Module]:
    """Close layers of a model until the end of the `with` block: they copy their input, and are open again afterwards.

    Args:
        model: Anything that contains highway or residual layers of this package, or is one.
        layers: Numbers from 1, counted over all such layers in the order in which their modules were registered.

    Raises:
        ValueError: If a number does not exist; the model then stays unchanged.

    >>> import torch
    >>> from highwaynet import DenseHighway
    >>> stack, x = DenseHighway(4, layers=2), torch.ones(1, 4)
    >>> with lesion(stack, [1, 2]):
    ...     torch.equal(stack(x), x)
    True
    """
    wanted = {index(number) for number in layers}
    modules = closable_modules(model)
    available = sum(module.num_layers for module in modules)
    if wrong := sorted(number for number in wanted if not 1 <= number <= available):
        raise ValueError(f"layers = {wrong}: the model has {available} layers that can be closed, numbered from 1")
    before = [module.closed_layers for module in modules]
    try:
        first = 0
        for module in modules:
            inside = range(1, module.num_layers + 1)
            module.closed_layers = module.closed_layers | {number for number in inside if first + number in wanted}
            first += module.num_layers
        yield model
    finally:
        for module, closed in zip(modules, before, strict=True):
            module.closed_layers = closed
