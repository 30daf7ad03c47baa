"""The compiled stack next to its readable twin: inputs, results, and a comparison of both with float64."""

import torch
from torch import Tensor

from highwaynet.kernels.dense_stack import dense_stack, stack_in_torch

ACTIVATIONS = ("relu", "tanh", "sigmoid", "identity")


def drawn(kind: str, layers: int, rows: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, weight, bias and an upstream gradient; weights small enough that deep stacks stay finite."""
    generator = torch.Generator().manual_seed(seed)
    parts = 2 if kind == "highway" else 1
    scale = {"highway": 1.0, "plain": 1.0, "residual": 0.3}[kind] / max(width, 1) ** 0.5
    x, gy = torch.randn(rows, width, generator=generator), torch.randn(rows, width, generator=generator)
    weight = torch.randn(layers, parts * width, width, generator=generator) * scale
    bias = torch.randn(layers, parts * width, generator=generator) * 0.1
    if kind == "highway":
        bias[:, width:] -= 1.0
    return x, weight, bias, gy


def results(function: object, inputs: tuple[Tensor, ...], kind: str, activation: str, closed: tuple[int, ...] = ()) -> list[Tensor]:
    """Output and gradients."""
    x, weight, bias, gy = inputs
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (x, weight, bias)]
    y = function(*leaves, kind, activation, closed)  # type: ignore[operator]
    return [y.detach(), *torch.autograd.grad(y, leaves, gy)]


def error(found: Tensor, exact: Tensor) -> float:
    return ((found.double() - exact).norm() / exact.norm().clamp_min(1e-30)).item()


def compare(kind: str, activation: str, layers: int, rows: int, width: int, closed: tuple[int, ...] = (), seed: int = 0) -> None:
    """The error against float64 is at most four times that of torch in float32."""
    inputs = drawn(kind, layers, rows, width, seed)
    exact = results(stack_in_torch, tuple(tensor.double() for tensor in inputs), kind, activation, closed)
    torchs = results(stack_in_torch, inputs, kind, activation, closed)
    ours = results(dense_stack, inputs, kind, activation, closed)
    for name, mine, theirs, right in zip(("y", "gx", "gw", "gb"), ours, torchs, exact, strict=True):
        assert mine.shape == right.shape
        if right.isfinite().all() and right.norm() > 0:
            # A few numbers may be rounded right by chance. With one row nothing is added up, and on some processors torch's errors are then
            # below a unit in the last place.
            lucky = 1e-5 if right.numel() < 100 else 1.2e-7 if rows == 1 else 6e-8
            assert error(mine, right) <= 4 * max(error(theirs, right), lucky), (name, error(mine, right), error(theirs, right))
