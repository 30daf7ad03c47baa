"""Closing random layers while training (stochastic depth, Huang et al. 2016, https://arxiv.org/abs/1603.09382), without rescaling."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from highwaynet.base.randomness import generator_for
from highwaynet.layers.lesion import count_layers, lesion
from highwaynet.runs.training_spec import TrainingSpec


class LayerDrop:
    """Draws which layers are closed during a step: the same for the same seed and step, in all processes.

    Args:
        network: The network.
        training: Settings of the training.
        seed: Seed of the run.
    """

    def __init__(self, network: nn.Module, training: TrainingSpec, seed: int) -> None:
        self._network, self._seed = network, seed
        self.probabilities = probabilities(training, count_layers(network))
        self.is_active = bool((self.probabilities > 0).any())

    @contextmanager
    def at(self, step: int) -> Iterator[None]:
        """Close the layers of a step until the end of the block, which contains its forward and backward pass."""
        if not self.is_active:
            yield
            return
        with lesion(self._network, self.drawn(step)):
            yield
        for parameter in self._network.parameters():  # of closed layers; torch's fused optimisers need all gradients or none
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def drawn(self, step: int) -> list[int]:
        """Return the numbers of the layers that are closed during a step."""
        chances = torch.rand(len(self.probabilities), generator=generator_for(self._seed, "layer-drop", step), dtype=torch.float64)
        return (torch.nonzero(chances < self.probabilities).flatten() + 1).tolist()


def probabilities(training: TrainingSpec, layers: int) -> Tensor:
    """Return the probability of each layer to be closed.

    >>> probabilities(TrainingSpec(layer_drop=0.5), 4).tolist()
    [0.125, 0.25, 0.375, 0.5]
    """
    if training.layer_drop_shape == "constant":
        return torch.full((layers,), training.layer_drop, dtype=torch.float64)
    return training.layer_drop * torch.arange(1, layers + 1, dtype=torch.float64) / max(layers, 1)
