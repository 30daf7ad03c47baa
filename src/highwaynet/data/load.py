"""DataSpec → Dataset: reads and divides the data, and learns the preparation from the training samples or takes that of a run."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.base.randomness import generator_for
from highwaynet.base.specs import validated
from highwaynet.data.catalogue import CATALOGUE
from highwaynet.data.column_report import notes_of, summary_of
from highwaynet.data.columns import recognise
from highwaynet.data.dataset import Dataset, Split, as_tensor
from highwaynet.data.division import divide
from highwaynet.data.formats import read_own
from highwaynet.data.memory import source_in_memory, target_in
from highwaynet.data.names import Kind, Step
from highwaynet.data.preparation import Preparation
from highwaynet.data.preprocessing import fit_preprocessing
from highwaynet.data.record import DataRecord
from highwaynet.data.sources import Source, read_built_in
from highwaynet.data.spec import DataSpec
from highwaynet.data.tables import TableEncoder

STATISTICS_BATCH = 1000
DEFAULT_STEPS: dict[Kind, tuple[Step, ...]] = {"images": ("scale",), "features": ("standardise",), "table": ()}


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
    source = _source(spec, preparation, data)
    rows = _divided(source, spec)
    if preparation is None and parent is not None:
        preparation = _taken_over(source, spec, rows, parent)
    encoder = _encoder(source, spec, preparation, rows.train)
    inputs = as_tensor(encoder.encode(source.table, lenient=True) if encoder and source.table else source.samples.inputs)
    if preparation is None:
        preparation = _prepare(source, spec, inputs, rows, encoder)
    else:
        _check_unchanged(source, inputs, preparation.record, _found(source, encoder))
    train = Split(inputs, _numbers(source.samples.targets, preparation.record), rows.train, preparation, source.samples.names)
    validation = replace(train, rows=rows.validation) if len(rows.validation) else None
    test = replace(train, rows=rows.test)
    if source.test is not None:
        targets = _numbers(source.test.targets, preparation.record)
        test = Split(as_tensor(source.test.inputs), targets, rows.test, preparation, source.test.names)
    return Dataset(spec.name, preparation, train, validation, test)


def _source(spec: DataSpec, preparation: Preparation | None, data: Any) -> Source:
    if data is not None:
        return source_in_memory(data, spec)
    if spec.in_memory:
        known = f" ({preparation.record.found})" if preparation else ""
        raise InputError(f"data.name = 'memory': the data{known} were given in memory and not stored; pass them in Python, with data=...")
    return read_built_in(spec) if spec.built_in else read_own(spec, Path(spec.name))


def _taken_over(source: Source, spec: DataSpec, rows: "_Rows", parent: Preparation) -> Preparation:
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
    about = {"found": _found(source, encoder), "column_names": source.column_names, "notes": _notes(source, encoder)}
    changes = about | {"fingerprint": source.fingerprint(), "target_name": source.target_name, **counts}
    return Preparation(record.model_copy(update=changes), parent.preprocessing)


@dataclass(frozen=True)
class _Rows:
    """Indices of the samples of each part; an official test part has its own numbering."""

    train: Tensor
    validation: Tensor
    test: Tensor


def _divided(source: Source, spec: DataSpec) -> _Rows:
    targets, classes = source.samples.targets, source.task == "classification"
    train = torch.arange(len(targets))
    purpose = spec.name if spec.built_in else "own"
    if source.test is not None:
        test = torch.arange(len(source.test))
    else:
        # digits has no official test set: a fifth of each class is used, always the same.
        seed = 0 if spec.built_in else spec.split_seed
        share = CATALOGUE[spec.name].test / len(targets) if spec.built_in else spec.test or 0.2
        train, test = divide(train, targets, share, generator_for(seed, purpose, "test"), by_class=classes)
        _not_empty("data.test", share, test, targets)
    validation = train[:0]
    if spec.validation > 0:
        train, validation = divide(train, targets, spec.validation, generator_for(spec.split_seed, purpose, "validation"), by_class=classes)
        _not_empty("data.validation", spec.validation, validation, targets)
    return _Rows(train, validation, test)


def _not_empty(field: str, share: float, rows: Tensor, targets: NDArray[Any]) -> None:
    if not len(rows):
        raise InputError(
            f"{field} = {share}: selects none of {len(targets)} samples, since each class keeps at least one for training; "
            "choose a larger share, or larger classes"
        )


def _encoder(source: Source, spec: DataSpec, preparation: Preparation | None, train: Tensor) -> TableEncoder | None:
    """Return the encoder of a table, learned from its training rows or taken from the run; None for other data."""
    if source.table is None:
        return None
    if preparation is not None:
        return TableEncoder.from_json(preparation.record.encoder or {})
    rows = train.numpy()
    table, targets = source.table.select(rows), source.samples.targets[rows]
    return TableEncoder.fit(table, recognise(table, targets, source.task, rows=source.table.rows, use=spec.use or ()))


def _found(source: Source, encoder: TableEncoder | None) -> str:
    """Return the description of the data; for a table, with the columns that are used."""
    return source.found if encoder is None else f"{source.found} with {summary_of(encoder)}; {source.asked}"


def _notes(source: Source, encoder: TableEncoder | None) -> tuple[str, ...]:
    return () if encoder is None or source.table is None else (*notes_of(encoder), *encoder.unreadable(source.table))


def _prepare(source: Source, spec: DataSpec, inputs: Tensor, rows: _Rows, encoder: TableEncoder | None) -> Preparation:
    """Learn the preparation, from the training rows only."""
    mean, std = 0.0, 1.0
    if source.task == "regression":
        chosen = source.samples.targets[rows.train.numpy()].astype(np.float64)
        with np.errstate(over="ignore"):
            mean, std = float(chosen.mean()), float(chosen.std())
        if not math.isfinite(std):
            raise InputError(f"the target {source.target_name!r} has values up to {np.abs(chosen).max():g}: give it in another unit")
        if std == 0:
            raise InputError(f"the target {source.target_name!r} is {mean:g} in all training samples: there is nothing to predict")
    steps = DEFAULT_STEPS[source.kind] if spec.preprocessing is None else spec.preprocessing
    if source.kind != "images" and (wrong := {"scale", "gcn", "mean-image"} & set(steps)):
        raise InputError(f"data.preprocessing: {sorted(wrong)[0]} is for images; these data are {source.kind}")

    def batches() -> Iterator[Tensor]:
        return (inputs.index_select(0, chosen) for chosen in rows.train.split(STATISTICS_BATCH))

    record = DataRecord(
        found=_found(source, encoder),
        kind=source.kind,
        task=source.task,
        fingerprint=source.fingerprint(),
        input_shape=tuple(inputs.shape[1:]),
        class_names=source.class_names,
        label_kind=source.label_kind,
        target_name=source.target_name,
        target_mean=mean,
        target_std=std,
        full_scale=source.full_scale,
        preprocessing=steps,
        encoder=encoder.to_json() if encoder else None,
        column_names=source.column_names,
        notes=_notes(source, encoder),
        train=len(rows.train),
        validation=len(rows.validation),
        test=len(rows.test),
    )
    return Preparation(record, fit_preprocessing(steps, source.full_scale, batches))


def _check_unchanged(source: Source, inputs: Tensor, record: DataRecord, found: str) -> None:
    """Raise InputError if the data are not those of the run: its division would mix training and test samples."""
    now = (source.task, source.class_names, tuple(inputs.shape[1:]), source.fingerprint())
    if now != (record.task, record.class_names, record.input_shape, record.fingerprint):
        raise InputError(
            f"the data have changed since the run was trained: it used {record.found!r}, now it is "
            f"{'the same with other contents' if found == record.found else repr(found)}; train again"
        )


def _numbers(targets: NDArray[Any], record: DataRecord) -> Tensor:
    """Return targets as the network is trained on them: class numbers, or standardised numbers."""
    if record.task == "classification":
        return torch.from_numpy(np.ascontiguousarray(targets))
    return torch.from_numpy((targets.astype(np.float64) - record.target_mean) / record.target_std).float()
