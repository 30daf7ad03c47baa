"""Dense residual layers y = x + H(x), one or many: He et al. 2015's shortcut around a dense transform."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from highwaynet.layers.activations import activation_function
from highwaynet.layers.checks import check_features, check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.initialisation import DEFAULT_STD
from highwaynet.layers.lesion import separate
from highwaynet.layers.names import Activation, Init
from highwaynet.layers.observation import Observer
from highwaynet.layers.old_calls import accepts_old
from highwaynet.layers.recomputation import through
from highwaynet.layers.stacking import fused, fused_inside, open_layers, stacked_parameters, start_stack_, without_layers


class DenseResidual(nn.Module):
    """Residual dense layers in one module: y = x + activation(W·x + b), `weight` (layers, width, width), `bias` (layers, width).

    Args:
        width: Number of units.
        layers: Number of layers.
        activation: tanh, relu, sigmoid or identity.
        init: Initialisation of W; b starts at 0.
        init_std: Standard deviation for ``init="normal"``.
        generator: Random generator for the weights; torch's global generator if None.

    >>> import torch
    >>> DenseResidual(50, layers=3)(torch.zeros(2, 50)).shape
    torch.Size([2, 50])
    """

    closed_layers: frozenset[int]
    kernel_kind = "residual"
    observer: Observer | None = None
    recomputes = False
    """Whether activations are computed again in the backward pass; see `recompute`."""

    @accepts_old(positional="layers")
    def __init__(
        self,
        width: int,
        *,
        layers: int = 1,
        activation: Activation = "tanh",
        init: Init = "glorot-uniform",
        init_std: float = DEFAULT_STD,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes(width=width)
        self.activation, self.init, self.init_std = activation, init, init_std
        self.closed_layers = frozenset()
        self._act = activation_function(activation)
        self.weight, self.bias = stacked_parameters(layers, width, width)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Reinitialize the parameters: weights by `init`, biases at 0."""
        start_stack_(self.weight, self.bias, self.init, std=self.init_std, generator=generator)

    @property
    def num_layers(self) -> int:
        """Number of layers of this module."""
        return self.weight.shape[0]

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., width) to the same shape; a closed layer copies its input."""
        if is_foreign(x):
            return not_a_tensor(self, x)
        if self.observer is not None:
            return self._observed(x, self.observer)
        if (y := fused(self, x)) is not None:
            return y
        check_features(self, x, self.weight, self.weight.shape[-1])
        return separate(through(self._layer, x, open_layers(self), self.recomputes), x)

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def _observed(self, x: Tensor, observer: Observer) -> Tensor:
        """Do what `forward` does, and call the observer for each layer; the state is what the layer adds."""
        check_features(self, x, self.weight, self.weight.shape[-1])
        given, found = x, fused_inside(self, x)
        for number, (weight, bias) in enumerate(zip(self.weight.unbind(), self.bias.unbind(), strict=True), start=1):
            closed = number in self.closed_layers
            if closed:
                state = torch.zeros_like(x)
            else:
                state = self._act(F.linear(x, weight, bias)) if found is None else found[1][number - 1]
                x = x + state
            observer(number, output=x, state=state)
        return separate(x, given) if found is None else found[0]

    def _layer(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return x + self._act(F.linear(x, weight, bias))

    def without(self, layers: Iterable[int]) -> "DenseResidual":
        """Return a new stack without these layers, numbered from 1; it computes the same as closing them, in less time."""
        shorter = without_layers(self, layers)
        shorter.closed_layers = frozenset()
        return shorter

    def extra_repr(self) -> str:
        """What printing the module shows."""
        layers, width, _ = self.weight.shape
        return f"width={width}, layers={layers}, activation={self.activation}"
