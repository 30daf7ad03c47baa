"""Dense plain layers y = H(x), one or many: what the paper compares highway layers with, and its way to change the width."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Generator, Tensor, nn

from highwaynet.kernels.dense_layer import can_layer, dense_layer
from highwaynet.layers.activations import activation_function
from highwaynet.layers.checks import check_features, check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.initialisation import DEFAULT_STD
from highwaynet.layers.names import Activation, Init
from highwaynet.layers.observation import Observer
from highwaynet.layers.old_calls import accepts_old
from highwaynet.layers.recomputation import through
from highwaynet.layers.stacking import fused, fused_inside, stacked_parameters, start_stack_, without_layers


class DensePlain(nn.Module):
    """Plain dense layers in one module: y = activation(W·x + b), with `weight` (layers, out, in) and `bias` (layers, out).

    Args:
        in_features: Size of the input.
        out_features: Size of the output; that of the input by default. Only a single layer can change the size.
        layers: Number of layers.
        activation: tanh, relu, sigmoid or identity.
        init: Initialisation of W; b starts at 0.
        init_std: Standard deviation for ``init="normal"``.
        generator: Random generator for the weights; torch's global generator if None.

    >>> import torch
    >>> DensePlain(784, 50)(torch.zeros(2, 784)).shape
    torch.Size([2, 50])
    """

    kernel_kind = "plain"
    observer: Observer | None = None
    recomputes = False
    """Whether activations are computed again in the backward pass; see `recompute`."""

    @accepts_old(width="in_features", out_width="out_features", positional="layers")
    def __init__(
        self,
        in_features: int,
        out_features: int | None = None,
        *,
        layers: int = 1,
        activation: Activation = "tanh",
        init: Init = "glorot-uniform",
        init_std: float = DEFAULT_STD,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        out_features = in_features if out_features is None else out_features
        check_sizes(in_features=in_features, out_features=out_features)
        if out_features != in_features and layers != 1:
            raise ValueError(f"layers = {layers}: only a single layer can change the width ({in_features} to {out_features})")
        self.activation, self.init, self.init_std = activation, init, init_std
        self._act = activation_function(activation)
        self.weight, self.bias = stacked_parameters(layers, out_features, in_features)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Reinitialize the parameters: weights by `init`, biases at 0."""
        start_stack_(self.weight, self.bias, self.init, std=self.init_std, generator=generator)

    @property
    def in_features(self) -> int:
        """Size of the input."""
        return self.weight.shape[2]

    @property
    def out_features(self) -> int:
        """Size of the output."""
        return self.weight.shape[1]

    @property
    def num_layers(self) -> int:
        """Number of layers of this module."""
        return self.weight.shape[0]

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., in_features) to (..., out_features)."""
        if is_foreign(x):
            return not_a_tensor(self, x)
        _, rows, columns = self.weight.shape
        if rows != columns:  # a single layer; view, because its backward pass copies nothing
            weight, bias = self.weight.view(rows, columns), self.bias.view(-1)
            if can_layer(x, weight, bias):
                wide = dense_layer(x, weight, bias, self.activation)
            else:
                check_features(self, x, weight, columns)
                wide = self._layer(x, weight, bias)
            if self.observer is not None:
                self.observer(1, output=wide, state=wide)
            return wide
        if self.observer is not None:
            return self._observed(x, self.observer)
        if (y := fused(self, x)) is not None:
            return y
        check_features(self, x, self.weight, columns)
        return through(self._layer, x, list(zip(self.weight.unbind(), self.bias.unbind(), strict=True)), self.recomputes)

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def _observed(self, x: Tensor, observer: Observer) -> Tensor:
        """Do what `forward` does, and call the observer for each layer."""
        check_features(self, x, self.weight, self.in_features)
        found = fused_inside(self, x)
        for number, (weight, bias) in enumerate(zip(self.weight.unbind(), self.bias.unbind(), strict=True), start=1):
            x = self._layer(x, weight, bias) if found is None else found[1][number - 1]
            observer(number, output=x, state=x)
        return x

    def _layer(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return self._act(F.linear(x, weight, bias))

    def without(self, layers: Iterable[int]) -> "DensePlain":
        """Return a new stack without these layers, numbered from 1."""
        return without_layers(self, layers)

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return f"in_features={self.in_features}, out_features={self.out_features}, layers={self.num_layers}, activation={self.activation}"
