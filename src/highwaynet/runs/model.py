"""`highwaynet.load(run)`: a trained network with its preparation, ready to predict."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.data.dataset import as_tensor
from highwaynet.data.memory import as_array, as_table, is_frame
from highwaynet.data.new_samples import new_samples, read_new_rows, read_pictures
from highwaynet.data.preparation import Preparation
from highwaynet.data.record import DataRecord
from highwaynet.data.table_files import Table
from highwaynet.data.tables import TableEncoder
from highwaynet.networks.network import Network
from highwaynet.runs.checkpoints import AVERAGE, FINAL, START, checksum
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.environment import describe_environment
from highwaynet.runs.load import load_network
from highwaynet.runs.names import Kept
from highwaynet.runs.packed import check_new
from highwaynet.runs.spec import RunSpec, StartSpec, with_training
from highwaynet.runs.stages import check_outputs

BATCH = 256

Inputs = ArrayLike | str | Path | Mapping[str, Any] | Table
"""Arrays; for runs on images also paths, folders and images of Pillow; for runs on tables a path, a mapping of columns, or a frame."""


@dataclass(frozen=True)
class Predictions:
    """The answers for a piece of the samples in files; see `TrainedModel.stream`."""

    names: list[str]
    """What each sample is called: its file, or its file and row."""
    answers: NDArray[Any]
    """(samples,): labels, or numbers in the unit of the target."""
    probabilities: NDArray[np.float32] | None
    """(samples, classes); None for a regression."""
    kept: dict[str, list[str | None]]
    """Cells that were carried over, by column; None for gaps."""
    skipped: list[str]
    """Sentences about samples that were left out since the piece before; the first ones if there are very many."""
    skipped_count: int
    """Number of samples that were left out since the piece before."""


@dataclass(frozen=True)
class TrainedModel:
    """A trained network that predicts class labels, probabilities, or numbers in the unit of the target."""

    network: Network
    """The network, in evaluation mode."""
    preparation: Preparation
    """What was learned from the training samples: preprocessing, encoding, class names."""
    spec: RunSpec
    """The settings of the run that it comes from."""
    run: Path
    """The directory of that run."""

    def __repr__(self) -> str:
        return f"TrainedModel({self.network.plan.name}, from {self.run})"

    @property
    def classes(self) -> NDArray[Any]:
        """The class labels of the training data, in the order of the columns of `predict_proba`; empty for a regression.

        Integers and booleans of arrays keep their type; other labels are strings.
        """
        names = self.data.class_names
        match self.data.label_kind:
            case "whole number":
                return np.array([int(name) for name in names])
            case "truth value":
                return np.array([name == "True" for name in names])
        return np.asarray(names, dtype=np.str_)

    @property
    def data(self) -> DataRecord:
        """The record of the training data: task, class names, shape of a sample."""
        return self.preparation.record

    def outputs(self, inputs: Inputs) -> Tensor:
        """Compute the outputs of the network for new samples, (samples, outputs): logits, or standardised numbers.

        Args:
            inputs: Raw inputs (samples, ...) with the range and shape of the training data. For a run on images also a path, a folder,
                an image of Pillow, or a list of these, of any size: they are resized as in training. For a run on a table: a path, a
                mapping of column names to values, or a data frame.

        Raises:
            InputError: If the samples have another form than the training data, or values that are not finite numbers, or the run is the
                first stage of a training with hints, whose outputs are not trained.
        """
        pictures = read_pictures(inputs, self.data) if self.data.kind == "images" else None
        raw = as_tensor(self._rows(inputs) if self.data.kind == "table" else self._array(inputs) if pictures is None else pictures)
        return self._outputs(raw)

    def _outputs(self, raw: Tensor) -> Tensor:
        """Compute the outputs for raw inputs, or encoded rows of a table."""
        check_outputs(self.spec, self.run)
        shape = self.data.input_shape
        if tuple(raw.shape) == shape:
            raw = raw[None]  # a single sample
        if self.data.kind == "images" and tuple(raw.shape[1:]) == (*shape[1:], shape[0]):
            raw = raw.movedim(-1, 1)  # channels last, as in many files
        if self.data.kind == "images" and raw.ndim == 3 and (1, *raw.shape[1:]) == shape:
            raw = raw[:, None]  # grey images without a channel axis
        if tuple(raw.shape[1:]) != shape:
            raise InputError(f"inputs of shape {tuple(raw.shape)}: the run was trained on samples of {'×'.join(map(str, shape))}")
        with torch.inference_mode():
            batches = [self._batch(batch) for batch in raw.split(BATCH)]
        return torch.cat(batches) if batches else torch.empty(0, self.data.outputs)

    def _array(self, inputs: Any) -> NDArray[Any]:
        """Convert arrays, tensors or lists to one array of numbers."""
        array = np.ascontiguousarray(as_array(inputs, "inputs", empty=True))
        if array.dtype.kind not in "buif":
            raise InputError(f"inputs: arrays of numbers are needed, not of {array.dtype}; for files use `highway predict`")
        if self.data.kind == "images" and self.data.full_scale == 255 and array.dtype.kind == "f" and array.size and array.max() <= 1:
            raise InputError(f"inputs: values up to {array.max():g}; the run was trained on pixels from 0 to 255: scale them to that range")
        return array

    def _batch(self, raw: Tensor) -> Tensor:
        if not torch.isfinite(raw).all():
            raise InputError("inputs: a value is not a finite number; repair or remove its row")
        dtype = next(self.network.parameters()).dtype
        if self.data.kind == "features":
            raw = raw.to(torch.float64 if self.data.exact else torch.float32)
        elif raw.dtype is torch.float64 and dtype is not torch.float64:
            raw = raw.float()  # training had float32 inputs
        prepared = self.preparation.preprocessing.apply(raw).to(dtype)
        if self.data.kind == "features" and not torch.isfinite(prepared).all():
            raise InputError("inputs: a value is too far from the training data; correct it or remove its row")
        outputs: Tensor = self.network(prepared)
        return outputs

    def _rows(self, inputs: Any) -> NDArray[np.float32]:
        """Encode the rows of a table as features."""
        if isinstance(inputs, str | Path):
            return read_new_rows(Path(inputs), self.data)
        if isinstance(inputs, Table):
            table = inputs
        elif isinstance(inputs, Mapping) or is_frame(inputs):
            table = as_table(inputs)
        else:
            raise InputError("inputs: the run was trained on a table; give a path, a mapping of column names to values, or a data frame")
        return TableEncoder.from_json(self.data.encoder or {}).encode(table)

    def without(self, layers: Iterable[int]) -> "TrainedModel":
        """Return the model without these layers, numbered from 1 among the removable ones; raises InputError if one cannot be removed.

        Highway and residual layers can be removed, and dense layers after the first one.
        """
        try:
            return replace(self, network=self.network.without(list(layers)))
        except TypeError as error:
            raise InputError(f"layers = {layers!r}: give the numbers of layers, for instance [3, 7]") from error
        except ValueError as error:
            raise InputError(str(error)) from error

    def save(self, path: str | Path, *, overwrite: bool = False) -> RunDirectory:
        """Save the model as a new run, which can be loaded, evaluated, inspected, reported and trained further.

        Args:
            path: The run directory to create.
            overwrite: Replace an earlier run there.

        Raises:
            InputError: If the directory cannot be created.
        """
        if Path(path).resolve() == self.run.resolve():
            raise InputError(f"{path} is the run that the model comes from: name another folder")
        check_new(Path(path), overwrite=overwrite)
        weights = self.network.state_dict()
        start = StartSpec(run=str(self.run.resolve()), given=True, weights=checksum(weights))
        spec = with_training(self.spec, epochs=0, answer=None).model_copy(update={"start": start})
        run = RunDirectory.create(Path(path), spec, describe_environment(), overwrite=overwrite)
        try:
            run.log(f"saved: the network of {self.run.name}, or what was made of it")
            run.save_plan(self.network.plan)
            run.save_preparation(self.preparation)
            averaged = [] if spec.training.weight_average is None else [AVERAGE]
            for name in (START, *averaged, FINAL):  # the last one makes it a finished run
                run.checkpoints.save(name, weights, epoch=0, step=0)
            run.forget_earlier()
        finally:
            run.unlock()
        return run

    def predict_proba(self, inputs: Inputs) -> NDArray[np.float32]:
        """Predict the probability of each class, (samples, classes); raises InputError for a regression."""
        if self.data.task != "classification":
            raise InputError("probabilities: the run is a regression; use predict")
        probabilities: NDArray[np.float32] = self.outputs(inputs).softmax(1).numpy()
        return probabilities

    def predict(self, inputs: Inputs) -> NDArray[Any]:
        """Predict for each sample the label of the most probable class, or the number in the target's unit."""
        return self._answers(self.outputs(inputs))

    def stream(
        self, files: str | Path | Sequence[str | Path], *, keep: Sequence[str] = (), skip_bad: bool = False
    ) -> Iterator[Predictions]:
        """Predict for files of any length, a piece at a time, in memory that does not grow with them.

        Args:
            files: Images, folders of images, .npy files, tables, or lists (.txt) with the name of one of these in each line.
            keep: Columns of tables to carry over.
            skip_bad: Leave samples out that cannot be read, instead of raising InputError.

        Raises:
            InputError: If a file does not exist, cannot be read, or has another form than the training data.
        """
        paths = [Path(file) for file in ([files] if isinstance(files, str | Path) else files)]
        for path in paths:
            if not path.exists():
                raise InputError(f"{path}: no such file or folder")
        for piece in new_samples(paths, self.data, keep=keep, skip_bad=skip_bad):
            outputs = self._outputs(as_tensor(piece.inputs))
            shares = outputs.softmax(1).numpy() if self.data.task == "classification" else None
            yield Predictions(piece.names, self._answers(outputs), shares, piece.kept, piece.skipped, piece.skipped_count)

    def _answers(self, outputs: Tensor) -> NDArray[Any]:
        if self.data.task == "classification":
            labels: NDArray[Any] = self.classes[outputs.argmax(1).numpy()]
            return labels
        found = outputs.double().numpy()
        mean, std = map(np.asarray, self.data.target_scale)
        numbers: NDArray[Any] = (found if found.shape[1] > 1 else found[:, 0]) * std + mean
        return numbers


def load(run: str | PathLike[str], checkpoint: Kept | None = None) -> TrainedModel:
    """Load the trained network of a run, ready to predict.

    Args:
        run: The run that `train` returned, or its directory.
        checkpoint: "final", the weights after the last epoch, "best", those with the lowest validation loss, or "average"; by default those
            that are the run's answer.

    Raises:
        InputError: If there is no such run or checkpoint, or it is damaged.
    """
    directory = RunDirectory.open(Path(run))
    preparation = directory.load_preparation()
    network = load_network(directory, checkpoint, data=preparation.record)
    if (classes := len(preparation.record.class_names)) and classes != network.plan.outputs:
        raise InputError(f"{directory.path}: its data have {classes} classes, and its network has {network.plan.outputs} outputs")
    return TrainedModel(network, preparation, directory.read_spec(), directory.path)
