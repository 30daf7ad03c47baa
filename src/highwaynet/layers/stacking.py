"""Shared code of the dense stacks: parameters that hold all layers, the compiled operator, and removal of layers."""

import copy
from collections.abc import Iterable
from operator import index
from typing import Protocol, TypeVar

import torch
from torch import Generator, Tensor, nn

from highwaynet.kernels.dense_stack import can_stack, dense_stack_gates, run_stack
from highwaynet.layers.checks import check_sizes
from highwaynet.layers.initialisation import initialise_
from highwaynet.layers.names import Activation, Init
from highwaynet.layers.recomputation import through_stack


class LayerStack(Protocol):
    """A module whose parameters have the layers as their first axis."""

    weight: nn.Parameter
    bias: nn.Parameter


StackT = TypeVar("StackT", bound=LayerStack)


def stacked_parameters(layers: int, rows: int, columns: int) -> tuple[nn.Parameter, nn.Parameter]:
    """Return uninitialized weight (layers, rows, columns) and bias (layers, rows)."""
    check_sizes(layers=layers)
    return nn.Parameter(torch.empty(layers, rows, columns)), nn.Parameter(torch.empty(layers, rows))


def start_stack_(weight: Tensor, bias: Tensor, init: Init, *, std: float, generator: Generator | None) -> None:
    """Fill the parameters of a plain or residual stack: weights by `init`, biases with 0."""
    with torch.no_grad():
        for layer in weight:
            initialise_(layer, init, std=std, generator=generator)
        bias.zero_()


class ClosableStack(LayerStack, Protocol):
    """A stack whose layers can be closed."""

    closed_layers: frozenset[int]


class Fusable(LayerStack, Protocol):
    """A stack that the compiled operator may be able to compute."""

    activation: Activation
    recomputes: bool

    @property
    def kernel_kind(self) -> str | None:
        """Name of its layers in the operator; None if the operator does not support them."""


def open_layers(stack: ClosableStack) -> list[tuple[Tensor, Tensor]]:
    """Return weight and bias of each layer that is not closed.

    Uses unbind, not indexing: its backward pass writes each layer's gradient once, whereas indexing adds up gradients of whole stacks.
    """
    layers = enumerate(zip(stack.weight.unbind(), stack.bias.unbind(), strict=True), start=1)
    return [parameters for number, parameters in layers if number not in stack.closed_layers]


def _rows(x: Tensor) -> Tensor:
    """Return (..., width) as (rows, width)."""
    return x.flatten(0, -2) if x.dim() > 1 else x[None]


def fused(stack: Fusable, x: Tensor) -> Tensor | None:
    """Compute the output of the whole stack for x (..., width) with the compiled operator; None if it cannot be used."""
    rows, kind, weight, bias = x if x.dim() == 2 else _rows(x), stack.kernel_kind, stack.weight, stack.bias
    # The operator has no lower precision, which autocast asks for.
    if kind is None or not can_stack(rows, weight, bias, kind) or torch.is_autocast_enabled("cpu"):
        return None
    closed: frozenset[int] = getattr(stack, "closed_layers", frozenset())

    def layers(x: Tensor, weight: Tensor, bias: Tensor, before: int) -> Tensor:
        return run_stack(x, weight, bias, kind, stack.activation, [at - before for at in closed if before < at <= before + len(weight)])

    return through_stack(layers, rows, weight, bias, stack.recomputes).view(x.shape)


def fused_inside(stack: Fusable, x: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Compute output, block states H and transform gates T with the compiled operator, H and T of shape (layers, ..., width).

    None if it cannot be used, or if gradients are needed. H and T of closed layers are 0; T has 0 layers if they are not highway layers.
    """
    rows, kind = _rows(x), stack.kernel_kind
    needs_graph = torch.is_grad_enabled() and (x.requires_grad or stack.weight.requires_grad or stack.bias.requires_grad)
    if kind is None or needs_graph or not can_stack(rows, stack.weight, stack.bias, kind) or torch.is_autocast_enabled("cpu"):
        return None
    y, h, t = dense_stack_gates(rows, stack.weight, stack.bias, kind, stack.activation, getattr(stack, "closed_layers", frozenset()))
    return y.view(x.shape), h.view(len(h), *x.shape), t.view(len(t), *x.shape)


def single_layer(stack: StackT, number: int) -> StackT:
    """Return one layer of a stack (numbered from 1) as a new stack that shares its memory, without gradients."""
    layer = copy.copy(stack)
    layer.__dict__["observer"] = None
    parameters = {name: getattr(stack, name).detach()[number - 1 : number] for name in ("weight", "bias")}
    layer.__dict__["_parameters"] = {name: nn.Parameter(part, requires_grad=False) for name, part in parameters.items()}
    if hasattr(stack, "closed_layers"):
        layer.__dict__["closed_layers"] = frozenset({1} if number in stack.closed_layers else ())
    return layer


def without_layers(stack: StackT, removed: Iterable[int]) -> StackT:
    """Return a copy of the stack without the layers of these numbers (from 1); raises ValueError if one does not exist."""
    numbers, count = {index(number) for number in removed}, stack.weight.shape[0]
    if wrong := sorted(number for number in numbers if not 1 <= number <= count):
        raise ValueError(f"layers = {wrong}: the stack has {count} layers, numbered from 1")
    kept = [place for place in range(count) if place + 1 not in numbers]
    shorter = copy.deepcopy(stack)
    for name in ("weight", "bias"):
        parameter: nn.Parameter = getattr(stack, name)
        setattr(shorter, name, nn.Parameter(parameter.detach()[kept], requires_grad=parameter.requires_grad))
    return shorter
