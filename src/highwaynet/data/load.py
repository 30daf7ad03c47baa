"""DataSpec → Dataset: learns the preparation from the training samples or takes that of a run."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.base.specs import validated
from highwaynet.data.dataset import Dataset, Split, as_tensor
from highwaynet.data.memory import target_in
from highwaynet.data.preparation import Preparation
from highwaynet.data.preprocessing import BINS, fit_preprocessing
from highwaynet.data.reading import Rows, description, divided, encoder_of, notes_about, raw_inputs, read_source, record_of
from highwaynet.data.record import DataRecord
from highwaynet.data.samples import Samples
from highwaynet.data.sources import Source
from highwaynet.data.spec import DataSpec
from highwaynet.data.tables import TableEncoder

STATISTICS_BATCH = 1000
MOST_PREPARED = 20_000_000
"""Tables with at most this many values after preprocessing are preprocessed once, not batch by batch."""


def load_dataset(
    spec: DataSpec | str | None = None, preparation: Preparation | None = None, *, data: Any = None, parent: Preparation | None = None
) -> Dataset:
    """Load a data set and divide it by `spec.split_seed`; an official test part stays unchanged.

    Args:
        spec: Settings, or only a name or path; by default digits, or the given data.
        preparation: The preparation of a run, to load the data as its network was trained on them; by default it is learned from the
            training samples.
        data: Data in memory: a pair (inputs, targets) of arrays, tensors or lists, or four of them, the last two for testing; a mapping
            with the names that .npz files use; or a data frame with the name or the values of its target, (frame, "price") or
            (frame, prices).
        parent: The preparation of a run whose network is trained further; its statistics, encoding and classes are used.

    Raises:
        InputError: If something is missing, damaged or does not fit together.

    >>> load_dataset("digits").train.inputs.shape
    torch.Size([1797, 1, 8, 8])
    """
    if not isinstance(spec, DataSpec):
        spec = DataSpec() if spec is None else validated(DataSpec, {"name": spec}, "data.")
    if data is not None:
        spec = spec.for_memory(target_in(data))
    known = preparation.record if preparation else None
    source = read_source(spec, data, known)
    learned = known or (parent.record if parent else None)
    source = source.in_precision(exact=learned.exact if learned else source.samples.inputs.dtype == np.float64)
    rows = divided(source, spec)
    if preparation is None and parent is not None:
        preparation = _taken_over(source, spec, rows, parent)
        known = preparation.record
    encoder = encoder_of(source, spec, rows, known)
    encoded = raw_inputs(source, encoder)
    inputs = as_tensor(encoded)
    if preparation is None:
        record = record_of(source, spec, encoded, rows, encoder)
        preparation = _prepare(record, inputs, torch.from_numpy(rows.train), _weights(source.samples), spec.bins or BINS)
    else:
        _check_unchanged(source, inputs, preparation.record, description(source, encoder))
    targets = _numbers(source.samples.targets, preparation.record, inputs.dtype)
    known_weights, prepared = _weights(source.samples), _prepared(inputs, preparation)
    train = Split(inputs, targets, torch.from_numpy(rows.train), preparation, source.samples.names, known_weights, prepared)
    validation = replace(train, rows=torch.from_numpy(rows.validation)) if len(rows.validation) else None
    if source.test is None:
        test = replace(train, rows=torch.from_numpy(rows.test))
    else:
        targets = _numbers(source.test.targets, preparation.record, inputs.dtype)
        given = as_tensor(source.test.inputs), targets, torch.from_numpy(rows.test)
        test = Split(*given, preparation, source.test.names, _weights(source.test))
    return Dataset(spec.name, preparation, train, validation, test)


def _prepared(inputs: Tensor, preparation: Preparation) -> Tensor | None:
    """Preprocess all rows of numbers at once, if the result is small; images stay as they are stored."""
    record = preparation.record
    if record.kind == "images" or len(inputs) * prod(record.network_shape) > MOST_PREPARED:
        return None
    return preparation.preprocessing.apply(inputs)


def _weights(samples: Samples) -> Tensor | None:
    return None if samples.weights is None else torch.from_numpy(np.ascontiguousarray(samples.weights, np.float64))


def _prepare(record: DataRecord, inputs: Tensor, train: Tensor, weights: Tensor | None, bins: int) -> Preparation:
    """Learn the statistics of the preprocessing, from the training rows only."""

    def batches() -> Iterator[Tensor]:
        return (inputs.index_select(0, chosen) for chosen in train.split(STATISTICS_BATCH))

    mine = None if weights is None else weights[train]
    fitted = fit_preprocessing(record.preprocessing, record.full_scale, batches, mine, bins)
    shape = tuple(fitted.apply(inputs[:1]).shape[1:])
    if shape != record.input_shape:
        record = record.model_copy(update={"prepared_shape": shape})
    return Preparation(record, fitted)


def _taken_over(source: Source, spec: DataSpec, rows: Rows, parent: Preparation) -> Preparation:
    """Return the parent's preparation for these data; raises InputError if they have another form."""
    record, counts = parent.record, {"train": len(rows.train), "validation": len(rows.validation), "test": len(rows.test)}
    inputs = record.input_shape if source.table is not None else tuple(source.samples.inputs.shape[1:])
    forms = {
        "kind": (record.kind, source.kind),
        "task": (record.task, source.task),
        "shape": (record.input_shape, inputs),
        "class names": (record.class_names, source.class_names),
        "range of pixels": (record.full_scale, source.full_scale),
    }
    for what, (before, now) in forms.items():
        if before != now:
            raise InputError(f"start.run: the parent run was trained on data of another form; its {what}: {before}, here: {now}")
    if spec.preprocessing not in {None, record.preprocessing}:
        there = list(record.preprocessing)
        raise InputError(f"data.preprocessing = {list(spec.preprocessing)}: the parent run has {there}; leave it out to use the parent's")
    encoder = TableEncoder.from_json(record.encoder) if record.encoder else None
    about = {"found": description(source, encoder), "column_names": source.column_names, "notes": notes_about(source, encoder)}
    changes = about | {"fingerprint": source.fingerprint(), "target_name": source.target_name, **counts}
    changes |= {"target_names": source.target_names} if source.target_names else {}
    return Preparation(record.model_copy(update=changes), parent.preprocessing)


def _check_unchanged(source: Source, inputs: Tensor, record: DataRecord, found: str) -> None:
    """Raise InputError if the data are not those of the run: its division would mix training and test samples."""
    now = (source.task, source.class_names, tuple(inputs.shape[1:]), source.fingerprint())
    if now != (record.task, record.class_names, record.input_shape, record.fingerprint):
        raise InputError(
            f"the data have changed since the run was trained: it used {record.found!r}, now it is "
            f"{'the same with other contents' if found == record.found else repr(found)}; train again"
        )


def _numbers(targets: NDArray[Any], record: DataRecord, dtype: torch.dtype) -> Tensor:
    """Return targets as the network is trained on them: class numbers, or standardised numbers, float64 if the inputs are."""
    if record.task == "classification":
        return torch.from_numpy(np.ascontiguousarray(targets))
    mean, std = record.target_scale
    standardised = torch.from_numpy((targets.astype(np.float64) - mean) / std)
    return standardised if dtype is torch.float64 else standardised.float()
