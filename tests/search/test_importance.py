"""How much each setting matters, on trials made by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from highwaynet.search.importance import FEWEST, importance_of

SPACE = {
    "training.learning_rate": FloatDistribution(0, 1),
    "training.decay": FloatDistribution(0, 1),
    "training.optimiser": CategoricalDistribution(["sgd", "adamw"]),
    "training.momentum": FloatDistribution(0, 1),
}


def trials(count: int, value: Callable[[dict[str, Any]], float], *, conditional: bool = False) -> list[FrozenTrial]:
    """The momentum belongs to sgd alone where it is conditional."""
    random = np.random.default_rng(0)
    made = []
    for number in range(count):
        params: dict[str, Any] = {field: float(random.uniform()) for field in SPACE}
        params["training.optimiser"] = ("sgd", "adamw")[number % 2]
        if conditional and params["training.optimiser"] != "sgd":
            del params["training.momentum"]
        made.append(create_trial(params=params, distributions={field: SPACE[field] for field in params}, value=value(params)))
    return made


def by_rate(params: dict[str, Any]) -> float:
    return abs(params["training.learning_rate"] - 0.5)


@pytest.mark.parametrize("maximises", [False, True])
def test_what_decides_has_the_largest_share(maximises: bool) -> None:
    sign = -1 if maximises else 1
    shares = importance_of(trials(60, lambda params: sign * by_rate(params)), maximises=maximises)
    assert shares is not None
    assert set(shares) == set(SPACE)
    assert next(iter(shares)) == "training.learning_rate"
    assert shares["training.learning_rate"] > 0.6
    assert sum(shares.values()) == pytest.approx(1)


def test_settings_that_some_trials_lack_are_left_out() -> None:
    def value(params: dict[str, Any]) -> float:
        return by_rate(params) + params.get("training.momentum", 0.0)

    shares = importance_of(trials(60, value, conditional=True), maximises=False)
    assert shares is not None
    assert set(shares) == set(SPACE) - {"training.momentum"}
    assert sum(shares.values()) == pytest.approx(1)


def test_pruned_trials_may_lack_a_setting_too() -> None:
    done = trials(40, by_rate)
    pruned = create_trial(
        state=TrialState.PRUNED,
        params={"training.learning_rate": 0.5, "training.decay": 0.5},
        distributions={field: SPACE[field] for field in ("training.learning_rate", "training.decay")},
        intermediate_values={1: 0.5},
    )
    assert set(importance_of([*done, pruned], maximises=False) or {}) == {"training.learning_rate", "training.decay"}


def test_one_setting_is_no_comparison() -> None:
    done = trials(40, by_rate)
    lone = create_trial(params={"training.decay": 0.5}, distributions={"training.decay": SPACE["training.decay"]}, value=0.1)
    assert importance_of([*done, lone], maximises=False) is None


def test_too_few_trials_and_equal_values_say_nothing() -> None:
    assert importance_of([], maximises=False) is None
    assert importance_of(trials(FEWEST - 1, by_rate), maximises=False) is None
    assert importance_of(trials(FEWEST, by_rate), maximises=False) is not None
    assert importance_of(trials(FEWEST, lambda params: 1.0), maximises=False) is None


def test_trials_that_diverged_are_worst() -> None:
    found = importance_of(trials(60, lambda params: by_rate(params) if params["training.decay"] < 0.8 else np.inf), maximises=False)
    assert found is not None
    assert all(np.isfinite(share) for share in found.values())


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
def test_what_optuna_refuses_is_left_out(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise error("no")

    monkeypatch.setattr(optuna.importance, "get_param_importances", refuse)
    assert importance_of(trials(FEWEST, by_rate), maximises=False) is None
