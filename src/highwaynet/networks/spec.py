"""NetworkSpec: everything that defines a network, except the shapes that follow from the data."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from highwaynet.base.errors import unknown
from highwaynet.base.specs import Spec, named
from highwaynet.layers.names import Activation, Carry, Init
from highwaynet.networks.presets import PRESETS, Kind

MAX_PARAMETERS = 2**31


class NetworkSpec(Spec):
    """A network by name, with any of its settings changed.

    A spec is always complete: what is left out is filled in from the preset when the spec is made.

    >>> NetworkSpec(name="fc-plain", depth=20).width
    71
    """

    name: str = "fc-highway"
    """Which network; `highway networks` lists them."""

    depth: Annotated[int, Field(ge=1, le=100_000)] = 50
    """Number of layers before the softmax: one plain layer that sets the width, then depth − 1 of the network's kind."""

    width: Annotated[int, Field(ge=1, le=65_536)] = 50
    """Blocks (units) per layer. The paper's thin networks: 50 for highway, 71 for plain."""

    activation: Activation = "tanh"
    """Activation of the block state H: tanh, relu, sigmoid or identity."""

    init: Init = "glorot-uniform"
    """Start of the weights: glorot-uniform, glorot-normal, he, orthogonal or normal. By default he for relu, else glorot-uniform."""

    init_std: Annotated[float, Field(gt=0)] | None = None
    """Standard deviation of the zero-mean start weights, for init = normal alone (default 0.05)."""

    gate_bias: Annotated[float, Field(ge=-1000, le=1000)] | Literal["auto"] | None = None
    """Start value b_T of the transform gate biases, a number or auto (a rule of depth, from −1 to −4); highway networks alone."""

    carry: Carry | None = None
    """Carry gate: coupled (C = 1 − T, as in the paper) or independent; highway networks alone."""

    @property
    def kind(self) -> Kind:
        """Which layers follow the first plain one: highway, plain or residual."""
        return PRESETS[self.name].kind

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        name = named(cls, values)
        if name is None:
            return values
        if name not in PRESETS:
            raise ValueError(str(unknown("network", name, PRESETS)))
        filled = PRESETS[name].defaults | {"init": "he" if values.get("activation") == "relu" else "glorot-uniform"}
        filled |= {"init_std": 0.05} if values.get("init") == "normal" else {}
        return filled | {key: value for key, value in values.items() if value is not None}

    @model_validator(mode="after")
    def _check(self) -> "NetworkSpec":
        if self.init_std is not None and self.init != "normal":
            raise ValueError(f"network.init_std = {self.init_std}: applies to init = 'normal' alone, not to {self.init!r}")
        for field, value in (("gate_bias", self.gate_bias), ("carry", self.carry)):
            if value is not None and self.kind != "highway":
                raise ValueError(f"network.{field} = {value!r}: {self.name} has no gates; leave it out, or take fc-highway")
        if self.depth * self.width**2 > MAX_PARAMETERS:
            raise ValueError(f"network.depth = {self.depth} with network.width = {self.width}: more than 2³¹ weights; reduce one")
        return self
