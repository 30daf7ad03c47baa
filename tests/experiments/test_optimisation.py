"""Figure 1 and convergence, judged on curves that were written by hand."""

import math
from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, drawn, evidence_of, found, judge, mnist_spec, verdicts
from highwaynet.experiments.evidence import Evidence
from highwaynet.experiments.optimisation import CONVERGENCE, FIG1

DEPTHS = (10, 20, 50, 100)
PAPER = {"highway": (2e-5, 1e-5, 3e-5, 5e-5), "plain": (9e-5, 5e-5, 5e-3, 0.2)}
RIGHT = {"highway": (2e-4, 1e-4, 3e-4, 5e-4), "plain": (9e-4, 5e-4, 5e-2, 0.2)}


def curve(end: float, epochs: int = 20) -> Fake:
    """A loss that falls evenly on a log axis from 1 to its end."""
    return Fake([end ** (epoch / epochs) for epoch in range(1, epochs + 1)])


def evidence(folder: Path, left: dict[str, tuple[float, ...]] = PAPER, right: dict[str, tuple[float, ...]] = RIGHT) -> Evidence:
    """Best runs and ten best with these ends; infinite ones diverged at once."""
    fakes, specs = {}, {}
    for kind in ("highway", "plain"):
        for place, depth in enumerate(DEPTHS):
            ends = {f"left-{kind}-{depth}-1": left[kind][place]}
            # Around their mean, so that mean and median, and mean and best, differ.
            ends |= {f"right-{kind}-{depth}-{rank}": right[kind][place] * (0.5 if rank < 9 else 5.5) for rank in range(10)}
            for label, end in ends.items():
                fakes[label] = DIVERGED if math.isinf(end) else curve(end)
                specs[label] = mnist_spec(name=f"fc-{kind}", depth=depth)
    return evidence_of(folder, fakes, specs=specs)


def test_the_paper_s_own_curves_are_reproduced(tmp_path: Path) -> None:
    everything = evidence(tmp_path)
    assert drawn(FIG1, everything) == ["fig1"]
    assert drawn(CONVERGENCE, everything) == ["convergence"]
    record = judge(FIG1, everything)
    assert set(verdicts(record).values()) == {"reproduced"}
    assert record.verdict == "reproduced"
    assert found(record, "100 layers") == "highway-100 5.00e-05, plain-100 0.200: 4,000 times"
    assert (
        found(record, "ten best, highway")
        == "highway-10 2.00e-04, highway-20 1.00e-04, highway-50 3.00e-04, highway-100 5.00e-04: 5.0 times the lowest"
    )
    rows = {row.what: (row.paper, row.here) for row in record.rows}
    assert rows["plain-100, best run, lowest training loss"] == ("1.8e-01 (2021 report)", "0.200")
    assert rows["highway-20, best run, lowest training loss"][0] == "only drawn"
    assert rows["highway-50, mean of the 10 best"] == ("only drawn", "3.00e-04")


@pytest.mark.parametrize(
    ("kind", "ends", "rule", "verdict"),
    [
        ("plain", (9e-5, 2e-4, 5e-3, 0.2), "plain, shallow", "partly"),
        ("plain", (2e-4, 2e-4, 5e-3, 0.2), "plain, shallow", "not reproduced"),
        ("plain", (9e-5, 5e-5, 4e-4, 0.2), "plain, deep", "partly"),
        ("plain", (9e-5, 5e-5, 4e-4, 4e-4), "plain, deep", "not reproduced"),
        ("highway", (2e-5, 1e-5, 3e-5, 9e-4), "highway, all depths", "partly"),
        ("highway", (2e-5, 1e-5, 3e-5, 2e-3), "highway, all depths", "not reproduced"),
        ("highway", (2e-5, 1e-5, 3e-5, 0.01), "100 layers", "partly"),
        ("highway", (2e-5, 1e-5, 3e-5, 0.1), "100 layers", "not reproduced"),
    ],
)
def test_each_rule_of_the_best_runs_can_fail(kind: str, ends: tuple[float, ...], rule: str, verdict: str, tmp_path: Path) -> None:
    record = judge(FIG1, evidence(tmp_path, PAPER | {kind: ends}))
    assert verdicts(record)[rule] == verdict
    assert record.verdict == "partly"


@pytest.mark.parametrize(
    ("right", "rule", "verdict"),
    [
        ({"highway": (2e-4, 1e-4, 3e-4, 5e-3)}, "ten best, highway", "partly"),
        ({"highway": (2e-4, 1e-4, 3e-4, 0.05)}, "ten best, highway", "not reproduced"),
        ({"plain": (9e-4, 5e-4, 5e-2, 1e-3)}, "ten best, 100 layers", "partly"),
        ({"plain": (9e-4, 5e-4, 5e-2, 1e-4)}, "ten best, 100 layers", "not reproduced"),
    ],
)
def test_each_rule_of_the_ten_best_can_fail(right: dict[str, tuple[float, ...]], rule: str, verdict: str, tmp_path: Path) -> None:
    assert verdicts(judge(FIG1, evidence(tmp_path, right=RIGHT | right)))[rule] == verdict


def test_runs_that_diverged_do_not_count_as_good(tmp_path: Path) -> None:
    lost = (math.inf,) * 4
    everything = evidence(tmp_path, {"highway": lost, "plain": lost}, {"highway": lost, "plain": lost})
    assert drawn(FIG1, everything) == ["fig1"]
    assert drawn(CONVERGENCE, everything) == ["convergence"]
    record = judge(FIG1, everything)
    assert set(verdicts(record).values()) == {"not reproduced"}
    assert record.verdict == "not reproduced"
    assert found(record, "100 layers") == "highway-100 diverged, plain-100 diverged"
    assert {row.here for row in record.rows} == {"diverged", "10 of 10 diverged"}


def test_a_plain_network_that_diverges_is_no_proof(tmp_path: Path) -> None:
    lost = evidence(tmp_path, PAPER | {"plain": (9e-5, 5e-5, math.inf, math.inf)})
    ((_, caption),) = FIG1.draw(lost).values()
    assert caption.endswith("On the left 2 of 8 runs diverged; the best one of each network is drawn.")
    record = judge(FIG1, lost)
    assert {name for name, verdict in verdicts(record).items() if verdict == "partly"} == {"plain, deep", "100 layers"}
    assert found(record, "plain, deep") == "plain-10 9.00e-05, plain-20 5.00e-05, plain-50 diverged, plain-100 diverged"


def test_a_plain_network_that_was_good_before_it_diverged_counts_as_good(tmp_path: Path) -> None:
    runs = list(evidence(tmp_path))
    (deep,) = (run for run in runs if run.label == "left-plain-100-1")
    deep.status, deep.__dict__["history"] = "diverged", [deep.history[0].model_copy(update={"train_loss": 6e-5})]
    record = judge(FIG1, Evidence("laptop", runs))
    assert verdicts(record)["100 layers"] == "not reproduced"
    assert found(record, "100 layers") == "highway-100 5.00e-05, plain-100 6.00e-05 (diverged): 1.2 times"


def test_a_setting_that_diverged_beside_a_better_one_is_named(tmp_path: Path) -> None:
    runs = list(evidence(tmp_path))
    spare = evidence_of(tmp_path, {"left-highway-50-2": DIVERGED}, specs={"left-highway-50-2": mnist_spec()})
    both = Evidence("laptop", [*runs, *spare])
    record = judge(FIG1, both)
    assert verdicts(record)["highway, all depths"] == "reproduced", "the best run counts, as in the paper"
    assert "highway-50 3.00e-05 (1 of 2 diverged), highway-100" in found(record, "highway, all depths")
    assert {row.what: row.here for row in record.rows}["highway-50, best run, lowest training loss"] == "3.00e-05 (1 of 2 diverged)"
    ((_, caption),) = FIG1.draw(both).values()
    assert caption.endswith("On the left 1 of 9 runs diverged; the best one of each network is drawn.")


def test_one_of_ten_that_diverged_is_named_and_left_out_of_the_mean(tmp_path: Path) -> None:
    full = evidence(tmp_path)
    runs = list(full)
    place = next(number for number, run in enumerate(runs) if run.label == "right-highway-50-3")
    runs[place].status = "diverged"
    record = judge(FIG1, Evidence("laptop", runs))
    assert verdicts(record)["ten best, highway"] == "partly", "without it: reproduced"
    assert "highway-50 3.17e-04 (1 of 10 diverged)" in found(record, "ten best, highway")
    assert {row.what: row.here for row in record.rows}["highway-50, mean of the 10 best"] == "3.17e-04 (1 of 10 diverged)"
    ((_, caption),) = FIG1.draw(Evidence("laptop", runs)).values()
    assert caption.endswith("1 of the runs on the right diverged; means are over the others.")


def test_a_loss_of_nothing_is_no_error(tmp_path: Path) -> None:
    full = evidence(tmp_path)
    for run in full:
        if run.label.startswith("left-highway-100"):
            run.__dict__["history"] = [run.history[0].model_copy(update={"train_loss": 0.0})]
    assert drawn(FIG1, full) == ["fig1"]
    record = judge(FIG1, full)
    assert verdicts(record)["100 layers"] == "reproduced"
    assert verdicts(record)["highway, all depths"] == "not reproduced"


def test_at_scale_paper_both_panels_choose_from_all(tmp_path: Path) -> None:
    ends = [1e-3 * 2**rank for rank in range(12)]
    fakes = {f"all-{kind}-{depth}-{trial}": curve(ends[trial - 1]) for kind in PAPER for depth in DEPTHS for trial in range(12, 0, -1)}
    record = judge(FIG1, evidence_of(tmp_path, fakes, "paper"))
    rows = {row.what: row.here for row in record.rows}
    assert rows["plain-50, best run, lowest training loss"] == "0.00100"
    assert rows["plain-50, mean of the 10 best"] == "0.102", "the mean of the ten lowest, (2¹⁰ − 1) · 1e-3 / 10"


def test_smoke_is_not_judged(tmp_path: Path) -> None:
    labels = [
        f"{panel}-{kind}-{depth}-{number}" for panel in ("left", "right") for kind in PAPER for depth in (10, 20) for number in (1, 2)
    ]
    record = judge(FIG1, evidence_of(tmp_path, dict.fromkeys(labels, curve(1e-6)), "smoke"))
    assert record.verdict == "not judged"
    assert set(verdicts(record).values()) == {"not judged"}
    assert {row.paper for row in record.rows} == {"only drawn"}


def convergence(folder: Path, highway: tuple[float, ...], plain: tuple[float, ...]) -> Evidence:
    return evidence(folder, {"highway": highway, "plain": plain})


@pytest.mark.parametrize(
    ("highway", "plain", "verdict"),
    [
        ((1e-5,) * 4, (1e-4, 1e-4, 0.1, 0.2), "reproduced"),
        ((1e-5,) * 4, (1e-4, 1e-4, 0.1, math.inf), "partly"),
        ((1e-5, 1e-5, 1e-5, math.inf), (1e-4, 1e-4, 0.1, 0.2), "partly"),
        ((1e-5,) * 4, (1e-4, 1e-4, 1e-6, 1e-6), "partly"),
        ((1e-5,) * 4, (1e-4, 1e-6, 1e-6, 1e-6), "not reproduced"),
        ((1e-5,) * 4, (1e-5,) * 4, "not reproduced"),
        ((0.1,) * 4, (0.2,) * 4, "not reproduced"),
        ((math.inf,) * 4, (math.inf,) * 4, "not reproduced"),
    ],
)
def test_who_converges_faster(highway: tuple[float, ...], plain: tuple[float, ...], verdict: str, tmp_path: Path) -> None:
    assert judge(CONVERGENCE, convergence(tmp_path, highway, plain)).verdict == verdict


def test_epochs_are_counted_from_one(tmp_path: Path) -> None:
    record = judge(CONVERGENCE, convergence(tmp_path, (1e-4,) * 4, (1e-3, 1e-3, 0.5, math.inf)))
    assert found(record, "epochs to 0.01") == (
        "epochs until then, 10 layers 11 (plain 14), 20 layers 11 (plain 14), 50 layers 11 (plain never), "
        "100 layers 11 (plain never, diverged)"
    )


def test_a_highway_network_that_diverged_later_is_not_the_faster_one(tmp_path: Path) -> None:
    runs = list(evidence(tmp_path))
    for run in runs:
        if run.label.startswith("left-highway"):
            run.status = "diverged"
    record = judge(CONVERGENCE, Evidence("laptop", runs))
    assert record.verdict == "not reproduced"
    assert "10 layers 9, diverged (plain 10)" in found(record, "epochs to 0.01")
