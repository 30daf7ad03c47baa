"""The builder: a plan becomes a module with fresh weights."""

from collections.abc import Sequence
from importlib import import_module

from torch import Generator, nn

from highwaynet.networks.architectures import plan_of
from highwaynet.networks.description import describe_plan
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Plan
from highwaynet.networks.spec import NetworkSpec


def build_network(spec: NetworkSpec, input_shape: Sequence[int], outputs: int, *, generator: Generator | None = None) -> Network:
    """Build the network that a spec describes, with fresh weights.

    Args:
        spec: What to build.
        input_shape: Shape of one sample, for instance (1, 28, 28).
        outputs: Number of classes, or of numbers to predict.
        generator: Where the weights come from; torch's global generator if None.

    Raises:
        InputError: If a convolutional network is asked for and the samples are not images, or too small.

    >>> network = build_network(NetworkSpec(name="fc-plain", depth=10), (1, 28, 28), 10)
    >>> sum(parameter.numel() for parameter in network.parameters())
    102463
    """
    if outputs < 1:
        raise ValueError(f"outputs = {outputs}: must be at least 1")
    return build_plan(plan_of(spec, input_shape, outputs), generator=generator)


def build_plan(plan: Plan, *, generator: Generator | None = None) -> Network:
    """Build the network of a plan, with fresh weights; its `plan` is that plan.

    Args:
        plan: What to build, for instance the `plan` of another network.
        generator: Where the weights come from; torch's global generator if None.

    Raises:
        InputError: If the samples do not fit the network, or it would have more than 2³¹ weights.
    """
    describe_plan(plan)
    module, function = plan.traits.builder.split(":")
    network: Network = getattr(import_module(module), function)(plan, generator)
    return network


def count_parameters(module: nn.Module) -> int:
    """The number of trained values of a module."""
    return sum(parameter.numel() for parameter in module.parameters())
