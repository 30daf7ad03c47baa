"""DataSpec → samples, their division and their record: what is known about data before they become tensors. Does not import torch."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError
from highwaynet.data.catalogue import CATALOGUE
from highwaynet.data.column_report import ColumnReport, notes_of, report_of, summary_of
from highwaynet.data.columns import recognise
from highwaynet.data.division import Indices, Permutations, divide
from highwaynet.data.formats import read_own
from highwaynet.data.memory import source_in_memory
from highwaynet.data.names import Kind, Part, Step
from highwaynet.data.record import DataRecord
from highwaynet.data.sources import Source, read_built_in
from highwaynet.data.spec import DataSpec
from highwaynet.data.tables import TableEncoder

DEFAULT_STEPS: dict[Kind, tuple[Step, ...]] = {"images": ("scale",), "features": ("standardise",), "table": ()}
ZCA_LIMIT = 8192
"""Maximal number of inputs for zca, which needs a matrix of inputs × inputs."""


@dataclass(frozen=True)
class Rows:
    """Indices of the samples of each part; an official test part has its own numbering."""

    train: Indices
    validation: Indices
    test: Indices


def describe_data(spec: DataSpec) -> tuple[DataRecord, dict[Part, dict[str, int]], list[ColumnReport]]:
    """Return the record of the data, for each part the number of samples of each class (empty for regression), and a table's columns.

    Raises InputError if something is missing, damaged or does not fit together.
    """
    source = read_source(spec)
    rows = divided(source, spec)
    encoder = encoder_of(source, spec, rows)
    record = record_of(source, spec, raw_inputs(source, encoder), rows, encoder)
    targets = source.samples.targets
    parts: dict[Part, NDArray[Any]] = {"train": targets[rows.train]}
    if len(rows.validation):
        parts["validation"] = targets[rows.validation]
    parts["test"] = (targets if source.test is None else source.test.targets)[rows.test]
    names = record.class_names
    counts = {part: np.bincount(found, minlength=len(names)).tolist() for part, found in parts.items()} if names else {}
    columns = report_of(source.whole, encoder, source.target_name, source.task, spec.ignore or ()) if encoder and source.whole else []
    return record, {part: dict(zip(names, numbers, strict=True)) for part, numbers in counts.items()}, columns


def read_source(spec: DataSpec, data: Any = None, known: DataRecord | None = None) -> Source:
    """Read the samples that a spec names, or take those in memory; `known` is the record of the run, for error messages."""
    if data is not None:
        return source_in_memory(data, spec)
    if spec.in_memory:
        found = f" ({known.found})" if known else ""
        raise InputError(f"data.name = 'memory': the data{found} were given in memory and not stored; pass them in Python, with data=...")
    return read_built_in(spec) if spec.built_in else read_own(spec, Path(spec.name))


def divided(source: Source, spec: DataSpec) -> Rows:
    """Divide samples into parts as the spec says; an official test part stays unchanged."""
    targets, classes = source.samples.targets, source.task == "classification"
    train = np.arange(len(targets))
    purpose = spec.name if spec.built_in else "own"
    if source.test is not None:
        test = np.arange(len(source.test))
    else:
        # digits has no official test set: a fifth of each class is used, always the same.
        seed = 0 if spec.built_in else spec.split_seed
        share = CATALOGUE[spec.name].test / len(targets) if spec.built_in else (0.2 if spec.test is None else spec.test)
        test = train[:0]
        if share > 0:
            train, test = divide(train, targets, share, Permutations(seed, purpose, "test"), by_class=classes)
            _not_empty("data.test", share, test, targets)
    validation = train[:0]
    if spec.validation > 0:
        permutations = Permutations(spec.split_seed, purpose, "validation")
        train, validation = divide(train, targets, spec.validation, permutations, by_class=classes)
        _not_empty("data.validation", spec.validation, validation, targets)
    return Rows(train, validation, test)


def _not_empty(field: str, share: float, rows: Indices, targets: NDArray[Any]) -> None:
    if not len(rows):
        raise InputError(
            f"{field} = {share}: selects none of {len(targets)} samples, since each class keeps at least one for training; "
            "choose a larger share, or larger classes"
        )


def encoder_of(source: Source, spec: DataSpec, rows: Rows, known: DataRecord | None = None) -> TableEncoder | None:
    """Return the encoder of a table, learned from its training rows or taken from the record of a run; None for other data."""
    if source.table is None:
        return None
    if known is not None:
        return TableEncoder.from_json(known.encoder or {})
    table, targets = source.table.select(rows.train), source.samples.targets[rows.train]
    weights = None if source.samples.weights is None else source.samples.weights[rows.train]
    return TableEncoder.fit(table, recognise(table, targets, source.task, rows=source.table.rows, use=spec.use or ()), weights)


def raw_inputs(source: Source, encoder: TableEncoder | None) -> NDArray[Any]:
    """Return the inputs (samples, ...) before preprocessing; those of a table are encoded."""
    inputs = source.samples.inputs
    return encoder.encode(source.table, lenient=True, dtype=inputs.dtype) if encoder and source.table else inputs


def description(source: Source, encoder: TableEncoder | None) -> str:
    """Describe the data in one sentence; for a table, with the columns that are used."""
    return source.found if encoder is None else f"{source.found} with {summary_of(encoder)}; {source.asked}"


def notes_about(source: Source, encoder: TableEncoder | None) -> tuple[str, ...]:
    """Return sentences about the columns of a table; empty for other data."""
    return () if encoder is None or source.table is None else (*notes_of(encoder), *encoder.unreadable(source.table))


def record_of(source: Source, spec: DataSpec, inputs: NDArray[Any], rows: Rows, encoder: TableEncoder | None) -> DataRecord:
    """Make the record of data; mean and standard deviation of the target are those of the training rows."""
    scale = _target_scale(source, rows) if source.task == "regression" else {}
    return DataRecord(
        found=description(source, encoder),
        kind=source.kind,
        task=source.task,
        fingerprint=source.fingerprint(),
        input_shape=tuple(inputs.shape[1:]),
        class_names=source.class_names,
        label_kind=source.label_kind,
        target_name=source.target_name,
        target_names=source.target_names,
        **scale,
        full_scale=source.full_scale,
        pixels=("uint8" if inputs.dtype == np.uint8 else "float32") if source.kind == "images" else None,
        exact=source.kind == "features" and inputs.dtype == np.float64,
        preprocessing=_steps(source, spec, math.prod(inputs.shape[1:])),
        encoder=encoder.to_json() if encoder else None,
        column_names=source.column_names,
        notes=notes_about(source, encoder),
        train=len(rows.train),
        validation=len(rows.validation),
        test=len(rows.test),
    )


def _target_scale(source: Source, rows: Rows) -> dict[str, Any]:
    """Return the fields of the record with mean and standard deviation of the targets; of several targets, some may be constant."""
    chosen = source.samples.targets[rows.train].astype(np.float64)
    weights = None if source.samples.weights is None else source.samples.weights[rows.train]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.average(chosen, axis=0, weights=weights)
        std = np.sqrt(np.average((chosen - mean) ** 2, axis=0, weights=weights))
    if not np.isfinite(std).all():
        raise InputError(f"the target {source.target_name!r} has values up to {np.abs(chosen).max():g}: give it in another unit")
    if chosen.ndim == 1 and std == 0:
        raise InputError(f"the target {source.target_name!r} is {mean:g} in all training samples: there is nothing to predict")
    if chosen.ndim == 1:
        return {"target_mean": float(mean), "target_std": float(std)}
    return {"target_means": tuple(mean.tolist()), "target_stds": tuple(np.where(std > 0, std, 1.0).tolist())}


def _steps(source: Source, spec: DataSpec, inputs: int) -> tuple[Step, ...]:
    """Return the steps of the preprocessing; raises InputError if one does not suit the data."""
    steps = DEFAULT_STEPS[source.kind] if spec.preprocessing is None else spec.preprocessing
    if source.kind != "images" and (wrong := {"scale", "gcn", "mean-image"} & set(steps)):
        raise InputError(f"data.preprocessing: {sorted(wrong)[0]} is for images; these data are {source.kind}")
    if source.kind == "images" and "piecewise" in steps:
        raise InputError("data.preprocessing: piecewise is for tables and arrays of features; these data are images")
    if "zca" in steps and inputs > ZCA_LIMIT:
        raise InputError(f"data.preprocessing: zca supports at most {ZCA_LIMIT:,} inputs, not {inputs:,}; leave it out")
    return steps
