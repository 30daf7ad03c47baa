"""How fast networks converge, and which is ahead at 10 layers, judged on curves that were written by hand."""

import math
from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, drawn, evidence_of, found, judge, verdicts
from highwaynet.experiments.convergence import CONVERGENCE, SHALLOW, epochs_until
from highwaynet.experiments.evidence import Evidence

DEPTHS = (10, 20, 50, 100)
NEVER = math.inf
Epochs = tuple[float, float, float]


def reaching(epochs: Epochs) -> Fake:
    """A curve that is first below 0.1, 0.03 and 0.01 in these epochs."""
    first, second, third = epochs
    return Fake([0.005 if number >= third else 0.02 if number >= second else 0.05 if number >= first else 1.0 for number in range(1, 41)])


def finalists(folder: Path, highway: dict[int, list[Epochs]], plain: dict[int, list[Epochs]], seed: str = "-101") -> Evidence:
    """Ten finalists of each network, which repeat what is given."""
    fakes = {}
    for kind, given in (("highway", highway), ("plain", plain)):
        for depth, epochs in given.items():
            fakes |= {f"right-{kind}-{depth}-{rank}{seed}": reaching(epochs[rank % len(epochs)]) for rank in range(10)}
    return evidence_of(folder, fakes)


def everywhere(*epochs: Epochs) -> dict[int, list[Epochs]]:
    return {depth: list(epochs) for depth in DEPTHS}


def test_epochs_are_counted_from_one(tmp_path: Path) -> None:
    runs = evidence_of(tmp_path, {"a": reaching((1, 5, NEVER)), "b": Fake((0.01, 0.001), finished=False), "c": Fake((0.1, 0.01))})
    assert [epochs_until(runs["a"], loss) for loss in (0.1, 0.03, 0.01)] == [1, 5, NEVER]
    assert epochs_until(runs["b"], 0.1) == NEVER, "a run that diverged never converged"
    assert [epochs_until(runs["c"], loss) for loss in (0.1, 0.01)] == [2, NEVER], "below, not at"


@pytest.mark.parametrize(
    ("highway", "plain", "verdict"),
    [
        ([(3, 8, 14)], [(4, 9, 15)], "reproduced"),
        ([(3, 8, 14)], [(3, 9, 15)], "differs"),  # equal at one threshold
        ([(3, 8, 14)], [(4, 9, 13)], "differs"),
        ([(3, 8, 14)], [(4, NEVER, NEVER)], "reproduced"),
        ([(3, 8, NEVER)], [(4, 9, NEVER)], "differs"),  # both never
        ([(3, 8, 14), (3, 8, 14), (3, 8, 14), (30, 30, 30), (30, 30, 30)], [(4, 9, 15)], "reproduced"),  # six of ten
        ([(3, 8, 14), (30, 30, NEVER)], [(4, 9, 15)], "differs"),  # five of ten
    ],
)
def test_medians_at_all_three_losses(highway: list[Epochs], plain: list[Epochs], verdict: str, tmp_path: Path) -> None:
    record = judge(CONVERGENCE, finalists(tmp_path, everywhere(*highway), everywhere(*plain)))
    assert set(verdicts(record).values()) == {verdict}
    assert {rule.seeds for rule in record.rules} == {1}


def test_each_depth_has_a_rule(tmp_path: Path) -> None:
    plain = everywhere((4, 9, 15)) | {20: [(2, 3, 4)]}
    runs = finalists(tmp_path, everywhere((3, 8, 14)), plain)
    record = judge(CONVERGENCE, runs)
    assert list(verdicts(record).values()) == ["reproduced", "differs", "reproduced", "reproduced"]
    assert found(record, "20 layers") == "median epochs of highway: 3 to 0.1 (plain 2), 8 to 0.03 (plain 3), 14 to 0.01 (plain 4)"
    assert (record.verdict, record.headline) == ("3 of 4 reproduced", "faster at 3 of 4 depths")
    assert drawn(CONVERGENCE, runs) == ["convergence"]


def test_more_than_half_of_the_seeds(tmp_path: Path) -> None:
    slow, fast = everywhere((4, 9, 15)), everywhere((3, 8, 14))
    runs = [
        *finalists(tmp_path / "1", fast, slow, "-101"),
        *finalists(tmp_path / "2", fast, slow, "-102"),
        *finalists(tmp_path / "3", slow, fast, "-103"),
    ]
    record = judge(CONVERGENCE, Evidence("laptop", runs))
    assert record.verdict == "reproduced"
    assert found(record, "10 layers").startswith("with 2 of 3 seeds: median epochs of highway: 3 (3 to 4) to 0.1 (plain 4 (3 to 4)), ")
    assert {rule.seeds for rule in record.rules} == {3}
    assert judge(CONVERGENCE, Evidence("laptop", [run for run in runs if not run.label.endswith("-102")])).verdict == "differs"


def test_without_finalists_nothing_is_judged_or_drawn(tmp_path: Path) -> None:
    runs = evidence_of(tmp_path, {f"left-{kind}-{depth}-1": Fake() for kind in ("highway", "plain") for depth in DEPTHS})
    for claim in (CONVERGENCE, SHALLOW):
        record = judge(claim, runs)
        assert (record.verdict, record.headline) == ("not run", "not run")
    assert CONVERGENCE.draw(runs) == {}


def test_networks_that_diverged(tmp_path: Path) -> None:
    labels = [f"right-{kind}-{depth}-{rank}-101" for kind in ("highway", "plain") for depth in DEPTHS for rank in range(10)]
    runs = evidence_of(tmp_path, dict.fromkeys(labels, DIVERGED))
    assert judge(CONVERGENCE, runs).verdict == "differs"
    assert found(judge(CONVERGENCE, runs), "10 layers").startswith("median epochs of highway: never to 0.1 (plain never)")
    assert drawn(CONVERGENCE, runs) == ["convergence"]
    assert judge(SHALLOW, runs).verdict == "differs"
    assert drawn(SHALLOW, runs) == ["shallow"]


@pytest.mark.parametrize(("plain", "verdict"), [(0.009, "reproduced"), (0.01, "differs"), (0.011, "differs")])
def test_which_is_ahead_at_10_layers(plain: float, verdict: str, tmp_path: Path) -> None:
    ends = {"highway": [0.001] * 4 + [0.01] * 2 + [0.02] * 4, "plain": [plain] * 6 + [0.5] * 4}
    fakes = {f"right-{kind}-10-{rank}-101": Fake((1.0, end)) for kind, values in ends.items() for rank, end in enumerate(values)}
    runs = evidence_of(tmp_path, fakes)
    record = judge(SHALLOW, runs)
    assert record.verdict == verdict
    assert found(record, "10 layers").endswith("highway-10 0.0100")
    assert drawn(SHALLOW, runs) == ["shallow"]
