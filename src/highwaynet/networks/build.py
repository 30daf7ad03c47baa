"""The builder: a NetworkSpec and the shapes of the data become a module."""

import math
from collections.abc import Sequence

from torch import Generator, nn

from highwaynet.networks.convolutional import ConvNetwork, build_convolutional
from highwaynet.networks.dense import DenseNetwork, build_dense
from highwaynet.networks.spec import NetworkSpec

Network = DenseNetwork | ConvNetwork


def build_network(spec: NetworkSpec, input_shape: Sequence[int], outputs: int, *, generator: Generator | None = None) -> Network:
    """The network that a spec describes, freshly initialised.

    Args:
        spec: What to build.
        input_shape: Shape of one sample, for instance (1, 28, 28).
        outputs: Number of classes, or of numbers to predict.
        generator: Where the weights come from; torch's global generator if None.

    Raises:
        InputError: If the samples are no images, or too small, for a convolutional network.

    >>> network = build_network(NetworkSpec(name="fc-plain", depth=10), (1, 28, 28), 10)
    >>> count_parameters(network)
    102463
    """
    if outputs < 1:
        raise ValueError(f"outputs = {outputs}: must be at least 1")
    if spec.preset.convolutional:
        return build_convolutional(spec, input_shape, outputs, generator)
    return build_dense(spec, math.prod(input_shape), outputs, generator)


def count_parameters(module: nn.Module) -> int:
    """The number of trained values of a module."""
    return sum(parameter.numel() for parameter in module.parameters())
