"""Weights as matrices, for optimisers that need them, such as Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon).

A dense stack keeps the matrices of all layers in one tensor with three axes. Here each matrix becomes a parameter of its own that shares
the memory of the stack, and so do their gradients. Muon must get the matrices of H and T one by one: it makes each update orthogonal.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.conv_highway_1d import ConvHighway1d
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.dense_plain import DensePlain
from highwaynet.layers.dense_residual import DenseResidual
from highwaynet.layers.depth_lstm import DepthLSTM
from highwaynet.layers.maxout import ConvMaxout, DenseMaxout
from highwaynet.layers.recurrent_highway import RecurrentHighway


class MatrixParameters(NamedTuple):
    """The parameters of a model, for two optimisers."""

    matrices: list[nn.Parameter]
    """Weight matrices, each with two axes."""
    others: list[nn.Parameter]
    """All other parameters: biases, embeddings, normalisation, and those of modules that were left out."""


def matrix_parameters(model: nn.Module, *, leave_out: Iterable[nn.Module] = ()) -> MatrixParameters:
    """Return the weights of a model as matrices, and its other parameters.

    Matrices of dense stacks, of the parts of a layer (H, T, C) and of convolutions are views: they share memory with the model's
    parameters, and after each backward pass their `.grad` shares memory with the gradients of the model. Clipping and `zero_grad`
    therefore work on the model as well as on the optimiser. If a layer takes no part in a step, clear the gradients of both: one of
    them alone would keep its last gradient.

    Args:
        model: Any model. Move it to its device and type first, and do not move it afterwards.
        leave_out: Modules whose parameters count as others, usually the first and the last layer of a model; embeddings always do.

    Raises:
        RuntimeError: In the backward pass, if the model was moved or converted since.

    >>> model = nn.Sequential(nn.Linear(20, 8), DenseHighway(8, layers=3), nn.Linear(8, 4))
    >>> matrices, others = matrix_parameters(model, leave_out=[model[0], model[2]])
    >>> len(matrices), {tuple(matrix.shape) for matrix in matrices}  # H and T of three layers
    (6, {(8, 8)})
    """
    excluded = {id(parameter) for module in leave_out for parameter in module.parameters()}
    excluded |= {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag)
        for parameter in module.parameters()
    }
    found, seen = MatrixParameters([], []), set[int]()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            is_other = id(parameter) in excluded or not parameter.requires_grad or "bias" in name  # the biases of a stack have two axes
            cut = None if is_other else _cut(module, parameter)
            if cut is None:
                found.others.append(parameter)
            elif cut is _whole:
                found.matrices.append(parameter)
            else:
                found.matrices.extend(_linked(parameter, cut))
    return found


Cut = Callable[[Tensor], Iterator[Tensor]]


def _cut(module: nn.Module, parameter: Tensor) -> Cut | None:
    """Return the function that cuts a weight, or its gradient, into matrices that share its memory; None if it is not a weight."""
    if isinstance(module, nn.modules.batchnorm._NormBase | nn.LayerNorm | nn.GroupNorm) or parameter.dim() < 2:
        return None
    is_stack = parameter.dim() == 3 and not isinstance(module, nn.Conv1d | ConvHighway1d | nn.ConvTranspose1d)
    if is_stack and not isinstance(module, DenseHighway | DensePlain | DenseResidual | DepthLSTM | RecurrentHighway):
        return None  # a tensor of some other module, whose axes could mean anything
    parts = 1
    if isinstance(module, DepthLSTM):
        parts = 4
    elif isinstance(module, DenseHighway | ConvHighway | ConvHighway1d | RecurrentHighway):
        parts = 2 if module.carry == "coupled" else 3
    elif isinstance(module, DenseMaxout | ConvMaxout):
        parts = module.pieces
    if parts == 1 and parameter.dim() == 2:
        return _whole
    return partial(_stack_matrices if is_stack else _kernel_matrices, parts=parts)


def _whole(weight: Tensor) -> Iterator[Tensor]:
    yield weight


def _stack_matrices(weight: Tensor, parts: int) -> Iterator[Tensor]:
    """Yield the matrices of each layer, (layers, parts·rows, columns)."""
    for layer in weight.unbind():
        yield from layer.chunk(parts)


def _kernel_matrices(weight: Tensor, parts: int) -> Iterator[Tensor]:
    """Yield the matrices of a convolution or a dense layer, (parts·rows, ...): one row for each unit or map."""
    if not weight.is_contiguous():  # channels_last; the order of the columns has no meaning here
        weight = weight.movedim(1, -1)
    for part in weight.chunk(parts):
        yield part.view(len(part), -1)


def _linked(parameter: nn.Parameter, cut: Cut) -> list[nn.Parameter]:
    """Return the matrices of a parameter; hooks keep their gradients equal to those of the parameter."""
    views = [nn.Parameter(view) for view in cut(parameter.detach())]
    address = parameter.data_ptr()

    def before(grad: Tensor) -> None:
        if all(view.grad is None for view in views):  # zero_grad of the optimiser of the matrices
            parameter.grad = None

    def after(parameter: Tensor) -> None:
        if parameter.data_ptr() != address:
            raise RuntimeError("the model was moved or converted after matrix_parameters: call it again, and make a new optimiser")
        assert parameter.grad is not None  # noqa: S101
        grad = torch.empty_like(parameter).copy_(parameter.grad) if parameter.grad.stride() != parameter.stride() else parameter.grad
        parameter.grad = grad  # cut as the parameter is
        for view, part in zip(views, cut(grad), strict=True):
            view.grad = part

    parameter.register_hook(before)
    parameter.register_post_accumulate_grad_hook(after)
    return views
