"""Numbers with a large offset keep their differences: they are standardised in float64, wherever a network is trained, used or exported."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

from highwaynet import HighwayClassifier, HighwayRegressor, InputError, RunSpec, evaluate, export, load, train
from highwaynet.data.preprocessing import fit_preprocessing
from highwaynet.exporting.checking import onnx_answer
from support import Highway

OFFSET = 1.7e9
"""Seconds since 1970: float32 knows them to two minutes only."""


def moments(rows: int = 300) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    random = np.random.default_rng(0)
    x = OFFSET + random.uniform(0, 100, (rows, 2))
    return x, np.sin((x[:, 0] - OFFSET) / 15) + (x[:, 1] - OFFSET) / 50


@pytest.mark.parametrize("form", ["array", "frame", "int64", "small"])
def test_estimators_see_the_differences(form: str) -> None:
    x, y = moments(90 if form == "small" else 600)
    given: Any = {"frame": pd.DataFrame(x, columns=["a", "b"]), "int64": x.round().astype(np.int64)}.get(form, x)
    made = HighwayRegressor(random_state=0).fit(given, y)
    assert made.score(given, y) > 0.9
    near = HighwayRegressor(random_state=0).fit(x - OFFSET, y)
    if form in {"array", "frame"}:
        np.testing.assert_allclose(made.predict(given), near.predict(x - OFFSET), atol=0.05)


def test_the_run_the_onnx_file_and_the_torch_program_answer_alike(tmp_path: Path) -> None:
    x, y = moments()
    made = HighwayRegressor(random_state=0, epochs=10).fit(x, y)
    expected = made.predict(x)
    assert np.std(expected) > 0.3, "the answers differ from row to row"
    run = made.save(tmp_path / "run")
    np.testing.assert_allclose(load(run).predict(x), expected, atol=1e-5)
    exported = export(run, tmp_path / "file.onnx")
    assert exported.about["inputs"] == {"features": "float64 (batch, 2)"}
    np.testing.assert_allclose(onnx_answer(exported.path.read_bytes())({"features": x})["prediction"], expected, atol=1e-4)
    program = torch.export.load(export(run, tmp_path / "file.pt2", "torch").path)
    with torch.no_grad():
        np.testing.assert_allclose(program.module()({"features": torch.from_numpy(x)})["prediction"].numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_the_command_sees_them_too(dtype: str, tmp_path: Path, highway: Highway) -> None:
    x, y = moments()
    x = x.round() if dtype == "int64" else x
    np.savez(tmp_path / "set.npz", x=x.astype(dtype), y=(y > np.median(y)).astype(int))
    done = highway("train", "--data", "set.npz", "--out", "run", "--epochs", "30")
    assert done.returncode == 0, done.stderr
    model = load(tmp_path / "run")
    assert model.data.exact
    assert (model.predict(x) == (y > np.median(y))).mean() > 0.85
    np.save(tmp_path / "new.npy", x.astype(dtype))
    answers = highway("predict", "run", "new.npy", "--csv").stdout.splitlines()[1:]
    assert [line.split(",")[1] for line in answers] == model.predict(x).astype(str).tolist()
    refused = highway("explore", "run", "--out", "page.html")
    assert (refused.returncode, "feature 1 has values around 1.7e+09 that differ by about" in refused.stderr) == (2, True)


def test_float32_arrays_stay_float32(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)
    spec = RunSpec.for_data((x, x[:, 0] > 0), training={"epochs": 2})
    run = train(spec, tmp_path / "run", data=(x, x[:, 0] > 0))
    model = load(run)
    assert not model.data.exact
    assert model.preparation.preprocessing.state["standardise.mean"].dtype is torch.float32
    np.testing.assert_array_equal(model.predict_proba(x.astype(np.float64)), model.predict_proba(x))
    assert export(run, tmp_path / "file.onnx").about["inputs"] == {"features": "float32 (batch, 3)"}


def test_a_run_of_an_earlier_version_still_finds_its_data(tmp_path: Path) -> None:
    """Its data were stored as float64 and trained on as float32."""
    x = np.random.default_rng(0).normal(size=(120, 3))
    narrow = (x.astype(np.float32), x[:, 0])
    run = train(RunSpec.for_data(narrow, training={"epochs": 2}), tmp_path / "run", data=narrow)
    assert evaluate(run, data=(x, x[:, 0])).loss == evaluate(run, data=narrow).loss


def test_a_constant_feature_with_a_large_value_is_centred_only() -> None:
    x = torch.full((3000, 1), 1.7e9 + 1 / 3, dtype=torch.float64)
    fitted = fit_preprocessing(("standardise",), 1.0, lambda: iter(x.split(1000)))
    assert fitted.state["standardise.inverse_std"].tolist() == [1.0]
    assert fitted.apply(x).abs().max() == 0


def test_values_beyond_float32_are_refused() -> None:
    x, y = moments(120)
    made = HighwayClassifier(random_state=0, epochs=1).fit(np.column_stack([x, np.zeros(120)]) - OFFSET, y > 0)
    with pytest.raises(ValueError, match="too large for dtype"):
        made.predict(np.array([[1e39, 0, 0]]))
    tiny = HighwayClassifier(random_state=0, epochs=1).fit(np.linspace(0, 1e-9, 120)[:, None], np.arange(120) > 50)
    with pytest.raises(ValueError, match="too far from the data in fit"):
        tiny.predict(np.array([[1e38]]))


def test_a_run_refuses_values_that_standardising_makes_infinite(tmp_path: Path) -> None:
    tiny = HighwayClassifier(random_state=0, epochs=1).fit(np.linspace(0, 1e-9, 120)[:, None], np.arange(120) > 50)
    with pytest.raises(InputError, match="a value is too far from the training data"):
        load(tiny.save(tmp_path / "run")).predict(np.array([[1e38]]))
