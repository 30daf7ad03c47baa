"""The builder: a NetworkSpec and the shapes of the data become a module."""

import math
from collections.abc import Sequence

from torch import Generator, nn

from highwaynet.networks.dense import DenseNetwork, build_dense
from highwaynet.networks.spec import NetworkSpec


def build_network(spec: NetworkSpec, input_shape: Sequence[int], outputs: int, *, generator: Generator | None = None) -> DenseNetwork:
    """The network that a spec describes, freshly initialised.

    Args:
        spec: What to build.
        input_shape: Shape of one sample, for instance (1, 28, 28).
        outputs: Number of classes, or of numbers to predict.
        generator: Where the weights come from; torch's global generator if None.

    >>> network = build_network(NetworkSpec(name="fc-plain", depth=10), (1, 28, 28), 10)
    >>> count_parameters(network)
    102463
    """
    return build_dense(spec, math.prod(input_shape), outputs, generator)


def count_parameters(module: nn.Module) -> int:
    """The number of trained values of a module."""
    return sum(parameter.numel() for parameter in module.parameters())
