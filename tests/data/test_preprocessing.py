"""Every step against a plain float64 reference in numpy, and statistics that never see anything but training rows."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from highwaynet import DataSpec
from highwaynet.base.errors import InputError
from highwaynet.data.load import load_dataset
from highwaynet.data.preprocessing import ZCA_EPSILON, Preprocessing, fit_preprocessing

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (200, 3, 5, 4), dtype=np.uint8)
NUMBERS = RNG.normal(3.0, 7.0, (200, 6)).astype(np.float32)


def fit(steps: tuple[str, ...], inputs: np.ndarray, full_scale: float = 255.0) -> Preprocessing:
    def batches() -> Iterator[torch.Tensor]:
        return iter(torch.from_numpy(inputs).split(33))

    return fit_preprocessing(steps, full_scale, batches)


def applied(steps: tuple[str, ...], inputs: np.ndarray) -> np.ndarray:
    return fit(steps, inputs).apply(torch.from_numpy(inputs)).numpy()


def close(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_scale() -> None:
    close(applied(("scale",), IMAGES), IMAGES.astype(np.float64) / 255)


def test_standardise_channels() -> None:
    exact = IMAGES.astype(np.float64)
    mean, std = exact.mean((0, 2, 3), keepdims=True), exact.std((0, 2, 3), keepdims=True)
    close(applied(("standardise",), IMAGES), (exact - mean) / std)


def test_standardise_features_and_leave_constant_ones_centred() -> None:
    numbers = NUMBERS.copy()
    numbers[:, 2] = 5.0
    exact = numbers.astype(np.float64)
    std = exact.std(0)
    std[2] = 1.0
    close(applied(("standardise",), numbers), (exact - exact.mean(0)) / std)


def test_standardise_numbers_far_from_zero() -> None:
    numbers = (1e6 + RNG.normal(0, 1, (500, 2))).astype(np.float32)
    exact = numbers.astype(np.float64)
    np.testing.assert_allclose(applied(("standardise",), numbers).std(0), 1, rtol=1e-3)
    np.testing.assert_allclose(applied(("standardise",), numbers), (exact - exact.mean(0)) / exact.std(0), atol=0.1)


def gcn(exact: np.ndarray) -> np.ndarray:
    flat = exact.reshape(len(exact), -1)
    return ((flat - flat.mean(1, keepdims=True)) / np.maximum(flat.std(1, keepdims=True), 1e-8)).reshape(exact.shape)


def test_gcn_is_of_each_sample_and_survives_a_blank_one() -> None:
    images = IMAGES.copy()
    images[7] = 9
    close(applied(("gcn",), images), gcn(images.astype(np.float64)))
    assert np.all(applied(("gcn",), images)[7] == 0)


def test_mean_image() -> None:
    exact = IMAGES.astype(np.float64)
    close(applied(("scale", "mean-image"), IMAGES), (exact - exact.mean(0)) / 255)


def test_zca_after_gcn() -> None:
    flat = gcn(IMAGES.astype(np.float64)).reshape(200, -1)
    centred = flat - flat.mean(0)
    variance, directions = np.linalg.eigh(centred.T @ centred / 200)
    whitening = directions @ np.diag(1 / np.sqrt(np.maximum(variance, 0) + ZCA_EPSILON)) @ directions.T
    found = applied(("gcn", "zca"), IMAGES)
    np.testing.assert_allclose(found.reshape(200, -1), centred @ whitening, rtol=1e-3, atol=1e-4)
    spread = found.reshape(200, -1).T @ found.reshape(200, -1) / 200
    expected = directions @ np.diag(variance / (variance + ZCA_EPSILON)) @ directions.T
    np.testing.assert_allclose(spread, expected, atol=1e-3)


def test_raw_inputs_are_left_alone() -> None:
    before = NUMBERS.copy()
    applied(("standardise",), NUMBERS)
    assert np.array_equal(NUMBERS, before)


def test_statistics_come_from_the_training_rows_alone(tmp_path: object) -> None:
    x, y = RNG.normal(0, 1, (300, 4)).astype(np.float32), RNG.integers(0, 3, 300)
    spec = save_arrays(tmp_path, x, y)
    first = load_dataset(spec)
    outside = np.setdiff1d(np.arange(300), first.train.rows.numpy())
    assert len(outside) > 80
    x[outside] = 1e9  # validation and test rows become absurd
    again = load_dataset(save_arrays(tmp_path, x, y))
    for name, value in first.preparation.preprocessing.state.items():
        assert torch.equal(value, again.preparation.preprocessing.state[name]), name
    inside = first.train.rows.numpy()
    exact = x[inside].astype(np.float64)
    mean = first.preparation.preprocessing.state["standardise.mean"].numpy()
    np.testing.assert_allclose(mean, exact.mean(0), rtol=1e-6, atol=1e-7)


def test_regression_targets_too(tmp_path: object) -> None:
    x, y = RNG.normal(0, 1, (300, 4)).astype(np.float32), RNG.normal(50, 9, 300).astype(np.float32)
    first = load_dataset(save_arrays(tmp_path, x, y))
    record = first.preparation.record
    rows = first.train.rows.numpy()
    assert (record.target_mean, record.target_std) == pytest.approx((y[rows].mean(), y[rows].std()), rel=1e-6)
    y[np.setdiff1d(np.arange(300), rows)] = -1e9
    assert load_dataset(save_arrays(tmp_path, x, y)).preparation.record.target_mean == record.target_mean


def save_arrays(folder: object, x: np.ndarray, y: np.ndarray) -> DataSpec:
    np.savez(folder / "set.npz", x=x, y=y)
    return DataSpec(name=str(folder / "set.npz"))


def test_steps_for_images_are_refused_for_numbers(tmp_path: object) -> None:
    spec = save_arrays(tmp_path, NUMBERS, RNG.integers(0, 2, 200))
    with pytest.raises(InputError, match="gcn is for images"):
        load_dataset(spec.model_copy(update={"preprocessing": ("gcn",)}))
