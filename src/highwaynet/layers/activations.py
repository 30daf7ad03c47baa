"""The activation functions of the block state H, by name."""

from collections.abc import Callable

import torch
from torch import Tensor

from highwaynet.layers.names import Activation


def _identity(x: Tensor) -> Tensor:
    return x


_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": _identity,
}


def activation_function(name: Activation) -> Callable[[Tensor], Tensor]:
    """Return the activation function of this name; raises ValueError for an unknown one."""
    try:
        return _FUNCTIONS[name]
    except KeyError:
        raise ValueError(f"unknown activation {name!r}: choose one of {', '.join(_FUNCTIONS)}") from None
