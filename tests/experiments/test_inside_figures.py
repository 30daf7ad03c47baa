"""Figures 2 to 4, judged on records that were written by hand."""

from pathlib import Path

import numpy as np
import pytest

from experiments.fakes import DIVERGED, Fake, drawn, evidence_of, found, gates, judge, lesions, routing, verdicts
from highwaynet.analysis.analysis_records import GatesRecord, LesionsRecord, RoutingRecord
from highwaynet.experiments.claim_records import ClaimRecord
from highwaynet.experiments.claims import Claim
from highwaynet.experiments.evidence import Evidence
from highwaynet.experiments.figure_2 import FIG2, change_within, rank_correlation
from highwaynet.experiments.figures_3_and_4 import FIG3, FIG4, half_of_the_squares


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


def test_the_gates_that_hold_half_of_the_differences() -> None:
    assert half_of_the_squares(np.array([[1.0, 0.0], [0.0, 0.0]])) == 0.25
    assert half_of_the_squares(np.array([3.0, 1.0, 1.0, 1.0])) == 0.25, "exactly half"
    assert half_of_the_squares(np.array([2.9, 1.0, 1.0, 1.0])) == 0.5


def differing(record: ClaimRecord) -> set[str]:
    assert set(verdicts(record).values()) <= {"reproduced", "differs"}
    return {name for name, verdict in verdicts(record).items() if verdict == "differs"}


CIFAR_GATES = gates(first=40, early=0.95, everywhere=0.005)


def test_figure_2_as_in_the_paper(tmp_path: Path) -> None:
    record = judged_gates(tmp_path, gates(), CIFAR_GATES)
    assert record.verdict == "reproduced"
    assert len(record.rules) == 11
    assert (
        found(record, "MNIST: stripes")
        == "90.00\u00a0% of the change lies in the first 15 layers, 21.86 times as much in a step there as in a later one"
    )
    assert found(record, "CIFAR-100: biases rise") == "rank correlation +1.00"
    assert found(record, "CIFAR-100: activity falls") == "rank correlation −1.00"
    assert found(record, "CIFAR-100: sparser") == "MNIST 1.00\u00a0%, CIFAR-100 0.50\u00a0%"


@pytest.mark.parametrize(
    ("mnist", "cifar", "differ"),
    [
        (gates(fell=0.5), CIFAR_GATES, {"MNIST: biases"}),
        (gates(opened=29), CIFAR_GATES, set()),
        (gates(opened=30), CIFAR_GATES, {"MNIST: one sample"}),
        (gates(active=0.5), CIFAR_GATES, {"MNIST: on average"}),
        (gates(early=0.66), CIFAR_GATES, {"MNIST: stripes"}),
        (gates(early=0.67), CIFAR_GATES, set()),
        (gates(), gates(first=40, early=0.88, everywhere=0.005), {"CIFAR-100: stripes"}),  # 88 %, but evenly would be 81 %
        (gates(), gates(first=40, early=0.95, everywhere=0.01), {"CIFAR-100: sparser"}),
        (
            gates(),
            gates(fell=5 / 6, active=5 / 6, first=40, early=0.95, everywhere=0.005, rises=False),
            {"CIFAR-100: biases rise", "CIFAR-100: activity falls"},
        ),
    ],
)
def test_figure_2_at_the_borders(mnist: GatesRecord, cifar: GatesRecord, differ: set[str], tmp_path: Path) -> None:
    assert differing(judged_gates(tmp_path, mnist, cifar)) == differ


def test_figure_3_as_in_the_paper(tmp_path: Path) -> None:
    good = judged_routes(tmp_path, routing(), routing(early=0.3, sparse=True))
    assert good.verdict == "reproduced"
    assert found(good, "MNIST: routes").startswith("with every gate at its mean the training accuracy falls from 90.00\u00a0% to 50.00")
    assert found(good, "MNIST: where") == "90.00\u00a0% of the squared differences lie in the first 15 layers (evenly: 30.61\u00a0%)"
    assert found(good, "CIFAR-100: where") == "first third 34.12\u00a0%, second 32.94\u00a0%, last 32.94\u00a0%"


@pytest.mark.parametrize(
    ("mnist", "cifar", "differ"),
    [
        (routing(static=0.81), routing(early=0.3, sparse=True), {"MNIST: routes"}),
        (routing(static=0.79), routing(early=0.3, sparse=True), set()),
        (routing(early=0.49), routing(early=0.3, sparse=True), {"MNIST: where"}),
        (routing(), routing(early=0.6, sparse=True), set()),  # 18.8 % in the last third
        (routing(), routing(early=0.7, sparse=True), {"CIFAR-100: where"}),  # 14.1 %
        (routing(), routing(early=0.3), {"CIFAR-100: sparser"}),
    ],
)
def test_figure_3_at_the_borders(mnist: RoutingRecord, cifar: RoutingRecord, differ: set[str], tmp_path: Path) -> None:
    assert differing(judged_routes(tmp_path, mnist, cifar)) == differ


def test_figure_4_as_in_the_paper(tmp_path: Path) -> None:
    record = judged_lesions(tmp_path / "good", lesions([*range(1, 15), *range(46, 50)]), lesions(range(1, 38)))
    assert record.verdict == "reproduced"
    assert found(record, "MNIST: idle layers") == "31 of 49 layers are idle (63.27\u00a0%), and 31 of the 31 layers 15–45"
    assert found(record, "MNIST: early layers") == "10 times the intact loss without one of the layers 1–9, 1.0 times without one of 15–45"
    assert found(record, "CIFAR-100: busy layers") == "it hurts for 37 of the first 40 layers, and for 0 of the last 9"
    assert [row.here for row in record.rows] == ["31, 31, 31, 31 of 49", "12, 12, 12, 12 of 49"]


MNIST_BUSY, CIFAR_BUSY = lesions(range(1, 19)), lesions(range(1, 41))


@pytest.mark.parametrize(
    ("mnist", "cifar", "differ"),
    [
        (lesions(range(1, 27)), CIFAR_BUSY, set()),  # 23 of 49 are idle
        (lesions(range(1, 29)), CIFAR_BUSY, {"MNIST: idle layers"}),  # 21
        (lesions(range(1, 14)), CIFAR_BUSY, set()),  # 36
        (lesions(range(1, 13)), CIFAR_BUSY, {"MNIST: idle layers"}),  # 37
        (lesions(range(15, 33)), CIFAR_BUSY, {"MNIST: early layers"}),  # the right share, at the wrong place
        (lesions(()), CIFAR_BUSY, {"MNIST: idle layers", "MNIST: early layers"}),
        (lesions(range(1, 19), times=2.0), CIFAR_BUSY, {"MNIST: early layers"}),  # twice is not more than twice
        (MNIST_BUSY, lesions(range(1, 37)), set()),
        (MNIST_BUSY, lesions(range(1, 36)), {"CIFAR-100: busy layers"}),
        (MNIST_BUSY, lesions(range(1, 50)), {"CIFAR-100: first layers"}),
    ],
)
def test_figure_4_at_the_borders(mnist: LesionsRecord, cifar: LesionsRecord, differ: set[str], tmp_path: Path) -> None:
    assert differing(judged_lesions(tmp_path, mnist, cifar)) == differ


def test_a_network_without_any_loss(tmp_path: Path) -> None:
    record = judged_lesions(tmp_path, lesions((), intact=0.0), lesions((), intact=0.0))
    assert record.verdict == "differs"


def several(folder: Path, mnist: list[LesionsRecord], cifar: list[LesionsRecord]) -> Evidence:
    groups = {"mnist": mnist, "cifar-100": cifar}
    fakes = {f"{name}-{seed}": Fake(records={"lesions": one}) for name, own in groups.items() for seed, one in enumerate(own, start=101)}
    return evidence_of(folder, fakes)


def test_more_than_half_of_the_seeds(tmp_path: Path) -> None:
    record = judge(FIG4, several(tmp_path / "a", [MNIST_BUSY, MNIST_BUSY, lesions(())], [CIFAR_BUSY] * 2))
    assert record.verdict == "reproduced"
    assert found(record, "MNIST: idle layers").startswith("with 2 of 3 seeds: 31 (31 to 49) of 49 layers are idle (63.27")
    assert [rule.seeds for rule in record.rules] == [3, 3, 2, 2]
    half = judge(FIG4, several(tmp_path / "b", [MNIST_BUSY], [CIFAR_BUSY, lesions(())]))
    assert differing(half) == {"CIFAR-100: busy layers", "CIFAR-100: first layers"}, "half is not more than half"


def test_a_seed_that_diverged_counts_against_the_rule(tmp_path: Path) -> None:
    good = several(tmp_path / "a", [MNIST_BUSY], [CIFAR_BUSY])
    lost = evidence_of(tmp_path / "b", {"mnist-102": DIVERGED})
    record = judge(FIG4, Evidence("laptop", [*good, *lost]))
    assert differing(record) == {"MNIST: idle layers", "MNIST: early layers"}
    assert found(record, "MNIST: idle layers").endswith("of the 31 layers 15–45; 1 diverged")


@pytest.mark.parametrize("claim", [FIG2, FIG3, FIG4], ids=lambda claim: claim.name)
def test_runs_that_diverged_or_are_missing(claim: Claim, tmp_path: Path) -> None:
    record = judge(claim, evidence_of(tmp_path / "both", {"mnist": DIVERGED, "cifar-100": DIVERGED}))
    assert record.verdict == "differs"
    assert {rule.found for rule in record.rules if not rule.name.endswith("sparser")} == {"the run diverged"}
    answers = {"gates": gates(), "routing": routing(), "lesions": lesions([*range(1, 15), *range(46, 50)])}
    one = evidence_of(tmp_path / "one", {"mnist": Fake(records=answers), "cifar-100": Fake((1.0,), finished=False)})
    record = judge(claim, one)
    assert {rule.verdict for rule in record.rules if rule.name.startswith("MNIST")} == {"reproduced"}
    assert {rule.verdict for rule in record.rules if rule.name.startswith("CIFAR")} == {"differs"}
    assert drawn(claim, one) == [f"{claim.name}-mnist"]
    record = judge(claim, evidence_of(tmp_path / "alone", {"mnist-101": Fake(records=answers)}))
    assert {rule.verdict for rule in record.rules if rule.name.startswith("CIFAR")} == {"not run"}
