"""Builds a module with new weights from a plan."""

from collections.abc import Sequence
from importlib import import_module

from torch import Generator, nn

from highwaynet.networks.architectures import plan_of
from highwaynet.networks.description import describe_plan
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Plan
from highwaynet.networks.spec import NetworkSpec


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
    module, function = plan.traits.builder.split(":")
    network: Network = getattr(import_module(module), function)(plan, generator)
    return network


def count_parameters(module: nn.Module) -> int:
    """Count the trainable parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())
