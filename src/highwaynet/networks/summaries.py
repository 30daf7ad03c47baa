"""The networks that can be trained by name, in a line each. Free of torch."""

from highwaynet.base.specs import Spec
from highwaynet.networks.description import describe
from highwaynet.networks.plan import Shape
from highwaynet.networks.presets import PRESETS
from highwaynet.networks.spec import NetworkSpec


class NetworkSummary(Spec):
    """A network that can be trained by name."""

    name: str
    """What `NetworkSpec(name=...)` takes."""
    summary: str
    """What it is."""
    origin: str
    """Where it comes from."""
    family: str
    """dense or convolutional."""
    layers: int
    """Number of layers, as its paper counts them; a default where depth is a setting."""
    parameters: int
    """Trained values, for the images that it was made for and 10 classes."""
    multiply_adds: int
    """Products of weights with inputs, for one sample."""
    input_shape: tuple[int, ...]
    """The images that it was made for."""


def list_networks() -> list[NetworkSummary]:
    """The networks that can be built and trained by name.

    >>> [network.name for network in list_networks() if network.family == "dense"]
    ['fc-highway', 'fc-plain', 'fc-residual', 'fc-lstm']
    """
    return [summary_of(NetworkSpec(name=name)) for name in PRESETS]


def summary_of(spec: NetworkSpec, input_shape: Shape | None = None, outputs: int = 10) -> NetworkSummary:
    """What a network is, for inputs of a shape, by default the images that it was made for; raises InputError if they do not fit."""
    shape = input_shape or spec.preset.made_for
    table = describe(spec, shape, outputs)
    return NetworkSummary(
        name=spec.name,
        summary=spec.preset.summary,
        origin=spec.origin,
        family=spec.preset.family,
        layers=spec.depth,
        parameters=table.parameters,
        multiply_adds=table.multiply_adds,
        input_shape=shape,
    )
