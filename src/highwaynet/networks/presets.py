"""The named networks: what each is, its source, and its defaults. Does not import torch.

Sources: "paper" is Srivastava, Greff and Schmidhuber 2015, "Training Very Deep Networks"; "released files" are its authors' Caffe examples;
"2016 report" is a reproduction that describes layers the paper leaves open. A "reconstruction" has the published depth and number of
parameters, but its authors never published its layers.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from highwaynet.networks.families import FAMILIES, Family
from highwaynet.networks.plan import Shape

LayerKind = Literal["highway", "plain", "residual", "lstm", "maxout"]
Variant = Literal["paper", "released", "2016"]

MNIST: Shape = (1, 28, 28)
CIFAR: Shape = (3, 32, 32)

_START = frozenset({"init", "init_std", "init_range"})
_GATES = frozenset({"gate_bias", "carry"})
_DENSE = _START | {"depth", "width", "activation", "dropout", "members"}
_NO_DROPOUT = (0.0, 0.0)
_CONVOLUTIONAL = _START | {"variant", "activation", "dropout"}


@dataclass(frozen=True)
class Preset:
    """A named network."""

    drawing: str
    """Name of the function in architectures.py that makes its plan."""
    kind: LayerKind
    """Kind of its layers."""
    summary: str
    """Description in one sentence."""
    origins: dict[Variant, str]
    """The source of each variant, the default variant first: the paper, released files, or a reconstruction."""
    settings: frozenset[str]
    """The fields of `NetworkSpec` that the user can set."""
    made_for: Shape
    """Shape of the images for which it was published."""
    family: str = "convolutional"
    """Its family, a key of `FAMILIES`."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """Defaults of the fields of `NetworkSpec`."""
    by_variant: dict[Variant, dict[str, Any]] = field(default_factory=dict)
    """Defaults of single variants, if they differ."""
    layers: int | None = None
    """Number of layers as its paper counts them, with the softmax; None if depth is a setting."""
    channels: tuple[int, ...] = ()
    """Maps of each stage."""
    kernels: tuple[tuple[int, ...], ...] = ()
    """Window sizes of the highway layers of each stage, after its first, plain layer."""
    stages: tuple[tuple[int, ...], ...] = ()
    """Maps of each maxout layer, by stage."""
    gap_channels: int = 0
    """Maps of the 1×1 convolution before global average pooling (head = gap)."""
    head_units: int = 0
    """Units of the dense layer after global average pooling (head = dense)."""
    dense_head_origin: str | None = None
    """Source of the network with head = dense."""

    @property
    def traits(self) -> Family:
        """The properties of its family."""
        return FAMILIES[self.family]


def _mnist(width: int) -> Preset:
    return Preset(
        drawing="mnist",
        kind="highway",
        summary=f"highway network for small images: 9 convolutions of {width} maps, 8 of them highway layers, then softmax",
        origins={"paper": "paper, table 1; layers from the released files", "released": "released files"},
        settings=_CONVOLUTIONAL | _GATES,
        made_for=MNIST,
        # The paper gives no dropout. That of the released files needs hundreds of epochs; this lighter one suits tens of epochs.
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
    summary="Highway C: 32 layers, 32, 64 and 96 maps, alternating 1×1 and 3×3 windows",
    origins={"paper": "reconstruction: paper, table 2"},
    settings=_CONVOLUTIONAL | _GATES,
    made_for=CIFAR,
    defaults={"gate_bias": -3.0, "carry": "coupled", "activation": "relu", "dropout": (0.0, 0.1, 0.1, 0.1), "head": "gap"},
    layers=32,
    channels=(32, 64, 96),
    kernels=((1, 3, 1, 3, 1, 3, 1, 3, 1),) * 3,
    gap_channels=100,
)


def _larger(size: int, channels: tuple[int, ...]) -> Preset:
    """Highway A with more stages, for larger images."""
    return replace(
        _A,
        summary=f"highway network for images of about {size}×{size}: Highway A with {len(channels)} stages, {3 * len(channels) + 2} layers",
        origins={"paper": "ours: Highway A with more stages"},
        dense_head_origin="ours: Highway A with more stages",
        made_for=(3, size, size),
        defaults=_A.defaults | {"gate_bias": "auto", "dropout": (0.0,) * (len(channels) + 1)},
        layers=3 * len(channels) + 2,
        channels=channels,
        kernels=((3, 3),) * len(channels),
    )


def _plain_twin(highway: Preset, name: str) -> Preset:
    """The same layers and maps without gates, which leaves about half the parameters."""
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
        summary=f"residual network of {layers} layers; variant 2016 has pooling and dropout instead of strides and batch norm",
        origins={"paper": "He et al. 2015, section 4.2", "2016": "2016 report; its dropout and initialisation are guesses"},
        settings=_START | {"variant", "shortcut", "dropout"},
        made_for=CIFAR,
        defaults={"activation": "relu", "shortcut": "pad"},
        by_variant={"2016": {"dropout": (0.2, 0.2)}},
        layers=layers,
        channels=(16, 32, 64),
    )


def _fitnet(letter: str, layers: int, stages: tuple[tuple[int, ...], ...], released: str) -> Preset:
    return Preset(
        drawing="fitnet",
        kind="maxout",
        summary=f"FitNet {letter}: {layers} thin maxout layers, which the paper compares with Highway {letter}",
        origins={"paper": "reconstruction: Romero et al. 2014, with 2 pieces in the dense layer", "released": released},
        settings=_START | {"variant"},
        made_for=CIFAR,
        defaults={"activation": "identity"},
        by_variant={"released": {"init": "uniform", "init_range": 0.005}},
        layers=layers,
        stages=stages,
    )


def _thin_maxout(layers: int, stages: tuple[tuple[int, ...], ...]) -> Preset:
    """A network with fewer layers than FitNet A, and at most but nearly its parameters and multiply-adds."""
    return replace(
        _fitnet("A", layers, stages, ""),
        summary=f"{layers} maxout layers with nearly the parameters and multiply-adds of fitnet-a",
        origins={"paper": "ours: after Romero et al. 2014, figure 2, which compares depths within such limits"},
        settings=_START,
        by_variant={},
    )


_TEACHER = Preset(
    drawing="teacher",
    kind="maxout",
    summary="the FitNets' teacher: 3 wide maxout convolutions and a dense maxout layer of 5 pieces",
    origins={"paper": "reconstruction: Goodfellow et al. 2013 and Romero et al. 2014; padding chosen to fit about 9 million parameters"},
    settings=_START | {"dropout"},
    made_for=CIFAR,
    defaults={"activation": "identity", "dropout": (0.2, 0.5, 0.5, 0.5)},
    layers=5,
    channels=(96, 192, 192),
    head_units=500,
)

PRESETS: dict[str, Preset] = {
    "fc-highway": Preset(
        drawing="dense",
        family="dense",
        kind="highway",
        summary="one plain dense layer, then dense highway layers, then softmax",
        origins={"paper": "paper, section 3.1"},
        settings=_DENSE | _GATES,
        made_for=MNIST,
        defaults={"width": 50, "gate_bias": "auto", "carry": "coupled", "dropout": _NO_DROPOUT},
    ),
    "fc-plain": Preset(
        drawing="dense",
        family="dense",
        kind="plain",
        summary="dense plain layers, then softmax; as many parameters per layer as fc-highway",
        origins={"paper": "paper, section 3.1"},
        settings=_DENSE,
        made_for=MNIST,
        defaults={"width": 71, "dropout": _NO_DROPOUT},
    ),
    "fc-residual": Preset(
        drawing="dense",
        family="dense",
        kind="residual",
        summary="one plain dense layer, then dense residual layers, then softmax; the width of fc-plain",
        origins={"paper": "dense analogue of He et al. 2015, not in the paper"},
        settings=_DENSE,
        made_for=MNIST,
        defaults={"width": 71, "dropout": _NO_DROPOUT},
    ),
    "fc-lstm": Preset(
        drawing="dense",
        family="dense",
        kind="lstm",
        summary="one plain dense layer, then LSTM cells over depth, then softmax; as many parameters per layer as fc-highway",
        origins={"paper": "reconstruction: paper, footnote 2, which gives no equations"},
        settings=_DENSE | {"gate_bias"},
        made_for=MNIST,
        defaults={"width": 35, "gate_bias": "auto", "dropout": _NO_DROPOUT},
    ),
    "mnist-highway-16": _mnist(16),
    "mnist-highway-32": _mnist(32),
    "highway-a": _A,
    "highway-b": _B,
    "highway-c": _C,
    "highway-a-8": replace(
        _A,
        summary="highway-a with 8 layers, one highway layer in each stage; for few images",
        origins={"paper": "ours: Highway A with fewer layers"},
        dense_head_origin="ours: Highway A with fewer layers",
        layers=8,
        kernels=((3,),) * 3,
    ),
    "highway-64": _larger(64, (16, 32, 64, 64)),
    "highway-128": _larger(128, (16, 32, 64, 64, 96)),
    "mnist-plain-16": _plain_twin(_mnist(16), "mnist-highway-16"),
    "mnist-plain-32": _plain_twin(_mnist(32), "mnist-highway-32"),
    "plain-a": _plain_twin(_A, "highway-a"),
    "plain-b": _plain_twin(_B, "highway-b"),
    "plain-c": _plain_twin(_C, "highway-c"),
    "resnet-20": _resnet(20),
    "resnet-32": _resnet(32),
    "resnet-44": _resnet(44),
    "fitnet-a": _fitnet("A", 11, ((16, 16, 16), (32, 32, 32), (48, 48, 64)), "start weights of the released files of FitNet B"),
    "fitnet-b": _fitnet("B", 19, ((32, 32, 32, 48, 48), (80,) * 6, (128,) * 6), "released files, with 5 pieces in the dense layer"),
    "maxout-5": _thin_maxout(5, ((66,), (68,), (72,))),
    "maxout-7": _thin_maxout(7, ((46,), (48, 48), (56, 56))),
    "maxout-9": _thin_maxout(9, ((24, 24), (36, 36), (48, 48, 64))),
    "maxout-teacher": _TEACHER,
    "maxout-teacher-half": replace(
        _TEACHER,
        summary="maxout-teacher with half the maps and units: a quarter of the work",
        origins={"paper": "ours: half of maxout-teacher"},
        channels=(48, 96, 96),
        head_units=250,
    ),
    "mnist-fitnet": Preset(
        drawing="mnist-fitnet",
        kind="maxout",
        summary="the FitNet for MNIST: 6 thin maxout convolutions, then softmax",
        origins={"paper": "Romero et al. 2014; layers from the released files"},
        settings=_START,
        made_for=MNIST,
        defaults={"activation": "identity"},
        layers=7,
    ),
    "mnist-maxout": Preset(
        drawing="mnist-maxout",
        kind="maxout",
        summary="the teacher of mnist-fitnet: 3 maxout convolutions, then softmax",
        origins={"paper": "reconstruction: Goodfellow et al. 2013, with the 361 thousand parameters that Romero et al. 2014 give"},
        settings=_START | {"dropout"},
        made_for=MNIST,
        defaults={"activation": "identity", "dropout": (0.2, 0.5, 0.5, 0.5)},
        layers=4,
    ),
    "nin": Preset(
        drawing="nin",
        kind="plain",
        summary="network in network: 3 blocks of a convolution and two 1×1 convolutions, then global average pooling",
        origins={"paper": "Lin et al. 2013; no ReLU after the last convolution"},
        settings=_START | {"dropout", "activation"},
        made_for=CIFAR,
        defaults={"activation": "relu", "dropout": (0.5, 0.5)},
        layers=9,
    ),
    "all-cnn": Preset(
        drawing="all-cnn",
        kind="plain",
        summary="All-CNN-C: only convolutions, with strides instead of pooling",
        origins={"paper": "Springenberg et al. 2014; no ReLU after the last convolution"},
        settings=_START | {"dropout", "activation"},
        made_for=CIFAR,
        defaults={"activation": "relu", "dropout": (0.2, 0.5, 0.5)},
        layers=9,
    ),
}
