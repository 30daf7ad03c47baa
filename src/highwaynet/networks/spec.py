"""NetworkSpec: everything that defines a network, except the shapes that follow from the data."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from highwaynet.base.errors import unknown
from highwaynet.base.specs import Mark, Spec, named
from highwaynet.layers.names import Activation, Carry, Init, Shortcut
from highwaynet.networks.presets import PRESETS, LayerKind, Preset, Variant

MAX_PARAMETERS = 2**31


class NetworkSpec(Spec):
    """A network by name, with any of its settings changed.

    A spec is always complete: fields that are left out get the values of the preset when the spec is made.

    >>> NetworkSpec(name="fc-plain", depth=20).width
    71
    >>> NetworkSpec(name="highway-b").depth
    19
    """

    _section: ClassVar[str] = "network."

    name: str = "fc-highway"
    """Name of the network; `highway networks` lists them."""

    variant: Variant | None = None
    """Convolutional networks: paper (clean, the default), released (with the quirks of the authors' files), 2016 (residual networks)."""

    depth: Annotated[int, Field(ge=1, le=100_000), Mark.VARIES] = 50
    """Dense networks: number of layers before the softmax: one plain layer that sets the width, then depth − 1 layers of the network's
    kind. Convolutional networks have a fixed depth, counted as in their papers, including the softmax."""

    width: Annotated[Annotated[int, Field(ge=1, le=65_536)] | None, Mark.VARIES] = None
    """Dense networks: blocks (units) per layer. The paper's thin networks: 50 for highway, 71 for plain."""

    activation: Annotated[Activation, Mark.VARIES] = "tanh"
    """Activation of the block state H: tanh, relu, sigmoid or identity. By default tanh in dense and relu in convolutional
    networks; the recipe table uses relu."""

    init: Annotated[Init, Mark.VARIES] = "glorot-uniform"
    """Initialisation of the weights: glorot-uniform, glorot-normal, he, orthogonal, normal or uniform. By default he for relu, otherwise
    glorot-uniform."""

    init_std: Annotated[float, Field(gt=0)] | None = None
    """Standard deviation of the zero-mean initial weights; only for init = normal (default 0.05)."""

    init_range: Annotated[float, Field(gt=0)] | None = None
    """The initial weights are uniform between ± this number; only for init = uniform (default 0.05)."""

    gate_bias: Annotated[float, Field(ge=-1000, le=1000)] | Literal["auto"] | None = None
    """Initial value b_T of the transform gate biases: a number, or auto, which follows from the depth. Highway
    networks; in fc-lstm, of the input gates, and the forget gates start at its opposite."""

    carry: Carry | None = None
    """Carry gate: coupled (C = 1 − T, as in the paper) or independent. Highway networks only."""

    head: Literal["gap", "dense"] | None = None
    """highway-a and -b and their twins: a 1×1 convolution before global average pooling (gap), or a dense layer after it (dense)."""

    dropout: Annotated[tuple[Annotated[float, Field(ge=0, lt=1)], ...], Field(strict=False)] | None = None
    """Probability of dropout at each of the network's places. Dense networks have two: after the first layer and before the softmax.
    Convolutional networks have, for instance, [0.0, 0.05, 0.1, 0.2]: for the input and after each of three stages."""

    members: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Dense networks: number of members, networks that share all weights but factors of the inputs and the last layer. Each learns on its
    own, and the answer is the mean of theirs (TabM, Gorishniy et al. 2024). By default 1."""

    shortcut: Shortcut | None = None
    """Convolutional residual networks: how the shortcut changes shape if it has to: pad (zero maps) or project (a 1×1 convolution)."""

    deep_supervision: bool | None = None
    """Plain convolutional networks: add a companion classifier to each stage but the last; its loss helps during training."""

    @property
    def preset(self) -> Preset:
        """The preset of this name."""
        return PRESETS[self.name]

    @property
    def kind(self) -> LayerKind:
        """Kind of its layers: highway, plain, residual, lstm or maxout."""
        return self.preset.kind

    @property
    def label(self) -> str:
        """The name, with head and variant if they distinguish it from others of this name, for instance highway-a (gap head)."""
        extras: list[str] = [f"{self.head} head"] if self.head is not None and "head" in self.preset.settings else []
        extras += [self.variant] if self.variant is not None and self.variant != next(iter(self.preset.origins)) else []
        return self.name + (f" ({', '.join(extras)})" if extras else "")

    @property
    def title(self) -> str:
        """The name in figures: depth and kind, for instance 50-layer highway; the label if the depth is fixed."""
        return self.label if self.preset.traits.has_variants else f"{self.depth}-layer {self.kind}"

    @property
    def origin(self) -> str:
        """Its source: the paper, released files, or a reconstruction."""
        preset = self.preset
        own = preset.origins[next(iter(preset.origins)) if self.variant is None else self.variant]
        return preset.dense_head_origin or own if self.head == "dense" else own

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        name = named(cls, values)
        if name is None:
            return values
        if name not in PRESETS:
            raise ValueError(str(unknown("network", name, PRESETS)))
        preset, given = PRESETS[name], {key: value for key, value in values.items() if value is not None}
        if given.get("variant") == 2016:  # written without quotes
            given["variant"] = "2016"
        filled = dict(preset.defaults)
        if preset.traits.has_variants:
            filled |= {"variant": next(iter(preset.origins)), "depth": preset.layers}
        filled |= next((own for variant, own in preset.by_variant.items() if variant == given.get("variant")), {})
        activation = given.get("activation", filled.get("activation"))
        filled = {"init": "he" if activation == "relu" else "glorot-uniform"} | filled
        if given.get("init") not in {None, filled["init"]}:
            filled.pop("init_range", None)
        filled |= {"init_std": 0.05} if given.get("init") == "normal" else {}
        filled |= {"init_range": 0.05} if given.get("init") == "uniform" else {}
        return filled | given

    @model_validator(mode="after")
    def _check(self) -> "NetworkSpec":
        self._check_applicable()
        if self.init_std is not None and self.init != "normal":
            raise ValueError(f"network.init_std = {self.init_std}: applies only to init = 'normal', not to {self.init!r}")
        if self.init_range is not None and self.init != "uniform":
            raise ValueError(f"network.init_range = {self.init_range}: applies only to init = 'uniform', not to {self.init!r}")
        if self.depth * (self.width or 0) ** 2 > MAX_PARAMETERS:
            raise ValueError(f"network.depth = {self.depth} with network.width = {self.width}: more than 2³¹ weights; reduce one")
        return self

    def _check_applicable(self) -> None:
        """Raise ValueError if a field that the preset does not admit differs from the preset's value."""
        preset = self.preset
        if self.variant is not None and preset.traits.has_variants and self.variant not in preset.origins:
            raise ValueError(f"network.variant = {self.variant!r}: {self.name} comes as {' or '.join(map(repr, preset.origins))}")
        if preset.layers is not None and self.depth != preset.layers:
            raise ValueError(
                f"network.depth = {self.depth}: {self.name} has {preset.layers} layers; fc-highway, -plain, -residual and -lstm take any"
            )
        for field in ("gate_bias", "carry"):
            if (value := getattr(self, field)) is not None and field not in preset.settings:
                what = "no carry gate" if self.kind == "lstm" else "no gates"
                raise ValueError(f"network.{field} = {value!r}: {self.name} has {what}; leave it out, or choose a highway network")
        usual = preset.defaults | ({"variant": self.variant} if preset.traits.has_variants else {})
        for field in ("variant", "width", "activation", "head", "dropout", "members", "shortcut", "deep_supervision"):
            value = getattr(self, field)
            if (
                field not in preset.settings
                and value not in {None, False}
                and value != usual.get(field, NetworkSpec.model_fields[field].default)
            ):
                raise ValueError(f"network.{field} = {value!r}: {self.name} has no such setting; leave it out")
        own = preset.by_variant.get(self.variant, {}) if self.variant is not None else {}
        places = (preset.defaults | own).get("dropout", ())
        if self.dropout is not None and len(self.dropout) != len(places):
            where = {"dense": " (after the first layer, before the softmax)"}.get(preset.drawing, "")
            where = " (the input, and after each stage)" if preset.drawing in {"mnist", "cifar"} else where
            wanted = f"needs {len(places)} numbers, one for each place{where}" if places else "has no dropout; leave it out"
            raise ValueError(f"network.dropout = {list(self.dropout)}: {self.label} {wanted}")
