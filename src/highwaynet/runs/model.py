"""`highwaynet.load(run)`: a trained network with the preparation it was trained with, ready for new inputs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.data.preparation import Preparation
from highwaynet.data.record import DataRecord
from highwaynet.networks.dense import DenseNetwork
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network

BATCH = 1024


@dataclass(frozen=True)
class TrainedModel:
    """A network that answers in the user's terms: class names, probabilities, numbers in the target's own unit."""

    network: DenseNetwork
    preparation: Preparation

    @property
    def data(self) -> DataRecord:
        """What it was trained on: task, class names, shape of a sample."""
        return self.preparation.record

    def outputs(self, inputs: ArrayLike) -> Tensor:
        """What the network gives for raw inputs (samples, ...), in the values and shape of the training data: (samples, outputs).

        Raises:
            InputError: If a sample has another shape than those of the training data.
        """
        raw = torch.as_tensor(np.ascontiguousarray(inputs))
        shape = self.data.input_shape
        if tuple(raw.shape[1:]) != shape and raw.ndim == len(shape) and tuple(raw.shape) == shape:
            raw = raw[None]  # a single sample
        if tuple(raw.shape[1:]) != shape:
            raise InputError(f"inputs of shape {tuple(raw.shape)}: the run was trained on samples of {'×'.join(map(str, shape))}")
        with torch.inference_mode():
            batches = [self.network(self.preparation.preprocessing.apply(batch)) for batch in raw.split(BATCH)]
        return torch.cat(batches) if batches else torch.empty(0, self.data.outputs)

    def predict_proba(self, inputs: ArrayLike) -> NDArray[np.float32]:
        """The probability of each class, (samples, classes); classification alone."""
        if self.data.task != "classification":
            raise InputError("probabilities: the run is a regression; use predict")
        probabilities: NDArray[np.float32] = self.outputs(inputs).softmax(1).numpy()
        return probabilities

    def predict(self, inputs: ArrayLike) -> NDArray[Any]:
        """The name of the most probable class, or the predicted number, for each sample."""
        outputs = self.outputs(inputs)
        if self.data.task == "classification":
            names: NDArray[Any] = np.asarray(self.data.class_names)[outputs.argmax(1).numpy()]
            return names
        numbers: NDArray[Any] = outputs[:, 0].double().numpy() * self.data.target_std + self.data.target_mean
        return numbers


def load(run: str | Path) -> TrainedModel:
    """The trained network of a run directory; raises InputError if there is none or it is damaged."""
    directory = RunDirectory.open(Path(run))
    return TrainedModel(load_network(directory), directory.load_preparation())
