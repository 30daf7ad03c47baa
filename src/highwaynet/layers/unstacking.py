"""Dense stacks as ordinary modules of `nn.Linear`, for tools that look for these: quantization, LoRA, pruning of single layers."""

import copy

from torch import Tensor, nn

from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.dense_plain import DensePlain
from highwaynet.layers.dense_residual import DenseResidual
from highwaynet.layers.highway import Highway
from highwaynet.layers.names import Activation

_ACTIVATIONS: dict[Activation, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "sigmoid": nn.Sigmoid, "identity": nn.Identity}


class _Residual(nn.Module):
    """y = x + H(x)."""

    def __init__(self, transform: nn.Module) -> None:
        super().__init__()
        self.transform = transform

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.transform(x)
        return y


def unstacked(model: nn.Module) -> nn.Module:
    """Return a copy of a model whose dense stacks consist of `nn.Linear`: it computes the same, more slowly.

    Each stack becomes an `nn.Sequential`; each highway layer in it a `Highway` with H and its gates as separate `nn.Linear`. Layers that
    are closed are left out.

    Args:
        model: Any model that contains dense stacks of this package, or is one. It is not changed.

    >>> unstacked(DenseHighway(3, layers=2, activation="relu"))[1].gate
    Linear(in_features=3, out_features=3, bias=True)
    """
    return _replaced(copy.deepcopy(model))


def _replaced(module: nn.Module) -> nn.Module:
    if isinstance(module, DenseHighway | DensePlain | DenseResidual):
        return _as_linears(module).train(module.training)
    for name, child in list(module.named_children()):
        setattr(module, name, _replaced(child))
    return module


def _as_linears(stack: DenseHighway | DensePlain | DenseResidual) -> nn.Sequential:
    layers = nn.Sequential()
    closed: frozenset[int] = getattr(stack, "closed_layers", frozenset())
    for number, (weight, bias) in enumerate(zip(stack.weight.detach(), stack.bias.detach(), strict=True), start=1):
        if number in closed:
            continue
        parts = (2 if stack.carry == "coupled" else 3) if isinstance(stack, DenseHighway) else 1
        first, *gates = (_linear(w, b) for w, b in zip(weight.chunk(parts), bias.chunk(parts), strict=True))
        transform = nn.Sequential(first, _ACTIVATIONS[stack.activation]())
        if isinstance(stack, DenseHighway):
            layers.append(Highway(transform, *gates, gate_bias=None))
        else:
            layers.append(_Residual(transform) if isinstance(stack, DenseResidual) else transform)
    return layers


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    rows, columns = weight.shape
    linear = nn.Linear(columns, rows, device="meta")  # without drawing random numbers
    linear.weight, linear.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
    return linear
