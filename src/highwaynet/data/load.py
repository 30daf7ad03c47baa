"""DataSpec → Dataset: read, divide, learn the preparation from the training samples, or take over that of a run."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.base.randomness import generator_for
from highwaynet.data.catalogue import CATALOGUE
from highwaynet.data.dataset import Dataset, Split, as_tensor
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

    encoder = _encoder(source, preparation, train)
    raw = encoder.encode(source.table) if encoder and source.table else source.samples.inputs
    inputs = as_tensor(raw)
    prepared = preparation or _prepare(source, spec, inputs, train, encoder)
    _check_unchanged(source, raw, prepared.record)
    numbers = _numbers(targets, prepared.record)
    train_split = Split(inputs, numbers, train, prepared)
    validation_split = replace(train_split, rows=validation) if validation is not None else None
    if source.test is not None:
        test_rows = torch.arange(len(source.test))
        test_split = Split(as_tensor(source.test.inputs), _numbers(source.test.targets, prepared.record), test_rows, prepared)
    else:
        test_split = replace(train_split, rows=everything[:0] if test_rows is None else test_rows)
    if preparation is None:
        counts = {"train": len(train), "validation": len(validation) if validation is not None else 0, "test": len(test_split)}
        prepared = replace(prepared, record=prepared.record.model_copy(update=counts))
    return Dataset(spec.name, prepared, train_split, validation_split, test_split)


def _not_empty(field: str, share: float, rows: Tensor, targets: NDArray[Any]) -> None:
    if not len(rows):
        raise InputError(
            f"{field} = {share}: leaves no sample of {len(targets)}, since the last one of each class is trained on; "
            "choose a larger share, or larger classes"
        )


def _encoder(source: Source, preparation: Preparation | None, train: Tensor) -> TableEncoder | None:
    """How a table becomes features: learned from its training rows, or that of the run."""
    if source.table is None:
        return None
    if preparation is not None:
        return TableEncoder.from_json(preparation.record.encoder or {})
    return TableEncoder.fit(source.table.select(train.numpy()))


def _prepare(source: Source, spec: DataSpec, inputs: Tensor, train: Tensor, encoder: TableEncoder | None) -> Preparation:
    """Learn everything that is learned from data, from the training rows and nothing else."""
    mean, std = 0.0, 1.0
    if source.task == "regression":
        chosen = source.samples.targets[train.numpy()].astype(np.float64)
        mean, std = float(chosen.mean()), float(chosen.std())
        if std == 0:
            raise InputError(f"the target {source.target_name!r} is {mean:g} in all training samples: there is nothing to predict")
    steps = DEFAULT_STEPS[source.kind] if spec.preprocessing is None else spec.preprocessing
    if source.kind != "images" and (wrong := {"scale", "gcn", "mean-image"} & set(steps)):
        raise InputError(f"data.preprocessing: {sorted(wrong)[0]} is for images; these data are {source.kind}")

    def batches() -> Iterator[Tensor]:
        return (inputs.index_select(0, chosen) for chosen in train.split(STATISTICS_BATCH))

    record = DataRecord(
        found=source.found,
        kind=source.kind,
        task=source.task,
        fingerprint=source.fingerprint(),
        input_type=str(inputs.dtype).removeprefix("torch."),
        input_shape=tuple(inputs.shape[1:]),
        class_names=source.class_names,
        target_name=source.target_name,
        target_mean=mean,
        target_std=std,
        full_scale=source.full_scale,
        preprocessing=steps,
        encoder=encoder.to_json() if encoder else None,
        train=len(train),
        validation=0,
        test=0,
    )
    return Preparation(record, fit_preprocessing(steps, source.full_scale, batches))


def _check_unchanged(source: Source, inputs: NDArray[Any], record: DataRecord) -> None:
    """Raise InputError where the data are no longer those of the run: its division would mix training and test samples."""
    now = (source.task, source.class_names, tuple(inputs.shape[1:]), source.fingerprint())
    if now != (record.task, record.class_names, record.input_shape, record.fingerprint):
        raise InputError(
            f"the data have changed since the run was made: it has {record.found!r}, now there is {source.found!r}; train again"
        )


def _numbers(targets: NDArray[Any], record: DataRecord) -> Tensor:
    """Targets as the network is trained on them: class numbers, or numbers standardised."""
    if record.task == "classification":
        return torch.from_numpy(np.ascontiguousarray(targets))
    return torch.from_numpy((targets.astype(np.float64) - record.target_mean) / record.target_std).float()
