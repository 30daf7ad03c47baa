"""DataSpec → Dataset: read, divide, learn the preparation from the training samples, or take over that of a run."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.base.randomness import generator_for
from highwaynet.data.catalogue import CATALOGUE
from highwaynet.data.dataset import Dataset, Split
from highwaynet.data.division import divide
from highwaynet.data.names import Kind, Step
from highwaynet.data.preparation import Preparation
from highwaynet.data.preprocessing import fit_preprocessing
from highwaynet.data.record import DataRecord
from highwaynet.data.sources import Source, read_source
from highwaynet.data.spec import DataSpec
from highwaynet.data.tables import TableEncoder

STATISTICS_BATCH = 1000
DEFAULT_STEPS: dict[Kind, tuple[Step, ...]] = {"images": ("scale",), "features": ("standardise",), "table": ()}


def load_dataset(spec: DataSpec, preparation: Preparation | None = None) -> Dataset:
    """Read a data set and divide it; the division follows `spec.split_seed`, an official test part is left as it is.

    Args:
        spec: What to load.
        preparation: That of a run, where its network is to be asked again; None learns one from the training samples.

    Raises:
        InputError: If something is missing, damaged or does not fit together.
    """
    source = read_source(spec)
    targets = source.samples.targets
    classes = source.task == "classification"
    everything = torch.arange(len(targets))
    train, test_rows = everything, None
    purpose = spec.name if spec.built_in else "own"
    if source.test is None:
        # digits has no official test set: ours is a fifth of each class, the same for everybody.
        seed = 0 if spec.built_in else spec.split_seed
        share = CATALOGUE[spec.name].test / len(targets) if spec.built_in else spec.test or 0.2
        train, test_rows = divide(train, targets, share, generator_for(seed, purpose, "test"), by_class=classes)
        _not_empty("data.test", share, test_rows, targets)
    validation = None
    if spec.validation > 0:
        train, validation = divide(train, targets, spec.validation, generator_for(spec.split_seed, purpose, "validation"), by_class=classes)
        _not_empty("data.validation", spec.validation, validation, targets)

    prepared = preparation or _prepare(source, spec, train, validation, test_rows)
    inputs, numbers = _tensors(source, source.samples.inputs, targets, prepared)
    parts = (Split(inputs, numbers, rows, prepared) if rows is not None else None for rows in (train, validation, test_rows))
    train_split, validation_split, test_split = parts
    if source.test is not None:
        test_inputs, test_numbers = _tensors(source, source.test.inputs, source.test.targets, prepared)
        test_split = Split(test_inputs, test_numbers, torch.arange(len(source.test)), prepared)
    if train_split is None or test_split is None:
        raise AssertionError("every data set has a training and a test part")
    return Dataset(spec.name, prepared, train_split, validation_split, test_split)


def _not_empty(field: str, share: float, rows: Tensor, targets: NDArray[Any]) -> None:
    if not len(rows):
        raise InputError(f"{field} = {share}: leaves no sample of {len(targets)}; choose a larger share")


def _prepare(source: Source, spec: DataSpec, train: Tensor, validation: Tensor | None, test: Tensor | None) -> Preparation:
    """Learn everything that is learned from data, from the training rows and nothing else."""
    rows = train.numpy()
    encoder = TableEncoder.fit(source.table.select(rows)) if source.table is not None else None
    mean, std = 0.0, 1.0
    if source.task == "regression":
        chosen = source.samples.targets[rows].astype(np.float64)
        mean, std = float(chosen.mean()), float(chosen.std()) or 1.0
    steps = DEFAULT_STEPS[source.kind] if spec.preprocessing is None else spec.preprocessing
    if source.kind != "images" and (wrong := {"scale", "gcn", "mean-image"} & set(steps)):
        raise InputError(f"data.preprocessing: {sorted(wrong)[0]} is for images; these data are {source.kind}")

    inputs = torch.from_numpy(encoder.encode(source.table)) if encoder and source.table else _as_tensor(source.samples.inputs)

    def batches() -> Iterator[Tensor]:
        return (inputs.index_select(0, chosen) for chosen in train.split(STATISTICS_BATCH))

    record = DataRecord(
        found=source.found,
        kind=source.kind,
        task=source.task,
        input_shape=tuple(inputs.shape[1:]),
        class_names=source.class_names,
        target_name=source.target_name,
        target_mean=mean,
        target_std=std,
        full_scale=source.full_scale,
        preprocessing=steps,
        encoder=encoder.to_json() if encoder else None,
        train=len(train),
        validation=0 if validation is None else len(validation),
        test=len(source.test) if source.test is not None else 0 if test is None else len(test),
    )
    return Preparation(record, fit_preprocessing(steps, source.full_scale, batches))


def _tensors(source: Source, inputs: NDArray[Any], targets: NDArray[Any], prepared: Preparation) -> tuple[Tensor, Tensor]:
    """Raw inputs and targets as the network is trained on them."""
    record = prepared.record
    if (record.task, record.class_names) != (source.task, source.class_names):
        raise InputError(f"the data have changed since the run was made: it has {record.found!r}, now there is {source.found!r}")
    if source.table is not None:
        inputs = TableEncoder.from_json(record.encoder or {}).encode(source.table)
    if tuple(inputs.shape[1:]) != record.input_shape:
        raise InputError(f"the data have changed since the run was made: samples of {inputs.shape[1:]} instead of {record.input_shape}")
    numbers = torch.from_numpy(np.ascontiguousarray(targets))
    if record.task == "regression":
        numbers = numbers.float().sub_(record.target_mean).div_(record.target_std)
    return _as_tensor(inputs), numbers


def _as_tensor(array: NDArray[Any]) -> Tensor:
    with warnings.catch_warnings():
        # A memory-mapped file is not writable; nothing here writes into raw inputs.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
