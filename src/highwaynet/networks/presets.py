"""The named networks: what each is, where it comes from, and its defaults. Free of torch.

Sources: "paper" is Srivastava, Greff and Schmidhuber 2015, "Training Very Deep Networks"; "released files" are its authors' Caffe examples;
"2016 report" is a reproduction that describes layers the paper leaves open. What is marked as a reconstruction fits the published depth and
number of parameters, but its authors never published it layer by layer.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from highwaynet.layers.names import FamilyName
from highwaynet.networks.families import FAMILIES, Family
from highwaynet.networks.plan import Shape

LayerKind = Literal["highway", "plain", "residual", "maxout"]
Variant = Literal["paper", "released", "2016"]

MNIST: Shape = (1, 28, 28)
CIFAR: Shape = (3, 32, 32)

_START = frozenset({"init", "init_std"})
_GATES = frozenset({"gate_bias", "carry"})
_DENSE = _START | {"depth", "width", "activation", "dropout"}
_NO_DROPOUT = (0.0, 0.0)
_CONVOLUTIONAL = _START | {"variant", "activation", "dropout"}


@dataclass(frozen=True)
class Preset:
    """A named network."""

    drawing: str
    """Which function of architectures.py draws its plan."""
    kind: LayerKind
    """Which layers it is made of."""
    summary: str
    """What it is, in a sentence."""
    origins: dict[Variant, str]
    """The variants that exist, the usual one first, and where each comes from: the paper, released files, or a reconstruction."""
    settings: frozenset[str]
    """The fields of `NetworkSpec` that can be chosen."""
    made_for: Shape
    """The input for which its numbers were published."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """Values of the `NetworkSpec` fields that the user leaves out."""
    by_variant: dict[Variant, dict[str, Any]] = field(default_factory=dict)
    """The same for single variants, where they differ."""
    layers: int | None = None
    """Number of layers as its paper counts them, with the softmax; None where depth is a setting."""
    channels: tuple[int, ...] = ()
    """Maps of each stage."""
    kernels: tuple[tuple[int, ...], ...] = ()
    """Windows of the highway layers of each stage, behind the plain layer that begins it."""
    stages: tuple[tuple[int, ...], ...] = ()
    """Maps of each maxout layer, stage by stage."""
    gap_channels: int = 0
    """Maps of the 1×1 convolution before global average pooling."""
    head_units: int = 0
    """Units of the dense layer of the other head."""
    dense_head_origin: str | None = None
    """Where the network with that head comes from."""

    @property
    def family(self) -> FamilyName:
        """What kind of network it is: dense or convolutional."""
        return "dense" if self.drawing == "dense" else "convolutional"

    @property
    def traits(self) -> Family:
        """What holds for every network of its family."""
        return FAMILIES[self.family]


def _mnist(width: int) -> Preset:
    return Preset(
        drawing="mnist",
        kind="highway",
        summary=f"highway network for small images: 9 convolutions of {width} maps, 8 of them highway layers, then softmax",
        origins={"paper": "paper, table 1; layers from the released files", "released": "released files"},
        settings=_CONVOLUTIONAL | _GATES,
        made_for=MNIST,
        # The paper gives no dropout. That of the released files needs hundreds of epochs; the light one suits tens.
        defaults={"gate_bias": -1.0, "carry": "coupled", "activation": "relu", "dropout": (0.0, 0.05, 0.1, 0.2)},
        by_variant={"released": {"dropout": (0.2, 0.3, 0.4, 0.5)}},
        layers=10,
        channels=(width,),
    )


_A = Preset(
    drawing="cifar",
    kind="highway",
    summary="Highway A: 11 layers, 16, 32 and 64 maps; a thin network for colour images",
    origins={"paper": "reconstruction: 2016 report"},
    settings=_CONVOLUTIONAL | _GATES | {"head"},
    made_for=CIFAR,
    defaults={"gate_bias": -1.0, "carry": "coupled", "activation": "relu", "dropout": (0.0, 0.0, 0.0, 0.0), "head": "dense"},
    layers=11,
    channels=(16, 32, 64),
    kernels=((3, 3),) * 3,
    gap_channels=64,
    head_units=250,
    dense_head_origin="reconstruction: paper, table 2",
)
_B = Preset(
    drawing="cifar",
    kind="highway",
    summary="Highway B: 19 layers, 32, 80 and 128 maps",
    origins={"paper": "paper, table 3; layers from the released files", "released": "released files"},
    settings=_CONVOLUTIONAL | _GATES | {"head"},
    made_for=CIFAR,
    defaults={"gate_bias": -2.0, "carry": "coupled", "activation": "relu", "dropout": (0.0, 0.1, 0.1, 0.1), "head": "gap"},
    by_variant={"released": {"dropout": (0.2, 0.2, 0.2, 0.2)}},
    layers=19,
    channels=(32, 80, 128),
    kernels=((3,) * 4, (3,) * 5, (3,) * 5),
    gap_channels=100,
    head_units=500,
    dense_head_origin="reconstruction: paper, table 2",
)
_C = Preset(
    drawing="cifar",
    kind="highway",
    summary="Highway C: 32 layers, 32, 64 and 96 maps, windows of 1×1 and 3×3 in turn",
    origins={"paper": "reconstruction: paper, table 2"},
    settings=_CONVOLUTIONAL | _GATES,
    made_for=CIFAR,
    defaults={"gate_bias": -3.0, "carry": "coupled", "activation": "relu", "dropout": (0.0, 0.1, 0.1, 0.1), "head": "gap"},
    layers=32,
    channels=(32, 64, 96),
    kernels=((1, 3, 1, 3, 1, 3, 1, 3, 1),) * 3,
    gap_channels=100,
)


def _plain_twin(highway: Preset, name: str) -> Preset:
    """The same layers and maps without gates, and so with about half the parameters."""
    defaults = {key: value for key, value in highway.defaults.items() if key not in _GATES} | {"deep_supervision": False}
    return replace(
        highway,
        kind="plain",
        summary=f"plain twin of {name}: the same layers and maps without gates",
        origins={variant: f"twin of {name}: {origin}" for variant, origin in highway.origins.items()},
        dense_head_origin=f"twin of {name}: {highway.dense_head_origin}" if highway.dense_head_origin else None,
        settings=highway.settings - _GATES | {"deep_supervision"},
        defaults=defaults,
    )


def _resnet(layers: int) -> Preset:
    return Preset(
        drawing="resnet",
        kind="residual",
        summary=f"residual network of {layers} layers; variant 2016 pools and drops out where He uses strides and batch norm",
        origins={"paper": "He et al. 2015, section 4.2", "2016": "2016 report; its dropout and its start are guesses"},
        settings=_START | {"variant", "shortcut", "dropout"},
        made_for=CIFAR,
        defaults={"activation": "relu", "shortcut": "pad"},
        by_variant={"2016": {"dropout": (0.2, 0.2)}},
        layers=layers,
        channels=(16, 32, 64),
    )


def _fitnet(letter: str, layers: int, stages: tuple[tuple[int, ...], ...]) -> Preset:
    return Preset(
        drawing="fitnet",
        kind="maxout",
        summary=f"FitNet {letter}: {layers} thin maxout layers, the rival of Highway {letter}",
        origins={"paper": "reconstruction: Romero et al. 2014, with 2 pieces in the dense layer"},
        settings=_START,
        made_for=CIFAR,
        defaults={"activation": "identity"},
        layers=layers,
        stages=stages,
    )


PRESETS: dict[str, Preset] = {
    "fc-highway": Preset(
        drawing="dense",
        kind="highway",
        summary="one plain dense layer, then dense highway layers, then softmax",
        origins={"paper": "paper, section 3.1"},
        settings=_DENSE | _GATES,
        made_for=MNIST,
        defaults={"width": 50, "gate_bias": "auto", "carry": "coupled", "dropout": _NO_DROPOUT},
    ),
    "fc-plain": Preset(
        drawing="dense",
        kind="plain",
        summary="dense plain layers, then softmax; as many parameters a layer as fc-highway",
        origins={"paper": "paper, section 3.1"},
        settings=_DENSE,
        made_for=MNIST,
        defaults={"width": 71, "dropout": _NO_DROPOUT},
    ),
    "fc-residual": Preset(
        drawing="dense",
        kind="residual",
        summary="one plain dense layer, then dense residual layers, then softmax; the width of fc-plain",
        origins={"paper": "dense analogue of He et al. 2015, not in the paper"},
        settings=_DENSE,
        made_for=MNIST,
        defaults={"width": 71, "dropout": _NO_DROPOUT},
    ),
    "mnist-highway-16": _mnist(16),
    "mnist-highway-32": _mnist(32),
    "highway-a": _A,
    "highway-b": _B,
    "highway-c": _C,
    "mnist-plain-16": _plain_twin(_mnist(16), "mnist-highway-16"),
    "mnist-plain-32": _plain_twin(_mnist(32), "mnist-highway-32"),
    "plain-a": _plain_twin(_A, "highway-a"),
    "plain-b": _plain_twin(_B, "highway-b"),
    "plain-c": _plain_twin(_C, "highway-c"),
    "resnet-20": _resnet(20),
    "resnet-32": _resnet(32),
    "resnet-44": _resnet(44),
    "fitnet-a": _fitnet("A", 11, ((16, 16, 16), (32, 32, 32), (48, 48, 64))),
    "fitnet-b": _fitnet("B", 19, ((32, 32, 32, 48, 48), (80,) * 6, (128,) * 6)),
    "maxout-teacher": Preset(
        drawing="teacher",
        kind="maxout",
        summary="the FitNets' teacher: 3 wide maxout convolutions and a dense maxout layer of 5 pieces",
        origins={
            "paper": "reconstruction: Goodfellow et al. 2013 and Romero et al. 2014; padding chosen to fit about 9 million parameters"
        },
        settings=_START | {"dropout"},
        made_for=CIFAR,
        defaults={"activation": "identity", "dropout": (0.2, 0.5, 0.5, 0.5)},
        layers=5,
    ),
    "nin": Preset(
        drawing="nin",
        kind="plain",
        summary="network in network: 3 blocks of a convolution and two 1×1 convolutions, then global average pooling",
        origins={"paper": "Lin et al. 2013; no ReLU behind the last convolution"},
        settings=_START | {"dropout", "activation"},
        made_for=CIFAR,
        defaults={"activation": "relu", "dropout": (0.5, 0.5)},
        layers=9,
    ),
    "all-cnn": Preset(
        drawing="all-cnn",
        kind="plain",
        summary="All-CNN-C: only convolutions, with strides instead of pooling",
        origins={"paper": "Springenberg et al. 2014; no ReLU behind the last convolution"},
        settings=_START | {"dropout", "activation"},
        made_for=CIFAR,
        defaults={"activation": "relu", "dropout": (0.2, 0.5, 0.5)},
        layers=9,
    ),
}
