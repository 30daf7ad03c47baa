"""Piecewise-linear bins, and statistics of weighted samples, against numpy and against repeated samples."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from highwaynet import DataSpec, InputError, load_dataset
from highwaynet.data.preprocessing import Preprocessing, fit_preprocessing
from highwaynet.data.samples import Samples
from highwaynet.data.sources import Source
from highwaynet.data.table_files import table_of
from highwaynet.data.tables import TableEncoder


def fitted(
    values: NDArray[Any], weights: NDArray[Any] | None = None, steps: tuple[Any, ...] = ("piecewise",), bins: int = 4
) -> Preprocessing:
    def batches() -> Iterator[Tensor]:
        return iter(torch.from_numpy(values).split(7))

    return fit_preprocessing(steps, 1.0, batches, None if weights is None else torch.from_numpy(weights), bins)


def test_bins_follow_their_formula() -> None:
    values = np.random.default_rng(0).normal(size=(41, 3)).astype(np.float32)
    values[:, 1] = np.arange(41) % 2  # two values: no bins
    found = fitted(values).apply(torch.from_numpy(values)).numpy()
    parts = [values]
    for place in (0, 2):
        edges = np.quantile(values[:, place], [0, 0.25, 0.5, 0.75, 1], method="inverted_cdf")
        parts.append(np.clip((values[:, [place]] - edges[:-1]) / np.diff(edges), 0, 1))
    np.testing.assert_allclose(found, np.hstack(parts), rtol=1e-5, atol=1e-6)
    far = fitted(values).apply(torch.full((1, 3), 99.0))
    assert far[0, 3:].tolist() == [1.0] * 8, "beyond the training data the bins are full, and the number itself goes on"


def test_equal_quantiles_give_fewer_bins_and_constants_none() -> None:
    values = np.stack([np.r_[np.zeros(30), 1, 2, 3], np.full(33, 5.0), np.arange(33.0)], axis=1)
    state = fitted(values).state
    assert state["piecewise.feature"].tolist() == [2] * 4, "most values of the first column are equal"
    assert fitted(values[:, 1:2]).apply(torch.zeros(2, 1)).shape == (2, 1)


@pytest.mark.parametrize("steps", [("standardise",), ("piecewise",), ("standardise", "piecewise")])
def test_weights_count_like_repetitions(steps: tuple[Any, ...]) -> None:
    random = np.random.default_rng(1)
    values, counts = random.normal(size=(50, 2)), random.integers(1, 5, 50)
    weighted, repeated = fitted(values, counts.astype(float), steps).state, fitted(values.repeat(counts, axis=0), None, steps).state
    assert weighted.keys() == repeated.keys()
    for name, value in weighted.items():
        torch.testing.assert_close(value, repeated[name], rtol=1e-12, atol=1e-12)
        assert value.dtype in {torch.float64, torch.int64}, "float64 inputs have float64 statistics"


def test_the_encoder_of_a_table_weights_rows() -> None:
    counts = np.array([1, 2, 3, 1])
    columns = {"a": np.array([1.0, 5.0, np.nan, 2.0]), "b": list("xyyx")}
    weighted = TableEncoder.fit(table_of(columns), weights=counts.astype(float))
    repeated = TableEncoder.fit(table_of({"a": columns["a"].repeat(counts), "b": list("xyyyyyx")}))
    np.testing.assert_allclose(weighted.encode(table_of(columns), dtype=np.float64), repeated.encode(table_of(columns), dtype=np.float64))


def test_batches_are_the_same_if_all_rows_are_prepared_at_once() -> None:
    x, y = np.random.default_rng(0).normal(size=(90, 3)).astype(np.float32), np.arange(90) % 2
    data = load_dataset(DataSpec(name="memory", preprocessing=("standardise", "piecewise"), bins=4), data=(x, y))
    assert data.train.prepared is not None
    assert data.preparation.record.network_shape == (15,)
    for inputs, _ in data.train.batches(20):
        assert inputs.shape[1:] == (15,)
    rows = data.train.rows[:20]
    assert torch.equal(next(data.train.batches(20))[0], data.preparation.preprocessing.apply(torch.from_numpy(x)[rows]))


def test_without_a_test_part_all_samples_are_trained_on() -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    data = load_dataset(DataSpec(name="memory", test=0.0, validation=0.0), data=(x, y))
    assert (len(data.train), len(data.test)) == (40, 0)
    with pytest.raises(InputError, match=r"no test part in this run \(data.test = 0\): choose train$"):
        data.part("test")


def test_several_targets_are_standardised_one_by_one() -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.random.default_rng(1).normal([1, 50, 7], [2, 9, 0], size=(40, 3))
    data = load_dataset(DataSpec(name="memory", test=0.0), data=Source("arrays", "features", "regression", (), Samples(x, y)))
    record = data.preparation.record
    assert record.outputs == 3
    chosen = y[data.train.rows.numpy()]
    np.testing.assert_allclose(record.target_means, chosen.mean(0))
    np.testing.assert_allclose(record.target_stds, [*chosen.std(0)[:2], 1.0])
    np.testing.assert_allclose(data.train.targets[data.train.rows].mean(0), 0, atol=1e-12)


def test_bins_are_not_for_images() -> None:
    with pytest.raises(InputError, match="piecewise is for tables and arrays of features"):
        load_dataset(DataSpec(name="digits", preprocessing=("piecewise",)))
