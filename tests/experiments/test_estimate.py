"""How long runs will take."""

import time
from typing import Any

import pytest

from highwaynet.data.record import DataRecord
from highwaynet.experiments import estimate as module
from highwaynet.experiments.claims import Run
from highwaynet.experiments.estimate import Clock, estimate, seconds_of
from highwaynet.experiments.keys import key_of
from highwaynet.experiments.registry import CLAIMS
from highwaynet.experiments.specs import run_spec
from highwaynet.runs.spec import RunSpec, with_training
from support import small_spec


def timed(monkeypatch: pytest.MonkeyPatch, *moments: float) -> Clock:
    """A clock that saw a run begin at 0 and steps end at these moments."""
    times = iter([0.0, *moments])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(times))
    clock = Clock()
    clock.started(DataRecord.model_construct(train=100), 0, 0)
    for _ in moments:
        clock.step(10)
    return clock


def test_first_steps_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed(monkeypatch, 5.0, 6.0, 7.0, 7.1, 7.2).seconds == pytest.approx(0.1)


@pytest.mark.parametrize(("moments", "seconds"), [((), 0.0), ((2.0,), 2.0), ((2.0, 3.0), 1.5), ((2.0, 3.0, 3.3), 1.1)])
def test_unless_there_are_no_others(moments: tuple[float, ...], seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed(monkeypatch, *moments).seconds == pytest.approx(seconds)


def test_steps_are_timed_on_the_loop_itself() -> None:
    spec = small_spec()
    before = time.perf_counter()
    step, steps = seconds_of(spec)
    assert 0 < step < time.perf_counter() - before
    assert steps == 21, "1,294 training samples in batches of 64"


def test_a_run_that_diverges_can_be_timed() -> None:
    spec = run_spec({"name": "fc-plain", "depth": 30, "width": 12, "activation": "relu", "init": "he"}, "digits", {"learning_rate": 1e5})
    step, steps = seconds_of(spec)
    assert 0 <= step < 60
    assert steps == 41


@pytest.mark.parametrize(("crop", "asked"), [(0, (1, 2)), (2, (6, 9))])
def test_a_teacher_costs_less_if_it_is_asked_once(crop: int, asked: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "seconds_of", lambda spec: (3.0 if spec.network.depth == 9 else 1.0, 1))
    network, training = {"name": "fc-plain", "width": 8}, {"epochs": 6, "crop": crop}
    teacher = Run("teacher", run_spec(network | {"depth": 9}, "digits", training))
    for section, early, times in (({}, 0, asked[0]), ({"hints": "3:2", "hint_epochs": 3}, 3, asked[1])):
        student = run_spec(network | {"depth": 5}, "digits", training, 1, {"run": key_of(teacher.spec)} | section)
        expected = 1.15 * (6 + early + times * 3.0 / 3)
        assert estimate([(Run("student", student, (), teacher), 6 + early)], 1) == pytest.approx(expected)


def test_runs_of_a_kind_are_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[RunSpec] = []

    def two_seconds_an_epoch(spec: RunSpec) -> tuple[float, int]:
        asked.append(spec)
        return 0.5, 4

    monkeypatch.setattr(module, "seconds_of", two_seconds_an_epoch)
    spec, said = small_spec(), []
    other = with_training(spec, batch_size=16)
    left: Any = [(Run("a", spec), 10), (Run("b", spec.model_copy(update={"seed": 7})), 30), (Run("c", other), 20)]
    assert estimate(left, 1, said.append) == pytest.approx(1.15 * 2 * 60)
    assert asked == [spec, other]
    assert said == ["timing a few steps of each kind of network"]
    assert estimate(left, 2) == pytest.approx(1.15 * 2 * 30)
    assert estimate(left, 9) == pytest.approx(1.15 * 2 * 30), "the longest run takes as long as it takes"
    assert estimate([], 2, said.append) == 0
    assert len(said) == 1
    known: dict[str, float] = {}
    asked.clear()
    assert estimate(left, 1, said.append, known) == estimate(left, 1, said.append, known) == pytest.approx(1.15 * 2 * 60)
    assert (asked, len(said)) == ([spec, other], 2), "what is known is not timed again"
    asked.clear()
    estimate([(run, 1) for run in CLAIMS["initialisation"].plan("laptop", None)], 1)
    assert len(asked) == 3, "activations cost time, weights at the start do not"
