"""Limits on the norms of weights (Srivastava et al. 2014, section 5.1): after each step, longer ones are scaled down."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from highwaynet.runs.training_spec import TrainingSpec


class NormLimits:
    """Keeps the norm of each convolution kernel, or of the weights into each dense unit, below a limit.

    A kernel is that of one map (of one piece or gate, if there are several) over all channels.

    Args:
        modules: The network, and an objective with layers of its own.
        training: The settings `max_kernel_norm` and `max_unit_norm`.

    >>> layer = nn.Linear(2, 2, bias=False)
    >>> layer.weight.data = torch.tensor([[3.0, 4.0], [0.6, 0.8]])
    >>> NormLimits([layer], TrainingSpec(max_unit_norm=2.5)).apply()
    >>> layer.weight.data
    tensor([[1.5000, 2.0000],
            [0.6000, 0.8000]])
    """

    def __init__(self, modules: list[nn.Module], training: TrainingSpec) -> None:
        self._limited = [
            (weight, axes, limit)
            for module in modules
            for weight, axes, is_kernel in _weights(module)
            if weight.requires_grad and (limit := training.max_kernel_norm if is_kernel else training.max_unit_norm) is not None
        ]

    @torch.no_grad()
    def apply(self) -> None:
        """Scale down what is too long; everything else keeps its bits."""
        for weight, axes, limit in self._limited:
            norm = torch.linalg.vector_norm(weight, dim=axes, keepdim=True)
            weight.mul_(limit / norm.clamp(min=limit))


def _weights(module: nn.Module) -> Iterator[tuple[Tensor, tuple[int, ...], bool]]:
    """Yield weights with the axes of the inputs of a unit, and whether they are kernels.

    Shapes: (out, in, height, width) of a convolution, (out, in) of a dense layer, (layers, out, in) of a stack of dense layers.
    """
    for name, parameter in module.named_parameters():
        if name.rpartition(".")[2] == "weight" and parameter.dim() > 1:
            is_kernel = parameter.dim() == 4
            yield parameter, (1, 2, 3) if is_kernel else (parameter.dim() - 1,), is_kernel
