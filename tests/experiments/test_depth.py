"""The 2021 report's flow, 1000 layers and gate biases, judged on records that were written by hand."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, drawn, evaluation, evidence_of, flow, found, judge, verdicts
from highwaynet.experiments.depth import BIASES, INITIALISATION, REPORT_2021, THOUSAND
from highwaynet.experiments.evidence import Evidence

GOOD = {
    "relu-glorot": Fake(accuracy=0.11, records={"flow": flow("Dead ReLU: layers 8 to 50", variance=(1.0, 1e-20))}),
    "relu-he": Fake(accuracy=0.95, records={"flow": flow(variance=(1.0, 1e-4))}),
    "sigmoid-glorot": Fake(accuracy=0.11, records={"flow": flow("Lost signal: all samples look alike", "Vanishing gradient: 1e-30")}),
    "tanh-glorot": Fake(accuracy=0.95, records={"flow": flow(variance=(1.0, 0.2))}),
}


def test_flow_as_in_the_report(tmp_path: Path) -> None:
    record = judge(REPORT_2021, evidence_of(tmp_path, GOOD))
    assert record.verdict == "reproduced"
    assert found(record, "sigmoid, Glorot's weights") == (
        "variance 1.0e+00 → 5.0e-01, gradient 1.0e+00 → 1.0e+00 from the first layer to the last; named: Lost signal; Vanishing gradient; "
        "training accuracy 11.00\u00a0%"
    )


@pytest.mark.parametrize(
    ("label", "fake", "verdict"),
    [
        ("relu-glorot", Fake(accuracy=0.9, records={"flow": flow("Dead ReLU: x")}), "partly"),
        ("relu-glorot", Fake(accuracy=0.9, records={"flow": flow("Vanishing gradient: x")}), "not reproduced"),
        ("relu-he", Fake(accuracy=0.9, records={"flow": flow("Exploding gradient: x")}), "partly"),
        ("relu-he", Fake(accuracy=0.5, records={"flow": flow("Exploding gradient: x")}), "not reproduced"),
        ("tanh-glorot", Fake(accuracy=0.9, records={"flow": flow(variance=(1.0, 0.05))}), "partly"),
        ("tanh-glorot", Fake(accuracy=0.9, records={"flow": flow(variance=(0.0, 0.05))}), "partly"),
        ("tanh-glorot", Fake(accuracy=0.3, records={"flow": flow("Dead units: x", variance=(1.0, 20.0))}), "not reproduced"),
        ("tanh-glorot", DIVERGED, "not reproduced"),
        ("relu-he", Fake((2.0, 1.0), finished=False), "not reproduced"),
        ("relu-glorot", DIVERGED, "partly"),  # it does not train, and nothing is named
    ],
)
def test_flow_otherwise(label: str, fake: Fake, verdict: str, tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, GOOD | {label: fake})
    record = judge(REPORT_2021, evidence)
    assert [rule.verdict for rule in record.rules if rule.verdict != "reproduced"] == [verdict]


def test_flows_are_drawn_of_those_that_did_not_diverge(tmp_path: Path) -> None:
    assert drawn(REPORT_2021, evidence_of(tmp_path, GOOD | dict.fromkeys(["relu-he", "tanh-glorot", "relu-glorot"], DIVERGED))) == [
        "flow-sigmoid-glorot"
    ]


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [
        ((1.0, 0.6, 0.4), "reproduced"),
        ((2.2, 1.9, 1.5), "partly"),
        ((2.3, 2.2, 2.1), "not reproduced"),
        ((0.3, 0.5, 0.2), "reproduced"),  # it rose in between, and went on
        ((0.3, 0.2, 0.3), "partly"),  # it rose at the end
    ],
)
def test_a_thousand_layers(losses: tuple[float, ...], verdict: str, tmp_path: Path) -> None:
    record = judge(THOUSAND, evidence_of(tmp_path, {"highway-1000-1": Fake(losses, records=evaluation(0.97))}))
    assert record.verdict == verdict
    assert [(row.what, row.here) for row in record.rows] == [("50 layers, seed 1, test accuracy after 3 epochs", "97.00\u00a0%")]


def test_a_thousand_layers_that_diverge(tmp_path: Path) -> None:
    good = Fake((1.0, 0.4), records=evaluation(0.97))
    record = judge(THOUSAND, evidence_of(tmp_path / "a", {"highway-1000-1": good, "highway-1000-2": Fake((1.0, 0.3), finished=False)}))
    assert record.verdict == "partly"
    assert found(record, "does not stall") == "training loss of each epoch: 1.00, 0.400; 1.00, 0.300, diverged"
    soon = evidence_of(tmp_path / "c", {"highway-1000-1": good, "highway-1000-2": Fake((2.3,), finished=False)})
    assert judge(THOUSAND, soon).verdict == "not reproduced"
    lost = evidence_of(tmp_path / "b", {"highway-1000-1": DIVERGED})
    assert drawn(THOUSAND, lost) == ["thousand"], "an empty picture is one too"
    record = judge(THOUSAND, lost)
    assert record.verdict == "not reproduced"
    assert found(record, "does not stall") == "training loss of each epoch: diverged"
    assert [row.here for row in record.rows] == ["diverged"]


def grid(folder: Path, trains: Callable[[str, str, float], bool], end: float = 0.1) -> Evidence:
    """Runs of which some train, each with one of its two learning rates; the other diverges."""
    fakes, pairs = {}, product(("glorot-uniform", "he", "normal"), ("tanh", "relu", "sigmoid"), BIASES)
    for init, activation, bias in pairs:
        good = Fake((2.0, end)) if trains(init, activation, bias) else Fake((2.3, 2.2))
        label = f"{init}-{activation}-bias{bias or 0:g}"
        fakes |= {f"{label}-rate0.1": DIVERGED, f"{label}-rate0.01": good}
    return evidence_of(folder, fakes)


def test_labels_of_the_grid_are_those_of_the_plan(tmp_path: Path) -> None:
    labels = [run.label for run in grid(tmp_path, lambda *_: True)]
    assert sorted(labels) == sorted(run.label for run in INITIALISATION.plan("laptop", None))


@pytest.mark.parametrize(
    ("trains", "expected"),
    [
        (lambda init, activation, bias: bias < 0, ["reproduced", "reproduced"]),
        (lambda init, activation, bias: bias == -4, ["reproduced", "reproduced"]),
        (lambda init, activation, bias: True, ["reproduced", "partly"]),
        (lambda init, activation, bias: init != "he" and bias < 0, ["partly", "reproduced"]),
        (lambda init, activation, bias: init == "he" and bias < 0, ["not reproduced", "reproduced"]),
        (lambda init, activation, bias: init != "he", ["partly", "not reproduced"]),
        (lambda init, activation, bias: bias == 0, ["not reproduced", "not reproduced"]),
        (lambda init, activation, bias: False, ["not reproduced", "not reproduced"]),
    ],
)
def test_gate_biases(trains: Callable[[str, str, float], bool], expected: list[str], tmp_path: Path) -> None:
    assert list(verdicts(judge(INITIALISATION, grid(tmp_path, trains))).values()) == expected


def test_what_is_found_about_gate_biases(tmp_path: Path) -> None:
    record = judge(INITIALISATION, grid(tmp_path, lambda init, activation, bias: bias < -1 and (init, activation) != ("he", "relu")))
    assert found(record, "negative biases") == "8 of 9 train with one of them; not: He with ReLU"
    assert found(record, "beside no bias") == "of 9: 0 with bias 0, 0 with bias −1, 8 with bias −2, 8 with bias −4"
    evidence = evidence_of(tmp_path / "lost", dict.fromkeys((run.label for run in INITIALISATION.plan("laptop", None)), DIVERGED))
    assert judge(INITIALISATION, evidence).verdict == "not reproduced"
    assert drawn(INITIALISATION, evidence) == ["initialisation"]
    nothing = grid(tmp_path / "nothing", lambda *_: True, end=0.0)
    assert judge(INITIALISATION, nothing).verdict == "partly"
    assert drawn(INITIALISATION, nothing) == ["initialisation"], "a loss of 0 can be drawn too"
