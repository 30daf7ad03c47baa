"""Figures 2 to 4, judged on records that were written by hand."""

from pathlib import Path

import numpy as np
import pytest

from experiments.fakes import DIVERGED, Fake, drawn, evidence_of, found, gates, judge, lesions, routing, verdicts
from highwaynet.analysis.analysis_records import GatesRecord, LesionsRecord, RoutingRecord
from highwaynet.experiments.claim_records import ClaimRecord
from highwaynet.experiments.claims import Claim
from highwaynet.experiments.figures_2_to_4 import FIG2, FIG3, FIG4, change_within, rank_correlation


def judged_gates(folder: Path, mnist: GatesRecord, cifar: GatesRecord) -> ClaimRecord:
    return judge(FIG2, evidence_of(folder, {"mnist": Fake(records={"gates": mnist}), "cifar-100": Fake(records={"gates": cifar})}))


def judged_routes(folder: Path, mnist: RoutingRecord, cifar: RoutingRecord) -> ClaimRecord:
    return judge(FIG3, evidence_of(folder, {"mnist": Fake(records={"routing": mnist}), "cifar-100": Fake(records={"routing": cifar})}))


def judged_lesions(folder: Path, mnist: LesionsRecord, cifar: LesionsRecord) -> ClaimRecord:
    return judge(FIG4, evidence_of(folder, {"mnist": Fake(records={"lesions": mnist}), "cifar-100": Fake(records={"lesions": cifar})}))


def test_ranks() -> None:
    assert rank_correlation(np.array([0.1, 0.2, 5.0, 70.0])) == 1
    assert rank_correlation(np.array([4.0, 3.0, 2.0])) == -1
    assert rank_correlation(np.full(9, 3.0)) == 0, "equal numbers have no order"
    assert rank_correlation(np.array([1.0, 1.0, 2.0, 2.0])) == pytest.approx(2 / np.sqrt(5)), "ties share their mean rank"


def test_the_share_of_change() -> None:
    outputs = np.array([[0.0, 0.0], [1.0, -1.0], [1.0, -1.0], [1.5, -1.0]])
    assert change_within(outputs, 2) == pytest.approx(2 / 2.5)
    assert change_within(outputs, 1) == 0
    assert change_within(outputs, 4) == 1
    assert change_within(np.ones((4, 2)), 2) == 0, "nothing changes"


def test_figure_2_as_in_the_paper(tmp_path: Path) -> None:
    record = judged_gates(tmp_path, gates(), gates(first=40, early=0.95))
    assert set(verdicts(record).values()) == {"reproduced"}
    assert (
        found(record, "MNIST: stripes")
        == "90.00\u00a0% of the change from layer to layer lies in the first 15 of 49 layers, 21.86 times as much in a step there "
        "as in a later one"
    )
    assert found(record, "CIFAR-100: depth") == "biases +1.00, activity −1.00"


def test_figure_2_otherwise(tmp_path: Path) -> None:
    cifar = gates(rises=False, fell=0.5, opened=0, active=1 / 3, first=40, early=0.5)
    record = judged_gates(tmp_path, gates(fell=0.4, opened=200, active=0.4, early=0.2), cifar)
    assert set(verdicts(record).values()) == {"not reproduced", "partly"}
    assert {name for name, verdict in verdicts(record).items() if verdict == "partly"} == {"CIFAR-100: sparse"}, "sparse, for all samples"


def test_figure_2_in_part(tmp_path: Path) -> None:
    record = judged_gates(tmp_path, gates(opened=2, active=0.5, early=0.6), gates(opened=200, first=40, early=0.88))
    assert verdicts(record)["MNIST: sparse"] == "partly"
    assert verdicts(record)["MNIST: stripes"] == "partly", "three times as much in each, less than two thirds"
    assert verdicts(record)["CIFAR-100: sparse"] == "partly"
    assert verdicts(record)["CIFAR-100: stripes"] == "partly", "88 %, but evenly would be 81 %"


def test_figure_3(tmp_path: Path) -> None:
    good = judged_routes(tmp_path / "good", routing(), routing(early=0.3))
    assert good.verdict == "reproduced"
    assert found(good, "MNIST: routes").startswith(
        "with every gate held at its mean the training accuracy falls from 90.00\u00a0% to 50.00"
    )
    assert found(good, "MNIST: where").startswith("90.00\u00a0% of the squared differences of classes 0 and 7 lie in the first 15 layers")
    bad = judged_routes(tmp_path / "bad", routing(static=0.85, early=0.5 - 1e-3), routing(static=0.81, early=0.6))
    assert set(verdicts(bad).values()) == {"not reproduced"}


def test_figure_4(tmp_path: Path) -> None:
    record = judged_lesions(tmp_path / "good", lesions([*range(1, 15), *range(46, 50)]), lesions(range(1, 38)))
    assert set(verdicts(record).values()) == {"partly"}, "the measure was chosen after seeing the curve"
    assert found(record, "MNIST: idle layers").startswith(
        "idle are 31 of 49 layers (63.27\u00a0%), and 31 of the 31 layers 15–45; without a layer the loss is 10 times the intact one in "
        "the median of layers 1–9, 1.0 times in that of 15–45 (of 49 layers 31 within 1.01"
    )
    assert found(record, "CIFAR-100: busy layers").startswith("removing one hurts for 37 of the first 40 layers and for 0 of the last 9; ")


@pytest.mark.parametrize(
    ("busy", "mnist"),
    [
        (range(1, 19), "partly"),  # the right share
        (range(1, 7), "partly"),  # the right place, too many
        (range(15, 33), "not reproduced"),  # the right share, at the wrong place
        ((), "not reproduced"),  # no layer matters
        (range(1, 50), "not reproduced"),
    ],
)
def test_idle_layers(busy: range, mnist: str, tmp_path: Path) -> None:
    assert verdicts(judged_lesions(tmp_path, lesions(busy), lesions(())))["MNIST: idle layers"] == mnist


@pytest.mark.parametrize(("count", "late", "cifar"), [(36, 9, "partly"), (35, 9, "not reproduced"), (35, 0, "partly")])
def test_busy_layers(count: int, late: int, cifar: str, tmp_path: Path) -> None:
    busy = [*range(1, count + 1), *range(41, 41 + late)]
    assert verdicts(judged_lesions(tmp_path, lesions(()), lesions(busy)))["CIFAR-100: busy layers"] == cifar


def test_a_network_without_any_loss(tmp_path: Path) -> None:
    record = judged_lesions(tmp_path, lesions((), intact=0.0), lesions((), intact=0.0))
    assert verdicts(record) == {"MNIST: idle layers": "not reproduced", "CIFAR-100: busy layers": "not reproduced"}


@pytest.mark.parametrize("claim", [FIG2, FIG3, FIG4], ids=lambda claim: claim.name)
def test_runs_that_diverged(claim: Claim, tmp_path: Path) -> None:
    record = judge(claim, evidence_of(tmp_path / "both", {"mnist": DIVERGED, "cifar-100": DIVERGED}))
    assert record.verdict == "not reproduced"
    assert {rule.found for rule in record.rules} == {"the run diverged"}
    answers = {"gates": gates(), "routing": routing(), "lesions": lesions([*range(1, 15), *range(46, 50)])}
    one = evidence_of(tmp_path / "one", {"mnist": Fake(records=answers), "cifar-100": Fake((1.0,), finished=False)})
    record = judge(claim, one)
    assert record.verdict == "partly"
    assert {rule.verdict for rule in record.rules if rule.name.startswith("MNIST")} == {"partly" if claim is FIG4 else "reproduced"}
    assert drawn(claim, one) == [f"{claim.name}-mnist"]
