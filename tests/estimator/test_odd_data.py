"""Data and parameters as people have them, and mistakes, each with one sentence."""

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, StackingRegressor, VotingClassifier
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import cross_val_predict, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from highwaynet import HighwayClassifier, HighwayRegressor

QUICK: dict[str, Any] = {"depth": 2, "width": 8, "epochs": 2, "random_state": 0}
NUMBERS: NDArray[np.float64] = np.random.default_rng(0).normal(size=120)
LABELS = (NUMBERS > 0).astype(int)
FRAME = pd.DataFrame({"a": NUMBERS, "k": ["u", "v", "w"] * 40})


@pytest.mark.parametrize(
    "column",
    [
        pd.array(["x", None, "y"] * 40, dtype="string"),
        pd.array([True, None, False] * 40, dtype="boolean"),
        pd.array([1, None, 3] * 40, dtype="Int64"),
        pd.array([1.5, None, 3.0] * 40, dtype="Float64"),
        pd.Categorical([1, 2, 3] * 40),
        pd.date_range("2020", periods=120, freq="h", tz="Europe/Berlin"),
        pd.to_timedelta(np.arange(120), unit="h"),
        pd.period_range("2020-01", periods=120, freq="M"),
        [Decimal("1.5"), Decimal("2.5"), None] * 40,
        [date(2020, 1, 1), date(2021, 1, 1), None] * 40,
    ],
    ids=lambda column: str(getattr(column, "dtype", type(column[0]).__name__)),
)
def test_columns_of_all_kinds(column: Any) -> None:
    frame = FRAME.assign(column=column)
    made = HighwayRegressor(**QUICK).fit(frame, NUMBERS)
    assert np.isfinite(made.predict(frame)).all()
    with_objects = frame.astype(object).to_numpy()
    assert np.isfinite(HighwayRegressor(**QUICK).fit(with_objects, NUMBERS).predict(with_objects)).all()


def test_gaps_of_pandas_and_dates_in_arrays() -> None:
    gaps = np.array([[1.0, pd.NA], [2.0, 3.0]] * 60, dtype=object)
    assert HighwayClassifier(**QUICK).fit(gaps, LABELS).predict(gaps).shape == (120,)
    days = pd.date_range("2020", periods=120).to_numpy()[:, None]
    assert HighwayClassifier(**QUICK).fit(days, LABELS).predict(days).shape == (120,)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array([-5, 100, 7])[np.arange(120) % 3], [-5, 7, 100]),
        (LABELS.astype(bool), [False, True]),
        (LABELS.astype(float), [0.0, 1.0]),
        (np.array(["", "a"])[LABELS], ["", "a"]),
        (pd.Series(pd.Categorical(np.array(["u", "v"])[LABELS])), ["u", "v"]),
    ],
)
def test_labels_of_all_kinds(y: Any, classes: list[Any]) -> None:
    made = HighwayClassifier(**QUICK).fit(FRAME, y)
    assert made.classes_.tolist() == classes
    assert set(made.predict(FRAME).tolist()) <= set(classes)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("rows", [6, 120])
def test_one_row_of_each_class(rows: int) -> None:
    x = np.random.default_rng(0).normal(size=(rows, 3))
    made = HighwayClassifier(**QUICK).fit(x, np.arange(rows))
    assert made.predict_proba(x).shape == (rows, rows)
    if rows > 100:
        with pytest.raises(ValueError, match="selects none of 120 samples"):
            HighwayClassifier(**QUICK, early_stopping=True).fit(x, np.arange(rows))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            np.array(["a", None] * 60, dtype=object),
            "^y is missing in 60 of 120 rows, first in row 1 .counted from 0.: leave these rows out",
        ),
        (np.array(["a", "b", np.nan] * 40, dtype=object), "y is missing in 40 of 120 rows, first in row 2"),
        (["a", "b", float("nan")] * 40, "y is missing in 40 of 120 rows, first in row 2"),
        (pd.Series(["a", None, "b"] * 40, dtype="category"), "y is missing in 40 of 120 rows, first in row 1"),
        (pd.Series(["a", None, "b"] * 40, dtype="string"), "y is missing in 40 of 120 rows, first in row 1"),
        (pd.Series([1, 2, None] * 40, dtype="Int64"), "y is missing in 40 of 120 rows, first in row 2"),
        (pd.Series(pd.to_datetime(["2020", "2021", None] * 40)), "y is missing in 40 of 120 rows, first in row 2"),
        (np.where(LABELS == 1, np.nan, 1.0), f"y is missing in {LABELS.sum()} of 120 rows, first in row 0"),
        (
            np.array([1, "a"] * 60, dtype=object),
            "^y mixes texts and other values, for instance 'a' in row 1 and 1 in row 0 .counted from 0.",
        ),
        (pd.Series(["a", "b", 7] * 40, dtype="category"), "y mixes texts and other values, for instance 'a' in row 0 and 7 in row 2"),
        (["a", "b", 7.5] * 40, "y mixes texts and other values, for instance 'a' in row 0 and 7.5 in row 2"),
        (np.column_stack([LABELS, LABELS]), "y should be a 1d array"),
    ],
)
def test_labels_that_are_refused(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HighwayClassifier(**QUICK).fit(FRAME, y)


def test_inputs_that_are_refused() -> None:
    with pytest.raises(TypeError, match="Sparse data was passed for X, but dense data is required"):
        HighwayClassifier(**QUICK).fit(scipy.sparse.csr_matrix(np.eye(120)), LABELS)
    with pytest.raises(ValueError, match="X is a dict: pass a data frame or an array instead"):
        HighwayClassifier(**QUICK).fit({"a": NUMBERS}, LABELS)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"early_stopping": "yes"}, "early_stopping = 'yes': should be True, False or 'auto'"),
        ({"validation_fraction": 0.0, "early_stopping": True}, "validation_fraction = 0.0: should be a number above 0"),
        ({"validation_fraction": "x"}, "validation_fraction = 'x'"),
        ({"n_jobs": 0}, "n_jobs = 0: should be None or a whole number other than 0"),
        ({"warm_start": "x"}, "warm_start = 'x': should be True or False"),
        ({"settings": 3}, "settings = 3: should be None or a mapping"),
        ({"settings": {"training": 3}}, "settings = .*: should be None or a mapping"),
        ({"settings": {"data": {"ignore": ["a"]}}}, "settings has data.ignore, which is for files: X and y are the data"),
        ({"dropout": "a"}, "dropout = 'a': should be None or a number"),
        ({"width": 8.5}, "network.width = 8.5: should be a valid integer"),
        ({"epochs": 0}, "training.epochs = 0: should be at least 1"),
    ],
)
def test_parameters_that_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HighwayClassifier(**QUICK | parameters).fit(FRAME, LABELS)


def test_meta_estimators() -> None:
    numbers = ColumnTransformer([("n", StandardScaler(), ["a"]), ("k", "passthrough", ["k"])]).set_output(transform="pandas")
    assert make_pipeline(numbers, HighwayClassifier(**QUICK)).fit(FRAME, LABELS).predict(FRAME).shape == (120,)
    made = HighwayClassifier(**QUICK).fit(FRAME, LABELS)
    assert cross_val_predict(made, FRAME, LABELS, cv=2, method="predict_proba").shape == (120, 2)
    assert permutation_importance(made, FRAME, LABELS, n_repeats=2, n_jobs=2).importances_mean.shape == (2,)
    assert learning_curve(made, FRAME, LABELS, cv=2, train_sizes=[0.2, 1.0])[1].shape == (2, 2)
    assert partial_dependence(made, FRAME, ["a"], grid_resolution=5)["average"].shape == (1, 5)
    assert partial_dependence(made, FRAME, ["k"], categorical_features=["k"])["average"].shape == (1, 3)
    assert VotingClassifier([("a", made), ("b", made)], voting="soft").fit(FRAME, LABELS).predict(FRAME).shape == (120,)
    x = NUMBERS[:, None]
    assert BaggingClassifier(made, n_estimators=2).fit(x, LABELS, sample_weight=np.arange(120.0)).predict(x).shape == (120,)
    regressor = HighwayRegressor(**QUICK)
    assert StackingRegressor([("a", regressor), ("b", regressor)], cv=2).fit(x, NUMBERS).predict(x).shape == (120,)
    logarithm = TransformedTargetRegressor(regressor, func=np.log1p, inverse_func=np.expm1)
    assert (logarithm.fit(x, np.abs(NUMBERS)).predict(x) > -1).all()


def test_truth_values_where_numbers_were() -> None:
    x = pd.DataFrame({"a": [0, 1] * 60, "b": np.arange(120.0)})
    model = HighwayClassifier(epochs=2, random_state=0).fit(x, [0, 1] * 60)
    np.testing.assert_array_equal(model.predict_proba(x.astype({"a": bool})), model.predict_proba(x))


def test_dates_in_arrays_do_not_depend_on_their_unit() -> None:
    dates = np.array(["2020-01-01", "2021-05-05", "2019-03-04"] * 40, "M8[ns]")[:, None]
    model = HighwayClassifier(epochs=1, random_state=0).fit(dates, [0, 1, 1] * 40)
    np.testing.assert_array_equal(model.predict_proba(dates.astype("M8[D]")), model.predict_proba(dates))
