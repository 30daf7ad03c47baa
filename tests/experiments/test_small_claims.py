"""Small claims, judged on runs that were written by hand."""

from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, drawn, evaluation, evidence_of, found, judge
from highwaynet.experiments.evidence import Evidence
from highwaynet.experiments.small_claims import CARRY, RMSPROP, SUPERVISION

RATES = {"momentum": ("0.01", "0.03", "0.1", "0.3"), "rmsprop": ("0.0001", "0.0003", "0.001", "0.003")}


def optimisers(folder: Path, momentum: list[Fake], rmsprop: list[Fake]) -> Evidence:
    """The runs of one learning rate of each, seed by seed; those of the others end at 2."""
    fakes = {}
    for name, own in (("momentum", momentum), ("rmsprop", rmsprop)):
        for place, rate in enumerate(RATES[name]):
            fakes |= {f"{name}-rate{rate}-{seed}": fake if place == 2 else Fake((2.0,)) for seed, fake in enumerate(own, start=101)}
    return evidence_of(folder, fakes)


def test_labels_are_those_of_the_plan(tmp_path: Path) -> None:
    labels = [run.label for run in optimisers(tmp_path, [Fake()], [Fake()])]
    assert sorted(labels) == sorted(run.label for run in RMSPROP.plan("laptop", 1))
    specs = [run.spec.training for run in RMSPROP.plan("laptop", 1)]
    assert {(spec.optimiser, spec.momentum, spec.epochs) for spec in specs} == {("sgd", 0.9, 10), ("rmsprop", 0.0, 10)}


@pytest.mark.parametrize(
    ("momentum", "rmsprop", "verdict"),
    [
        ([Fake((0.1,))], [Fake((0.2,))], "reproduced"),
        ([Fake((0.1,))], [Fake((0.199,))], "differs"),
        ([Fake((0.1,))], [Fake((0.001, 0.3))], "reproduced"),  # the last epoch counts
        ([Fake((0.1,)), Fake((0.1,)), DIVERGED], [Fake((0.3,)), Fake((0.3,)), Fake((0.01,))], "reproduced"),  # medians
        ([Fake((0.1,)), DIVERGED, DIVERGED], [Fake((0.3,))] * 3, "differs"),
    ],
)
def test_rmsprop(momentum: list[Fake], rmsprop: list[Fake], verdict: str, tmp_path: Path) -> None:
    runs = optimisers(tmp_path, momentum, rmsprop)
    assert judge(RMSPROP, runs).verdict == verdict
    assert drawn(RMSPROP, runs) == ["rmsprop"]


def test_the_best_learning_rate_is_named(tmp_path: Path) -> None:
    record = judge(RMSPROP, optimisers(tmp_path / "a", [Fake((0.1,))], [Fake((0.42,))]))
    assert found(record, "worse by a factor") == "momentum 0.100 (learning rate 0.1), rmsprop 0.420 (learning rate 0.001): 4.2 times"
    assert record.headline == "4.2 times the loss"
    assert len(record.rows) == 8
    lost = evidence_of(tmp_path / "b", dict.fromkeys((run.label for run in RMSPROP.plan("laptop", 1)), DIVERGED))
    assert judge(RMSPROP, lost).verdict == "differs"
    assert drawn(RMSPROP, lost) == ["rmsprop"]
    half = evidence_of(tmp_path / "c", {"momentum-rate0.1-101": Fake((0.1,))})
    assert judge(RMSPROP, half).verdict == "not run"


@pytest.mark.parametrize(
    ("ends", "verdict"), [((0.09, 0.09, 0.2), "reproduced"), ((0.09, 0.1, 0.2), "differs"), ((0.09,), "reproduced"), ((), "not run")]
)
def test_an_independent_carry_gate(ends: tuple[float, ...], verdict: str, tmp_path: Path) -> None:
    fakes = {f"independent-{seed}": Fake((1.0, end)) for seed, end in enumerate(ends, start=101)} | {"coupled-101": Fake((1.0, 0.05))}
    runs = evidence_of(tmp_path, fakes)
    record = judge(CARRY, runs)
    assert record.verdict == verdict
    assert record.headline.endswith("(coupled 0.0500)")
    assert drawn(CARRY, runs) == ["carry"]


def test_carry_gates_of_the_plan() -> None:
    runs = CARRY.plan("laptop", 1)
    assert {run.label: run.spec.network.carry for run in runs} == {"coupled-101": "coupled", "independent-101": "independent"}


@pytest.mark.parametrize(
    ("companions", "without", "verdict"),
    [
        ([99.0, 98.0], [98.6, 98.6], "reproduced"),
        ([99.0, 98.0], [98.5, 98.5], "differs"),
        ([None, 99.0], [60.0, 60.0], "reproduced"),  # a run that diverged has nothing right
        ([11.35], [11.4], "not reached"),  # neither has trained
        ([99.0], [], "not run"),
    ],
)
def test_deep_supervision(companions: list[float | None], without: list[float | None], verdict: str, tmp_path: Path) -> None:
    fakes = {
        f"{label}-rate0.01-{seed}": DIVERGED if value is None else Fake(records=evaluation(value / 100))
        for label, values in (("companions", companions), ("without", without))
        for seed, value in enumerate(values, start=101)
    }
    runs = evidence_of(tmp_path, fakes)
    assert judge(SUPERVISION, runs).verdict == verdict
    assert drawn(SUPERVISION, runs) == ["supervision"]


def test_companions_of_the_plan() -> None:
    runs = SUPERVISION.plan("laptop", 1)
    expected = {f"{name}-rate{rate}-101": name == "companions" for name in ("companions", "without") for rate in ("0.003", "0.01", "0.03")}
    assert {run.label: run.spec.network.deep_supervision for run in runs} == expected
    assert len({run.spec.network.name for run in runs}) == 1
