"""Tables 1 to 3 and the 2016 report's, judged on accuracies that were written by hand."""

from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, drawn, evaluation, evidence_of, found, judge, mnist_spec, verdicts
from highwaynet.experiments.claims import Claim
from highwaynet.experiments.evidence import Evidence
from highwaynet.experiments.report_2016 import REPORT_2016
from highwaynet.experiments.tables import TABLE1, TABLE2, TABLE3, as_in_paper
from highwaynet.runs.spec import with_training

Accuracies = dict[str, list[float | None]]


def table(folder: Path, accuracies: Accuracies, epochs: int = 30) -> Evidence:
    """Runs with these test accuracies in percent, seed by seed; None is one that diverged."""
    fakes, specs = {}, {}
    for label, values in accuracies.items():
        for seed, value in enumerate(values, start=101):
            fakes[f"{label}-{seed}"] = DIVERGED if value is None else Fake([1.0] * epochs, records=evaluation(value / 100))
            specs[f"{label}-{seed}"] = with_training(mnist_spec(), epochs=epochs).model_copy(update={"seed": seed})
    return evidence_of(folder, fakes, specs=specs)


def test_best_mean_and_standard_deviation() -> None:
    assert as_in_paper([99.0, 98.0, 97.0]) == "99.00 (98.00 ± 1.00), 3 seeds", "of a sample: divided by 2"


SHORT, LOW = "not reached", "differs"


@pytest.mark.parametrize(
    ("claim", "accuracies", "expected"),
    [
        (TABLE1, {"w16": [99.39, 99.41], "w32": [99.53], "w16-released": [99.29]}, ["reproduced", SHORT]),
        (TABLE1, {"w16": [99.39], "w32": [99.54]}, [SHORT, "reproduced"]),
        (TABLE1, {"w16-released": [99.30] * 5}, ["not run", "not run"]),
        (TABLE2, {"highway-a": [89.17], "highway-b": [92.28], "highway-c": [90.19]}, [SHORT, "reproduced", SHORT]),
        (TABLE2, {"highway-a": [89.18, 89.18, 89.18]}, ["reproduced", "not run", "not run"]),
        (TABLE3, {"cifar-10": [92.31], "cifar-100": [67.60]}, ["reproduced", SHORT]),
        (
            REPORT_2016,
            {"highway-a": [85.49], "highway-b": [85.34], "resnet-20": [86.49], "resnet-32": [83.86], "resnet-44": [10.0]},
            ["reproduced", "reproduced", "reproduced", SHORT, "reproduced"],
        ),
        (REPORT_2016, {"highway-a": [85.49], "resnet-20": [86.50]}, ["reproduced", "not run", "reproduced", "not run", LOW]),
        (REPORT_2016, {"highway-a": [86.51], "resnet-20": [85.50]}, ["reproduced", "not run", "reproduced", "not run", LOW]),
        (REPORT_2016, {"highway-a": [85.49]}, ["reproduced", "not run", "not run", "not run", "not run"]),
    ],
)
def test_means_are_held_against_the_paper(claim: Claim, accuracies: Accuracies, expected: list[str], tmp_path: Path) -> None:
    record = judge(claim, table(tmp_path, accuracies))
    assert list(verdicts(record).values()) == expected


@pytest.mark.parametrize(
    ("claim", "accuracies", "budget"),
    [
        (TABLE1, {"w16": [99.3], "w32": [99.5]}, 300),
        (TABLE2, {"highway-a": [89.0], "highway-b": [92.0], "highway-c": [91.0]}, 400),
        (TABLE3, {"cifar-10": [92.0], "cifar-100": [67.0]}, 400),
    ],
)
def test_below_the_paper_s_mean_the_budget_decides(claim: Claim, accuracies: Accuracies, budget: int, tmp_path: Path) -> None:
    assert judge(claim, table(tmp_path / "short", accuracies, budget - 1)).verdict == "not reached"
    record = judge(claim, table(tmp_path / "long", accuracies, budget))
    assert record.verdict == "differs"
    assert all(f"fewer than {budget} epochs" in rule.text for rule in record.rules)


def test_numbers_stand_beside_the_paper_s(tmp_path: Path) -> None:
    record = judge(TABLE1, table(tmp_path, {"w16": [99.35, 99.45, 99.40], "w32": [99.44]}))
    rows = {row.what: (row.paper, row.here) for row in record.rows}
    assert rows["16 wide, 12,345 parameters"] == ("99.43 (99.40 ± 0.03)", "99.45 (99.40 ± 0.05), 3 seeds, 30 epochs")
    assert rows["32 wide, 12,345 parameters"] == ("99.55 (99.54 ± 0.02)", "99.44, 1 seed, 30 epochs")
    assert not any("released" in what for what in rows), "what is not judged is shown where it was run"
    assert rows["DSN, 350,000 parameters, as reported"] == ("99.61", "")
    assert found(record, "16 wide") == "99.45 (99.40 ± 0.05), 3 seeds, 30 epochs"
    assert record.verdict == "1 of 2 reproduced"
    assert [rule.seeds for rule in record.rules] == [3, 1]


def test_a_seed_that_diverged_is_not_left_out_of_the_mean(tmp_path: Path) -> None:
    evidence = table(tmp_path, {"w16": [None, 99.9, 99.9], "w32": [None]})
    assert drawn(TABLE1, evidence) == ["table1"]
    record = judge(TABLE1, evidence)
    assert verdicts(record) == {
        "16 wide": "not reached",
        "32 wide": "not reached",
    }
    assert found(record, "16 wide") == "99.90 (99.90 ± 0.00), 2 seeds, 1 diverged, 30 epochs"
    assert found(record, "32 wide") == "1 diverged"
    rows = {row.what: row.here for row in record.rows}
    assert rows["16 wide, 12,345 parameters"] == "99.90 (99.90 ± 0.00), 2 seeds, 1 diverged, 30 epochs"
    assert rows["32 wide"] == "1 diverged"


@pytest.mark.parametrize("lost", [["highway-a"], ["resnet-20"], ["highway-a", "resnet-20"]])
def test_networks_that_diverged_are_not_alike(lost: list[str], tmp_path: Path) -> None:
    accuracies: Accuracies = {label: [None if label in lost else 86.0] for label in ("highway-a", "resnet-20")}
    record = judge(REPORT_2016, table(tmp_path, accuracies))
    assert verdicts(record)["alike"] == "differs"
    assert "1 diverged" in found(record, "alike")
