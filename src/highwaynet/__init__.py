"""highwaynet: very deep gated networks, to use, to study and to ship.

>>> from torch import nn
>>> from highwaynet import DenseHighway, DensePlain
>>> model = nn.Sequential(nn.Flatten(), DensePlain(784, 50), DenseHighway(50, layers=99), nn.Linear(50, 10))
>>> sum(p.numel() for p in model.parameters())  # the paper's 100-layer network
544660
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from highwaynet.data.spec import DataSpec
    from highwaynet.layers.conv_highway import ConvHighway
    from highwaynet.layers.conv_plain import ConvPlain
    from highwaynet.layers.conv_residual import ConvResidual
    from highwaynet.layers.dense_highway import DenseHighway
    from highwaynet.layers.dense_plain import DensePlain
    from highwaynet.layers.dense_residual import DenseResidual
    from highwaynet.layers.gates import auto_gate_bias
    from highwaynet.layers.highway import Highway
    from highwaynet.layers.lesion import lesion
    from highwaynet.layers.maxout import ConvMaxout, DenseMaxout
    from highwaynet.layers.observation import observe
    from highwaynet.layers.recomputation import recompute
    from highwaynet.layers.shape_change import PadChannels, Subsample
    from highwaynet.networks.build import build_network
    from highwaynet.networks.spec import NetworkSpec
    from highwaynet.runs.model import load
    from highwaynet.runs.spec import RunSpec
    from highwaynet.runs.training_spec import TrainingSpec

__version__ = "0.1.0"

# Names are looked up on first use, so that `highway --help` does not wait for torch.
_HOMES = {
    "ConvHighway": "layers.conv_highway",
    "ConvMaxout": "layers.maxout",
    "ConvPlain": "layers.conv_plain",
    "ConvResidual": "layers.conv_residual",
    "DataSpec": "data.spec",
    "DenseHighway": "layers.dense_highway",
    "DenseMaxout": "layers.maxout",
    "DensePlain": "layers.dense_plain",
    "DenseResidual": "layers.dense_residual",
    "Highway": "layers.highway",
    "NetworkSpec": "networks.spec",
    "PadChannels": "layers.shape_change",
    "RunSpec": "runs.spec",
    "Subsample": "layers.shape_change",
    "TrainingSpec": "runs.training_spec",
    "auto_gate_bias": "layers.gates",
    "build_network": "networks.build",
    "lesion": "layers.lesion",
    "load": "runs.model",
    "observe": "layers.observation",
    "recompute": "layers.recomputation",
}

__all__ = [
    "ConvHighway",
    "ConvMaxout",
    "ConvPlain",
    "ConvResidual",
    "DataSpec",
    "DenseHighway",
    "DenseMaxout",
    "DensePlain",
    "DenseResidual",
    "Highway",
    "NetworkSpec",
    "PadChannels",
    "RunSpec",
    "Subsample",
    "TrainingSpec",
    "__version__",
    "auto_gate_bias",
    "build_network",
    "lesion",
    "load",
    "observe",
    "recompute",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'highwaynet' has no attribute {name!r}")
    value = getattr(import_module(f"highwaynet.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
