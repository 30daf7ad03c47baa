"""Builds a module with new weights from a plan."""

from collections.abc import Callable, Sequence

from torch import Generator, nn

from highwaynet.layers.names import FamilyName
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.convolutional import ConvNetwork, build_convolutional
from highwaynet.networks.dense import DenseNetwork, build_dense
from highwaynet.networks.description import describe_plan
from highwaynet.networks.plan import Plan
from highwaynet.networks.spec import NetworkSpec

Network = DenseNetwork | ConvNetwork
"""A network of this package: a module with the attribute `plan`; `without` removes layers."""

_BUILDERS: dict[FamilyName, Callable[[Plan, Generator | None], Network]] = {"dense": build_dense, "convolutional": build_convolutional}


def build_network(spec: NetworkSpec, input_shape: Sequence[int], outputs: int, *, generator: Generator | None = None) -> Network:
    """Build the network that a spec describes, with new weights.

    Args:
        spec: Settings of the network.
        input_shape: Shape of one sample, for instance (1, 28, 28).
        outputs: Number of classes, or of numbers to predict.
        generator: Random generator for the weights; torch's global generator if None.

    Raises:
        InputError: If the network is convolutional and the samples are not images, or too small.

    >>> network = build_network(NetworkSpec(name="fc-plain", depth=10), (1, 28, 28), 10)
    >>> sum(parameter.numel() for parameter in network.parameters())
    102463
    """
    if outputs < 1:
        raise ValueError(f"outputs = {outputs}: must be at least 1")
    return build_plan(plan_of(spec, input_shape, outputs), generator=generator)


def build_plan(plan: Plan, *, generator: Generator | None = None) -> Network:
    """Build the network of a plan, with new weights; its attribute `plan` is that plan.

    Args:
        plan: The plan, for instance that of another network.
        generator: Random generator for the weights; torch's global generator if None.

    Raises:
        InputError: If the samples do not fit the network, or it would have more than 2³¹ weights.
    """
    describe_plan(plan)
    return _BUILDERS[plan.family](plan, generator)


def count_parameters(module: nn.Module) -> int:
    """Count the trainable parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())
