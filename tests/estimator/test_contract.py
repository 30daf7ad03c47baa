"""All checks of scikit-learn's `check_estimator`, unmodified, with default and with unusual parameters."""

import warnings
from typing import Any

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

from highwaynet import HighwayClassifier, HighwayRegressor

ESTIMATORS = {
    "classifier": HighwayClassifier(),
    "regressor": HighwayRegressor(),
    "unusual classifier": HighwayClassifier(
        depth=6,
        width=24,
        epochs=60,
        learning_rate=0.02,
        batch_size=20,
        dropout=0.2,
        early_stopping=True,
        class_weight="balanced",
    ),
    "unusual regressor": HighwayRegressor(
        depth=3,
        width=24,
        epochs=60,
        learning_rate=0.02,
        weight_decay=0.0,
        early_stopping=False,
        settings={"network": {"activation": "relu"}},
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_all_checks_of_scikit_learn_pass(name: str) -> None:
    estimator: Any = ESTIMATORS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)  # the array API is checked only if an environment variable asks for it
        warnings.simplefilter("ignore", RuntimeWarning)  # scikit-learn casts NaN to whole numbers in one of its own checks
        results = check_estimator(estimator, on_fail=None)
    wrong = {one["check_name"]: one["exception"] for one in results if one["status"] not in {"passed", "skipped"}}
    assert wrong == {}
    assert {one["check_name"] for one in results if one["status"] == "skipped"} <= {"check_array_api_input"}
    assert sum(one["status"] == "passed" for one in results) > 50
