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
    from highwaynet.analysis.collect import Study as Study
    from highwaynet.base.errors import HighwayError as HighwayError
    from highwaynet.base.errors import InputError as InputError
    from highwaynet.blocks.cbhg import CBHG as CBHG
    from highwaynet.blocks.character_cnn import CharacterCNN as CharacterCNN
    from highwaynet.blocks.gated_residual import GatedResidualNetwork as GatedResidualNetwork
    from highwaynet.data.dataset import Dataset as Dataset
    from highwaynet.data.load import load_dataset as load_dataset
    from highwaynet.data.spec import DataSpec as DataSpec
    from highwaynet.estimator.classifier import HighwayClassifier as HighwayClassifier
    from highwaynet.estimator.regressor import HighwayRegressor as HighwayRegressor
    from highwaynet.exporting.export import Exported as Exported
    from highwaynet.exporting.export import export as export
    from highwaynet.facade import evaluate as evaluate
    from highwaynet.facade import inspect as inspect
    from highwaynet.layers.conv_highway import ConvHighway as ConvHighway
    from highwaynet.layers.conv_highway_1d import ConvHighway1d as ConvHighway1d
    from highwaynet.layers.conv_plain import ConvPlain as ConvPlain
    from highwaynet.layers.conv_residual import ConvResidual as ConvResidual
    from highwaynet.layers.dense_highway import DenseHighway as DenseHighway
    from highwaynet.layers.dense_plain import DensePlain as DensePlain
    from highwaynet.layers.dense_residual import DenseResidual as DenseResidual
    from highwaynet.layers.depth_lstm import DepthLSTM as DepthLSTM
    from highwaynet.layers.gate_bias import auto_gate_bias as auto_gate_bias
    from highwaynet.layers.highway import Highway as Highway
    from highwaynet.layers.lesion import lesion as lesion
    from highwaynet.layers.matrices import MatrixParameters as MatrixParameters
    from highwaynet.layers.matrices import matrix_parameters as matrix_parameters
    from highwaynet.layers.maxout import ConvMaxout as ConvMaxout
    from highwaynet.layers.maxout import DenseMaxout as DenseMaxout
    from highwaynet.layers.observation import observe as observe
    from highwaynet.layers.recomputation import recompute as recompute
    from highwaynet.layers.recurrent_highway import RecurrentHighway as RecurrentHighway
    from highwaynet.layers.shape_change import PadChannels as PadChannels
    from highwaynet.layers.shape_change import Subsample as Subsample
    from highwaynet.layers.unstacking import unstacked as unstacked
    from highwaynet.networks.build import build_network as build_network
    from highwaynet.networks.build import build_plan as build_plan
    from highwaynet.networks.plan import Plan as Plan
    from highwaynet.networks.spec import NetworkSpec as NetworkSpec
    from highwaynet.networks.summaries import NetworkSummary as NetworkSummary
    from highwaynet.networks.summaries import list_networks as list_networks
    from highwaynet.runs.directory import RunDirectory as RunDirectory
    from highwaynet.runs.model import Predictions as Predictions
    from highwaynet.runs.model import TrainedModel as TrainedModel
    from highwaynet.runs.model import load as load
    from highwaynet.runs.run_records import Score as Score
    from highwaynet.runs.seeds import SeedsRecord as SeedsRecord
    from highwaynet.runs.spec import RunSpec as RunSpec
    from highwaynet.runs.spec import StartSpec as StartSpec
    from highwaynet.runs.teacher_spec import TeacherSpec as TeacherSpec
    from highwaynet.runs.training_spec import TrainingSpec as TrainingSpec
    from highwaynet.training.divergence import DivergenceError as DivergenceError
    from highwaynet.training.interruption import InterruptedRunError as InterruptedRunError
    from highwaynet.training.interruption import Interruption as Interruption
    from highwaynet.training.loop import train as train
    from highwaynet.training.objective import Batch as Batch
    from highwaynet.training.objective import BatchLoss as BatchLoss
    from highwaynet.training.objective import Classification as Classification
    from highwaynet.training.objective import Objective as Objective
    from highwaynet.training.objective import Regression as Regression
    from highwaynet.training.several import train_seeds as train_seeds
    from highwaynet.training.watcher import Watcher as Watcher
    from highwaynet.web.explore import explore as explore

__version__ = "0.1.0"

# Names are imported on first use, so that `highway --help` does not wait for torch. A test compares this table with the imports above.
_HOMES = {
    "Batch": "training.objective",
    "BatchLoss": "training.objective",
    "CBHG": "blocks.cbhg",
    "CharacterCNN": "blocks.character_cnn",
    "Classification": "training.objective",
    "ConvHighway": "layers.conv_highway",
    "ConvHighway1d": "layers.conv_highway_1d",
    "ConvMaxout": "layers.maxout",
    "ConvPlain": "layers.conv_plain",
    "ConvResidual": "layers.conv_residual",
    "DataSpec": "data.spec",
    "Dataset": "data.dataset",
    "DenseHighway": "layers.dense_highway",
    "DenseMaxout": "layers.maxout",
    "DensePlain": "layers.dense_plain",
    "DenseResidual": "layers.dense_residual",
    "DepthLSTM": "layers.depth_lstm",
    "DivergenceError": "training.divergence",
    "Exported": "exporting.export",
    "GatedResidualNetwork": "blocks.gated_residual",
    "Highway": "layers.highway",
    "HighwayClassifier": "estimator.classifier",
    "HighwayError": "base.errors",
    "HighwayRegressor": "estimator.regressor",
    "InputError": "base.errors",
    "InterruptedRunError": "training.interruption",
    "Interruption": "training.interruption",
    "MatrixParameters": "layers.matrices",
    "NetworkSpec": "networks.spec",
    "NetworkSummary": "networks.summaries",
    "Objective": "training.objective",
    "PadChannels": "layers.shape_change",
    "Plan": "networks.plan",
    "Predictions": "runs.model",
    "RecurrentHighway": "layers.recurrent_highway",
    "Regression": "training.objective",
    "RunDirectory": "runs.directory",
    "RunSpec": "runs.spec",
    "Score": "runs.run_records",
    "SeedsRecord": "runs.seeds",
    "StartSpec": "runs.spec",
    "TeacherSpec": "runs.teacher_spec",
    "Study": "analysis.collect",
    "Subsample": "layers.shape_change",
    "TrainedModel": "runs.model",
    "TrainingSpec": "runs.training_spec",
    "Watcher": "training.watcher",
    "auto_gate_bias": "layers.gate_bias",
    "build_network": "networks.build",
    "build_plan": "networks.build",
    "evaluate": "facade",
    "export": "exporting.export",
    "explore": "web.explore",
    "inspect": "facade",
    "lesion": "layers.lesion",
    "list_networks": "networks.summaries",
    "load": "runs.model",
    "load_dataset": "data.load",
    "matrix_parameters": "layers.matrices",
    "observe": "layers.observation",
    "recompute": "layers.recomputation",
    "train": "training.loop",
    "train_seeds": "training.several",
    "unstacked": "layers.unstacking",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'highwaynet' has no attribute {name!r}")
    value = getattr(import_module(f"highwaynet.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
