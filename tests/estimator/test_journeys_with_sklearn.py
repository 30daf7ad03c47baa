"""What people do with an estimator: pipelines, searches, calibration, data frames, weights, saving, looking inside."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import highwaynet
from highwaynet import HighwayClassifier, HighwayRegressor, InputError, evaluate, load
from support import Highway

SMALL: dict[str, Any] = {"depth": 3, "width": 16, "epochs": 30, "learning_rate": 0.02, "random_state": 0}


@pytest.fixture(scope="module")
def iris() -> tuple[NDArray[Any], NDArray[Any]]:
    x, y = load_iris(return_X_y=True)
    return x, y


@pytest.fixture(scope="module")
def fitted(iris: tuple[NDArray[Any], NDArray[Any]]) -> HighwayClassifier:
    return HighwayClassifier(**SMALL).fit(*iris)


def people(rows: int = 160) -> tuple[pd.DataFrame, NDArray[Any]]:
    """A data frame with numbers, gaps, categories, truth values and dates."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 80, rows).astype(float),
            "city": random.choice(["Bern", "Basel", "Lugano"], rows),
            "member": random.random(rows) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 999, rows), unit="D"),
        }
    )
    spends = 10 * frame["age"] + 300 * (frame["city"] == "Bern") + 100 * frame["member"]
    frame.loc[::9, "age"] = np.nan
    frame["city"] = frame["city"].astype("category")
    return frame, spends.to_numpy()


def test_probabilities_are_float64_and_sum_to_one(fitted: HighwayClassifier, iris: tuple[NDArray[Any], NDArray[Any]]) -> None:
    x, y = iris
    found = fitted.predict_proba(x)
    assert (found.dtype, found.shape) == (np.dtype(np.float64), (150, 3))
    np.testing.assert_allclose(found.sum(1), 1, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(fitted.classes_[found.argmax(1)], fitted.predict(x))
    assert fitted.score(x, y) > 0.9
    assert (fitted.n_features_in_, fitted.depth_, list(fitted.classes_)) == (4, 3, [0, 1, 2])


def test_equal_seeds_give_equal_networks_and_torch_is_left_alone(iris: tuple[NDArray[Any], NDArray[Any]]) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    one, two, other = (
        HighwayClassifier(**SMALL | {"random_state": seed, "epochs": 3}).fit(*iris).predict_proba(iris[0]) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_pickle_clone_and_copy_give_the_same_answers(fitted: HighwayClassifier, iris: tuple[NDArray[Any], NDArray[Any]]) -> None:
    expected = fitted.predict_proba(iris[0])
    for same in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        np.testing.assert_array_equal(same.predict_proba(iris[0]), expected)
    np.testing.assert_array_equal(clone(fitted).fit(*iris).predict_proba(iris[0]), expected)


def test_pipeline_grid_search_in_two_processes_and_calibration(iris: tuple[NDArray[Any], NDArray[Any]]) -> None:
    x, y = iris
    pipeline = make_pipeline(MinMaxScaler(), HighwayClassifier(**SMALL))
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.9
    search = GridSearchCV(HighwayClassifier(**SMALL), {"depth": [2, 3], "dropout": [0.0, 0.1]}, cv=2, n_jobs=2).fit(x, y)
    assert search.best_estimator_.depth_ in {2, 3}
    assert search.best_score_ > 0.85
    alone = GridSearchCV(HighwayClassifier(**SMALL), {"depth": [2, 3], "dropout": [0.0, 0.1]}, cv=2).fit(x, y)
    np.testing.assert_array_equal(alone.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])
    calibrated = CalibratedClassifierCV(HighwayClassifier(**SMALL), cv=2).fit(x, y)
    assert calibrated.score(x, y) > 0.9


def test_frames_with_categories_gaps_and_dates() -> None:
    frame, spends = people()
    made = HighwayRegressor(random_state=0, epochs=60, learning_rate=0.01).fit(frame, spends)
    assert list(made.feature_names_in_) == ["age", "city", "member", "since"]
    assert made.score(frame, spends) > 0.7
    known = frame.head(3).assign(city=["Bern", "Bern", None])
    assert np.isfinite(made.predict(known)).all()
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.predict(frame), made.predict(frame))
    with pytest.raises(ValueError, match="seen at fit time, yet now missing"):
        made.predict(frame.drop(columns="city"))
    with pytest.raises(ValueError, match="unseen at fit time"):
        made.predict(frame.rename(columns={"city": "town"}))
    with pytest.raises(ValueError, match=r"column 'age', row 2: 'old' where the training data had numbers"):
        made.predict(frame.assign(age=["5", "old", *["7"] * 158]))


def test_arrays_with_texts_and_gaps() -> None:
    frame, spends = people(120)
    rows = frame[["age", "city"]].astype(object).to_numpy()
    made = HighwayRegressor(**SMALL).fit(rows, spends)
    assert made.n_features_in_ == 2
    assert made.predict(rows[:5]).shape == (5,)
    numbers = np.where(np.arange(400).reshape(100, 4) % 7 == 0, np.nan, np.random.default_rng(0).normal(size=(100, 4)))
    labels = np.where(np.nan_to_num(numbers[:, 0]) > 0, "yes", "no")
    classifier = HighwayClassifier(**SMALL).fit(numbers, labels)
    assert classifier.score(numbers, labels) > 0.8
    assert list(classifier.classes_) == ["no", "yes"]


def test_several_targets_one_of_them_constant(iris: tuple[NDArray[Any], NDArray[Any]]) -> None:
    x, _ = iris
    targets = np.column_stack([x[:, 0] * 100, x[:, 1] - 7, np.full(len(x), 4.0)])
    made = HighwayRegressor(**SMALL | {"epochs": 60}).fit(x, targets)
    found = made.predict(x)
    assert found.shape == (150, 3)
    assert made.score(x[:, :], targets) > 0.5
    np.testing.assert_allclose(found[:, 2], 4.0, atol=0.5)
    assert made.fit(x, targets[:, :1]).predict(x).shape == (150, 1)
    constant = HighwayRegressor(**SMALL).fit(x, np.full(150, 3.0))
    np.testing.assert_allclose(constant.predict(x), 3.0, atol=0.2)


@pytest.mark.parametrize("table", [False, True], ids=["array", "frame"])
def test_weights_count_like_repeated_rows_in_small_sets(table: bool) -> None:
    frame, spends = people(30)
    counts = np.random.default_rng(3).integers(0, 4, 30)
    chosen = frame if table else np.nan_to_num(frame[["age"]].to_numpy())
    chosen, repeated = (chosen, chosen.loc[frame.index.repeat(counts)]) if table else (chosen, chosen.repeat(counts, axis=0))
    weighted = HighwayRegressor(random_state=0, epochs=40).fit(chosen, spends, sample_weight=counts)
    twice = HighwayRegressor(random_state=0, epochs=40).fit(repeated, spends.repeat(counts))
    np.testing.assert_allclose(weighted.predict(chosen), twice.predict(chosen), rtol=1e-7)


def test_weights_matter_in_large_sets_and_classes_can_have_weights() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 2))
    y = (x[:, 0] + random.normal(size=400) > 0).astype(int)
    plain = HighwayClassifier(**SMALL).fit(x, y).predict(x).mean()
    heavy = HighwayClassifier(**SMALL).fit(x, y, sample_weight=np.where(y == 1, 10.0, 1.0)).predict(x).mean()
    light = HighwayClassifier(**SMALL, class_weight={0: 10.0}).fit(x, y).predict(x).mean()
    assert light < plain - 0.1 < plain + 0.1 < heavy


def test_a_warm_start_continues(iris: tuple[NDArray[Any], NDArray[Any]]) -> None:
    x, y = iris
    made = HighwayClassifier(**SMALL | {"epochs": 2}, warm_start=True).fit(x, y)
    first = made.predict_proba(x)
    made.set_params(epochs=15).fit(x, y)
    assert made.score(x, y) > (first.argmax(1) == y).mean() - 0.05
    cold = HighwayClassifier(**SMALL | {"epochs": 15}).fit(x, y)
    assert (made.predict_proba(x) != cold.predict_proba(x)).any()
    with pytest.raises(ValueError, match="classes that the first fit did not have"):
        made.fit(x, y + 1)


def test_depth_auto_is_the_search_of_the_command(iris: tuple[NDArray[Any], NDArray[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, float]] = []

    def find(spec: Any, data: Any, **options: Any) -> Any:
        asked.append((spec.network.name, spec.data.validation))
        return spec.model_copy(update={"network": spec.network.model_copy(update={"depth": 5})})

    monkeypatch.setattr("highwaynet.estimator.common.find_depth", find)
    made = HighwayClassifier(**SMALL | {"depth": "auto", "epochs": 2}).fit(*iris)
    assert (made.depth_, asked) == (5, [("fc-highway", 0.1)])


def test_an_estimator_is_a_run_for_the_other_commands(
    fitted: HighwayClassifier, iris: tuple[NDArray[Any], NDArray[Any]], tmp_path: Path, highway: Highway
) -> None:
    x, y = iris
    run = fitted.save(tmp_path / "run")
    np.testing.assert_allclose(load(run).predict_proba(x), fitted.predict_proba(x), atol=1e-6)
    np.testing.assert_array_equal(load(run).predict(x), fitted.predict(x))
    assert evaluate(run, "train", data=fitted._source(x, y, None, follows=True)).accuracy == pytest.approx(fitted.score(x, y), abs=0.03)
    with pytest.raises(InputError, match="no test part"):
        evaluate(run, data=fitted._source(x, y, None, follows=True))
    np.save(tmp_path / "new.npy", x[:3].astype(np.float32))
    asked = highway("predict", run.path, tmp_path / "new.npy", "--csv")
    assert (asked.returncode, asked.stdout.count("\n")) == (0, 4), asked.stderr
    with pytest.raises(InputError, match=r"run already exists: name another folder, or replace it with overwrite=True$"):
        fitted.save(tmp_path / "run")
    with pytest.raises(InputError, match=r"already exists: name another folder$"):
        fitted.save(tmp_path)
    with pytest.raises(InputError, match=r"run already exists: name another folder, or replace it with overwrite=True$"):
        load(fitted.save(tmp_path / "second")).save(tmp_path / "run")
    fitted.save(tmp_path / "run", overwrite=True)


def test_gates_and_lesions_of_an_estimator(fitted: HighwayClassifier, iris: tuple[NDArray[Any], NDArray[Any]]) -> None:
    study = fitted.inspect(*iris)
    assert len(study.gates().mean) == 2, "two highway layers"
    assert len(study.lesions().closed) == 2
    assert study.score("train").accuracy == pytest.approx(fitted.score(*iris), abs=0.03)
    for x, y in ((iris[0] + 1, iris[1]), (iris[0][:50:2], iris[1][::6]), (iris[0], iris[1][::-1])):
        with pytest.raises(ValueError, match=r"^X and y are not those of fit: give inspect the data that the network was fitted with"):
            fitted.inspect(x, y)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((10, 2)), np.zeros(10), "y has one class only"),
        (np.zeros((0, 2)), np.zeros(0), r"0 sample\(s\)"),
        (pd.DataFrame({"a": []}), np.zeros(0), r"0 sample\(s\)"),
        (np.full((10, 2), np.inf), np.arange(10) % 2, "infinity"),
        (np.zeros((10, 2)), np.arange(9) % 2, "inconsistent numbers of samples"),
        (pd.DataFrame({"a": [None] * 10}), np.arange(10) % 2, "no column is left to predict from"),
    ],
)
def test_bad_data_are_value_errors_of_one_sentence(x: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HighwayClassifier(epochs=1).fit(x, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"depth": 0}, "network.depth"),
        ({"dropout": 1.5}, "network.dropout"),
        ({"settings": {"training": {"speed": 3}}}, "speed"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, Any], message: str, iris: tuple[NDArray[Any], NDArray[Any]]) -> None:
    with pytest.raises(ValueError, match=message):
        HighwayClassifier(epochs=1, **parameters).fit(*iris)


def test_a_network_that_diverges_says_what_to_change() -> None:
    x = np.random.default_rng(0).normal(size=(300, 3))
    with pytest.raises(ValueError, match=r"no longer finite .*; choose a lower learning_rate"):
        HighwayRegressor(learning_rate=1e6, epochs=20, settings={"network": {"activation": "identity"}}).fit(x, x[:, 0])


def test_the_names_are_offered_without_loading_scikit_learn() -> None:
    assert {"HighwayClassifier", "HighwayRegressor"} <= set(highwaynet.__all__)


def test_columns_are_used_whatever_they_look_like() -> None:
    rows = np.arange(300)
    frame = pd.DataFrame({"t": rows, "c": ["a", "b"] * 150})
    assert HighwayClassifier(random_state=0).fit(frame, rows > 150).score(frame, rows > 150) > 0.95
    same = pd.DataFrame({"flag": rows % 3 == 0, "c": ["a", "b"] * 150})
    assert HighwayClassifier(random_state=0).fit(same, rows % 3 == 0).score(same, rows % 3 == 0) > 0.98
    named = pd.DataFrame({"name": [f"person {row}" for row in rows], "c": ["a", "b"] * 150})
    letters = np.array(["a", "b"] * 150)
    assert HighwayClassifier(random_state=0).fit(named, letters).score(named, letters) > 0.98


def test_grids_of_numpy_numbers() -> None:
    x = np.random.default_rng(0).normal(size=(60, 3))
    search = GridSearchCV(HighwayClassifier(epochs=2), {"depth": np.arange(2, 4), "width": [np.int64(8)]}, cv=2)
    assert search.fit(x, x[:, 0] > 0).best_params_["depth"] in {2, 3}
