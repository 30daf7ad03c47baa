"""Figure 1, judged on curves that were written by hand."""

import math
from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, drawn, evidence_of, found, judge, mnist_spec, verdicts
from highwaynet.experiments.evidence import Evidence
from highwaynet.experiments.optimisation import FIG1

DEPTHS = (10, 20, 50, 100)
PAPER = {"highway": (2e-5, 1e-5, 3e-5, 5e-5), "plain": (9e-5, 5e-5, 5e-3, 0.2)}
RIGHT = {"highway": (2e-4, 1e-4, 3e-4, 5e-4), "plain": (9e-4, 5e-4, 5e-2, 0.2)}
Ends = dict[str, tuple[float, ...]]


def curve(end: float, epochs: int = 20) -> Fake:
    """A loss that falls evenly on a log axis from 1 to its end."""
    return Fake([end ** (epoch / epochs) for epoch in range(1, epochs + 1)])


def evidence(folder: Path, left: Ends = PAPER, right: Ends = RIGHT, seeds: tuple[int, ...] = (101,), lost: int = 0) -> Evidence:
    """Best runs and ten best of 12 with these ends; infinite ones diverged at once, and as many of the 12 as are lost."""
    fakes, specs = {}, {}
    for kind in ("highway", "plain"):
        for place, depth in enumerate(DEPTHS):
            for seed in seeds:
                ends = {f"left-{kind}-{depth}-0-{seed}": left[kind][place]}
                # Around their mean, so that mean and median, and mean and best, differ; the last two are not among the ten best.
                shares = [0.5] * 9 + [5.5, 6.0, 7.0]
                ends |= {f"right-{kind}-{depth}-{rank}-{seed}": right[kind][place] * share for rank, share in enumerate(shares)}
                ends |= {f"right-{kind}-{depth}-{11 - rank}-{seed}": math.inf for rank in range(lost)}
                for label, end in ends.items():
                    fakes[label] = DIVERGED if math.isinf(end) else curve(end)
                    rate = 0.01 * (1 + int(label.split("-")[3]))
                    spec = mnist_spec(name=f"fc-{kind}", depth=depth).model_copy(update={"seed": seed})
                    specs[label] = spec.model_copy(update={"training": spec.training.model_copy(update={"learning_rate": rate})})
    return evidence_of(folder, fakes, specs=specs)


def test_the_paper_s_own_curves_are_reproduced(tmp_path: Path) -> None:
    everything = evidence(tmp_path)
    assert drawn(FIG1, everything) == ["fig1"]
    record = judge(FIG1, everything)
    assert set(verdicts(record).values()) == {"reproduced"}
    assert record.verdict == "reproduced"
    assert {rule.seeds for rule in record.rules} == {1}
    assert found(record, "plain, shallow") == "plain-10 9.00e-05, plain-20 5.00e-05"
    assert found(record, "100 layers") == "highway-100 5.00e-05, plain-100 0.200: 4,000 times"
    assert found(record, "ten best, highway") == "highway-10 2.00e-04, highway-20 1.00e-04, highway-50 3.00e-04, highway-100 5.00e-04"
    rows = {row.what: (row.paper, row.here) for row in record.rows}
    assert rows["plain-100, best run, lowest training loss"] == ("1.8e-01 (2021 report's repository)", "0.200")
    assert rows["highway-20, best run, lowest training loss"][0] == "only drawn"
    assert rows["highway-50, mean of the ten best runs' lowest training losses"] == ("only drawn", "3.00e-04")


@pytest.mark.parametrize(
    ("kind", "ends", "rule", "verdict"),
    [
        ("plain", (9.9e-5, 9.9e-5, 5e-3, 0.2), "plain, shallow", "reproduced"),
        ("plain", (9e-5, 1e-4, 5e-3, 0.2), "plain, shallow", "differs"),
        ("plain", (math.inf, 5e-5, 5e-3, 0.2), "plain, shallow", "differs"),
        ("plain", (9e-5, 5e-5, 5.1e-4, 0.2), "plain, deep", "reproduced"),
        ("plain", (9e-5, 5e-5, 4.9e-4, 0.2), "plain, deep", "differs"),
        ("plain", (9e-5, 5e-5, 5e-3, math.inf), "plain, deep", "differs"),
        ("highway", (2e-5, 1e-5, 3e-5, 9.9e-5), "highway, all depths", "reproduced"),
        ("highway", (2e-5, 1e-5, 3e-5, 1.1e-4), "highway, all depths", "differs"),
        ("highway", (2e-5, 1e-5, math.inf, 3e-5), "highway, all depths", "differs"),
        ("highway", (2e-5, 1e-5, 3e-5, 1.9e-3), "100 layers", "reproduced"),
        ("highway", (2e-5, 1e-5, 3e-5, 2.1e-3), "100 layers", "differs"),
        ("plain", (9e-5, 5e-5, 5e-3, math.inf), "100 layers", "differs"),
    ],
)
def test_rules_of_the_best_runs_at_their_borders(kind: str, ends: tuple[float, ...], rule: str, verdict: str, tmp_path: Path) -> None:
    assert verdicts(judge(FIG1, evidence(tmp_path, PAPER | {kind: ends})))[rule] == verdict


@pytest.mark.parametrize(
    ("right", "rule", "verdict"),
    [
        ({"highway": (2e-4, 1e-4, 3e-4, 9.9e-4)}, "ten best, highway", "reproduced"),
        ({"highway": (2e-4, 1e-4, 3e-4, 1.1e-3)}, "ten best, highway", "differs"),
        ({"plain": (9e-4, 5e-4, 5e-2, 5.1e-3)}, "ten best, 100 layers", "reproduced"),
        ({"plain": (9e-4, 5e-4, 5e-2, 4.9e-3)}, "ten best, 100 layers", "differs"),
    ],
)
def test_rules_of_the_ten_best_at_their_borders(right: Ends, rule: str, verdict: str, tmp_path: Path) -> None:
    assert verdicts(judge(FIG1, evidence(tmp_path, right=RIGHT | right)))[rule] == verdict


def test_runs_that_diverged_are_not_among_the_ten_best(tmp_path: Path) -> None:
    ten = judge(FIG1, evidence(tmp_path / "two", lost=2))
    assert verdicts(ten)["ten best, highway"] == verdicts(ten)["ten best, 100 layers"] == "reproduced"
    nine = evidence(tmp_path / "three", lost=3)
    record = judge(FIG1, nine)
    assert verdicts(record)["ten best, highway"] == verdicts(record)["ten best, 100 layers"] == "differs"
    assert found(record, "ten best, 100 layers") == "highway-100 only 9 of 10 runs left, plain-100 only 9 of 10 runs left"
    ((_, caption),) = FIG1.draw(nine).values()
    assert "On the right fewer than ten runs are left of highway-10 (9), " in caption


def test_several_seeds(tmp_path: Path) -> None:
    runs = list(evidence(tmp_path, seeds=(101, 102, 103)))
    for run in runs:
        if run.label.endswith("-102") and run.label.startswith(("right-highway-100", "left-highway-100")):
            run.__dict__["history"] = [epoch.model_copy(update={"train_loss": 0.5}) for epoch in run.history]
    record = judge(FIG1, Evidence("laptop", runs))
    assert set(verdicts(record).values()) == {"reproduced"}, "the best run counts, and two of three seeds"
    assert {rule.seeds for rule in record.rules} == {3}
    assert found(record, "100 layers") == "highway-100 5.00e-05, plain-100 0.200: 4,000 times"
    assert found(record, "ten best, 100 layers") == "with 2 of 3 seeds: highway-100 5.00e-04 (5.00e-04 to 0.500), plain-100 0.190"
    for run in runs:
        if run.label.endswith("-103") and run.label.startswith("right-highway-100"):
            run.status = "diverged"
    record = judge(FIG1, Evidence("laptop", runs))
    assert verdicts(record)["ten best, 100 layers"] == "differs"
    assert found(record, "ten best, 100 layers") == "with 1 of 3 seeds: highway-100 only 0 of 10 runs left, plain-100 0.190"


def test_labels_of_older_records_have_no_seed(tmp_path: Path) -> None:
    fakes = {
        f"left-{kind}-{depth}-{number}": curve(PAPER[kind][place])
        for kind in PAPER
        for place, depth in enumerate(DEPTHS)
        for number in (1, 2)
    }
    fakes |= {
        f"right-{kind}-{depth}-{rank}": curve(RIGHT[kind][place])
        for kind in PAPER
        for place, depth in enumerate(DEPTHS)
        for rank in range(10)
    }
    assert judge(FIG1, evidence_of(tmp_path, fakes)).verdict == "reproduced"


def test_what_was_not_run_is_not_judged(tmp_path: Path) -> None:
    left = [run for run in evidence(tmp_path) if run.label.startswith("left")]
    record = judge(FIG1, Evidence("laptop", left))
    assert record.verdict == "4 of 6 reproduced"
    assert [verdicts(record)[name] for name in ("ten best, highway", "ten best, 100 layers")] == ["not run", "not run"]
    assert drawn(FIG1, Evidence("laptop", left)) == ["fig1"]
    record = judge(FIG1, Evidence("laptop", [run for run in left if "plain" not in run.label]))
    assert verdicts(record)["plain, deep"] == verdicts(record)["100 layers"] == "not run"
    assert verdicts(record)["highway, all depths"] == "reproduced"


def test_runs_that_diverged_do_not_count_as_good(tmp_path: Path) -> None:
    lost = (math.inf,) * 4
    everything = evidence(tmp_path, {"highway": lost, "plain": lost}, {"highway": lost, "plain": lost})
    assert drawn(FIG1, everything) == ["fig1"]
    record = judge(FIG1, everything)
    assert record.verdict == "differs"
    assert found(record, "100 layers") == "highway-100 diverged, plain-100 diverged"
    assert {row.here for row in record.rows} == {"diverged", "only 0 of 10 runs left"}


def test_a_setting_that_diverged_beside_a_better_one_is_named(tmp_path: Path) -> None:
    runs = list(evidence(tmp_path))
    spare = evidence_of(tmp_path, {"left-highway-50-1-101": DIVERGED})
    both = Evidence("laptop", [*runs, *spare])
    record = judge(FIG1, both)
    assert verdicts(record)["highway, all depths"] == "reproduced", "the best run counts, as in the paper"
    assert "highway-50 3.00e-05 (1 of 2 diverged), highway-100" in found(record, "highway, all depths")
    ((_, caption),) = FIG1.draw(both).values()
    assert caption.endswith("On the left 1 of 9 runs diverged; the best one of each network is drawn.")


def test_a_loss_of_nothing_is_no_error(tmp_path: Path) -> None:
    full = evidence(tmp_path)
    for run in full:
        if run.label.startswith("left-highway-100"):
            run.__dict__["history"] = [run.history[0].model_copy(update={"train_loss": 0.0})]
    assert drawn(FIG1, full) == ["fig1"]
    record = judge(FIG1, full)
    assert verdicts(record)["100 layers"] == "reproduced"
    assert verdicts(record)["highway, all depths"] == "differs"


def test_at_scale_paper_both_panels_choose_from_all(tmp_path: Path) -> None:
    ends = [1e-3 * 2**rank for rank in range(12)]
    fakes = {f"all-{kind}-{depth}-{trial}-101": curve(ends[trial - 1]) for kind in PAPER for depth in DEPTHS for trial in range(12, 0, -1)}
    record = judge(FIG1, evidence_of(tmp_path, fakes, "paper"))
    rows = {row.what: row.here for row in record.rows}
    assert rows["plain-50, best run, lowest training loss"] == "0.00100"
    assert rows["plain-50, mean of the ten best runs' lowest training losses"] == "0.102", "of the ten lowest, (2¹⁰ − 1) · 1e-3 / 10"


def test_smoke_is_not_judged(tmp_path: Path) -> None:
    labels = [f"{panel}-{kind}-{depth}-{rank}-1" for panel in ("left", "right") for kind in PAPER for depth in (10, 20) for rank in (0, 1)]
    record = judge(FIG1, evidence_of(tmp_path, dict.fromkeys(labels, curve(1e-6)), "smoke"))
    assert record.verdict == "not judged"
    assert set(verdicts(record).values()) == {"not judged"}
    assert {row.paper for row in record.rows} == {"only drawn"}
