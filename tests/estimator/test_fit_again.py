"""A second `fit`: warm starts with other data, fits that fail, weights of classes, the search for a depth."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from highwaynet import HighwayClassifier, HighwayRegressor
from highwaynet.training.divergence import DivergenceError

QUICK: dict[str, Any] = {"depth": 3, "width": 8, "epochs": 2, "random_state": 0}


def rows(count: int = 120, features: int = 3) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(count, features))


def with_gaps(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.arange(x.size).reshape(x.shape) % 7 == 0, np.nan, x)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ((rows(), rows()[:, 0]), (rows(), rows()[:, :2]), "y has 2 targets, and the first fit had 1: fit with warm_start=False"),
        ((rows(), rows()[:, :2]), (rows(), rows()[:, 0]), "y has 1 targets, and the first fit had 2"),
        ((rows(), rows()[:, 0]), (rows(features=4), rows()[:, 0]), "X has 4 features, but HighwayRegressor is expecting 3"),
        ((rows(), rows()[:, 0]), (with_gaps(rows()), rows()[:, 0]), "NaN in column 0 .*, and the data in fit had no gaps: fill it"),
        (
            (rows(), rows()[:, 0]),
            (np.array([["a", "b", "c"]] * 120, dtype=object), rows()[:, 0]),
            "column 'x0': 'a' where the data in fit had numbers",
        ),
        (
            (pd.DataFrame(rows(), columns=["a", "b", "c"]), rows()[:, 0]),
            (pd.DataFrame(rows(), columns=["a", "b", "d"]), rows()[:, 0]),
            "feature names should match",
        ),
    ],
)
def test_a_warm_start_with_other_data_is_one_sentence(first: Any, second: Any, message: str) -> None:
    made = HighwayRegressor(**QUICK, warm_start=True).fit(*first)
    before = made.predict(first[0])
    with pytest.raises(ValueError, match=message) as told:
        made.fit(*second)
    assert "start.run" not in str(told.value)
    np.testing.assert_array_equal(made.predict(first[0]), before)


def test_a_warm_start_without_the_gaps_of_the_first_fit() -> None:
    x, y = rows(), rows()[:, 0]
    made = HighwayRegressor(**QUICK, warm_start=True).fit(with_gaps(x), y)
    np.testing.assert_allclose(made.fit(x, y).predict(x), made.predict(pd.DataFrame(x).to_numpy()))
    assert made.n_features_in_ == 3


@pytest.mark.parametrize("constant", [0, 1], ids=["then varied", "then constant"])
def test_a_warm_start_with_a_constant_target(constant: int) -> None:
    x = rows()
    targets = [np.full(120, 3.0), x[:, 0]]
    made = HighwayRegressor(**QUICK, warm_start=True).fit(x, targets[constant]).fit(x, targets[1 - constant])
    assert made.predict(x).shape == (120,)


def test_a_warm_start_with_other_classes() -> None:
    x = rows()
    made = HighwayClassifier(**QUICK, class_weight="balanced", warm_start=True).fit(x, np.arange(120) % 3)
    made.fit(x, np.arange(120) % 2)
    assert made.predict_proba(x).shape == (120, 3)
    assert np.isfinite(made.predict_proba(x)).all()
    for labels in (np.arange(120) % 4, np.array(["a", "b"] * 60)):
        with pytest.raises(ValueError, match=r"classes that the first fit did not have, \[.*\]: fit with warm_start=False"):
            made.fit(x, labels)
        assert made.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("estimator", [HighwayClassifier, HighwayRegressor])
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(estimator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame(rows(), columns=["a", "b", "c"]).assign(d=["x", "y"] * 60)
    labels = np.array(["no", "yes"] * 60) if estimator is HighwayClassifier else rows()[:, 0]
    made = estimator(**QUICK)
    for failure in (DivergenceError("the loss is no longer finite; lower it"), KeyboardInterrupt()):

        def fail(*args: Any, failure: BaseException = failure, **options: Any) -> None:
            raise failure

        with monkeypatch.context() as patch:
            patch.setattr("highwaynet.estimator.common.train", fail)
            with pytest.raises((ValueError, KeyboardInterrupt)):
                made.fit(frame, labels)
        assert not hasattr(made, "classes_")
        assert not hasattr(made, "n_features_in_")
    made.fit(frame, labels)
    before, attributes = made.predict(frame), set(vars(made))
    other = np.arange(120) % 5
    with monkeypatch.context() as patch:
        patch.setattr("highwaynet.estimator.common.train", fail)
        with pytest.raises(KeyboardInterrupt):
            made.fit(rows(features=7), other)
    np.testing.assert_array_equal(made.predict(frame), before)
    assert (made.n_features_in_, set(vars(made))) == (4, attributes)


def test_looking_inside_does_not_change_the_estimator() -> None:
    x, y = with_gaps(rows()), rows()[:, 0]
    made = HighwayRegressor(**QUICK).fit(x, y)
    before, attributes = made.predict(x), dict(vars(made))
    with pytest.warns(UserWarning, match="fitted without feature names"):
        study = made.inspect(pd.DataFrame(x, columns=["a", "b", "c"]), y)
    assert len(study.gates().mean) == 2
    assert vars(made).keys() == attributes.keys()
    assert all(vars(made)[name] is value for name, value in attributes.items())
    np.testing.assert_array_equal(made.predict(x), before)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    named = HighwayRegressor(**QUICK).fit(frame, y)
    with pytest.raises(ValueError, match="unseen at fit time"):
        named.inspect(frame.rename(columns={"a": "z"}), y)
    np.testing.assert_array_equal(named.predict(frame), before)


def test_weights_of_classes_that_do_not_exist() -> None:
    x, y = rows(), np.array(["no", "yes"] * 60)
    with pytest.raises(ValueError, match="class_weight has the key 'yse', which is not a label in y; the labels are 'no', 'yes'"):
        HighwayClassifier(**QUICK, class_weight={"yse": 3.0}).fit(x, y)
    for wrong in ("balancd", [1.0, 2.0], {"no": -1.0}, {"no": float("nan")}, {"no": "much"}):
        with pytest.raises(ValueError, match="class_weight"):
            HighwayClassifier(**QUICK, class_weight=wrong).fit(x, y)
    one = HighwayClassifier(**QUICK, class_weight={"yes": 3.0}).fit(x, y).predict_proba(x)
    np.testing.assert_array_equal(one, HighwayClassifier(**QUICK, class_weight={"yes": 3, "no": 1}).fit(x, y).predict_proba(x))
    more = {"yes": 3.0, "no": 1.0, "perhaps": 2.0}  # a fold of cross-validation may lack a class
    np.testing.assert_array_equal(one, HighwayClassifier(**QUICK, class_weight=more).fit(x, y).predict_proba(x))


@pytest.mark.parametrize(("count", "options"), [(60, {}), (200, {"early_stopping": False})], ids=["small", "no validation part"])
def test_depth_auto_searches_without_a_validation_part(count: int, options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from highwaynet.estimator import common

    asked: list[tuple[int, float, float]] = []
    right = common.train

    def noted(spec: Any, path: Any, **given: Any) -> Any:
        asked.append((spec.network.depth, spec.data.validation, spec.training.epochs))
        return right(spec, path, **given)

    monkeypatch.setattr(common, "train", noted)
    monkeypatch.setattr("highwaynet.training.depth_search.train", noted)
    x = rows(count)
    made = HighwayClassifier(depth="auto", width=8, epochs=30, random_state=0, **options).fit(x, x[:, 0] > 0)
    *trials, last = asked
    assert [depth for depth, _, _ in trials][:3] == [2, 5, 10]
    share, epochs = (0.25, 30) if count < 100 else (0.1, 15)
    assert {(validation, length) for _, validation, length in trials} == {(share, epochs)}
    assert last == (made.depth_, 0.0, 30)
    assert made.depth_ in {depth for depth, _, _ in trials}
    again = HighwayClassifier(depth=made.depth_, width=8, epochs=30, random_state=0, **options).fit(x, x[:, 0] > 0)
    np.testing.assert_array_equal(again.predict_proba(x), made.predict_proba(x))


def test_depth_auto_with_too_few_samples_says_so() -> None:
    for x, y in ((rows(4), [0, 1, 2, 3]), (rows(2), [0, 1])):
        with pytest.raises(ValueError, match=r"depth = 'auto': depths cannot be compared with so few samples \(\d\); choose a depth"):
            HighwayClassifier(depth="auto").fit(x, y)
