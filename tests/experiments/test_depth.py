"""1000 layers and gate biases, judged on records that were written by hand."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, drawn, evaluation, evidence_of, found, judge, mnist_spec, verdicts
from highwaynet.experiments.depth import BIASES, INITIALISATION, THOUSAND
from highwaynet.experiments.evidence import Evidence
from highwaynet.runs.spec import with_training


def long(end: float, epochs: int = 20) -> Fake:
    return Fake([1.0] * (epochs - 1) + [end], records=evaluation(0.97))


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ([long(0.099)], "reproduced"),
        ([long(0.1)], "differs"),
        ([long(0.099, 3)], "reproduced"),  # sooner than asked
        ([long(0.16, 3)], "not reached"),
        ([long(0.05), long(0.05), long(0.2)], "differs"),  # every seed counts
        ([long(0.05), Fake((1.0, 0.01), finished=False)], "differs"),
        ([DIVERGED], "differs"),
    ],
)
def test_a_thousand_layers(runs: list[Fake], verdict: str, tmp_path: Path) -> None:
    fakes = {f"highway-1000-{seed}": fake for seed, fake in enumerate(runs, start=101)}
    specs = {label: mnist_spec().model_copy(update={"seed": seed}) for seed, label in enumerate(fakes, start=101)}
    specs = {label: with_training(spec, epochs=20) for label, spec in specs.items()}
    evidence = evidence_of(tmp_path, fakes, specs=specs)
    record = judge(THOUSAND, evidence)
    assert record.verdict == verdict
    assert drawn(THOUSAND, evidence) == ["thousand"], "an empty picture is one too"


def test_what_is_found_about_a_thousand_layers(tmp_path: Path) -> None:
    record = judge(THOUSAND, evidence_of(tmp_path, {"highway-1000-1": long(0.05, 3), "highway-1000-2": DIVERGED}))
    assert found(record, "does not stall") == "training loss after 3 epochs, seed by seed: 0.0500, diverged"
    assert [(row.what, row.here) for row in record.rows] == [
        ("50 layers, seed 1, test accuracy after 3 epochs", "97.00\u00a0%"),
        ("50 layers, seed 1, test accuracy after 0 epochs", "diverged"),
    ]


def grid(folder: Path, trains: Callable[[str, str, float], bool], end: float = 0.1, seed: str = "") -> Evidence:
    """Runs of which some train, each with one of its two learning rates; the other diverges. Labels of older records have no seed."""
    fakes, pairs = {}, product(("glorot-uniform", "he", "normal"), ("tanh", "relu", "sigmoid"), BIASES)
    for init, activation, bias in pairs:
        good = Fake((2.0, end)) if trains(init, activation, bias) else Fake((2.3, 2.2))
        label = f"{init}-{activation}-bias{bias or 0:g}"
        fakes |= {f"{label}-rate0.1{seed}": DIVERGED, f"{label}-rate0.01{seed}": good}
    return evidence_of(folder, fakes)


def test_labels_of_the_grid_are_those_of_the_plan(tmp_path: Path) -> None:
    labels = [run.label for run in grid(tmp_path, lambda *_: True, seed="-101")]
    assert sorted(labels) == sorted(run.label for run in INITIALISATION.plan("laptop", 1))


@pytest.mark.parametrize(
    ("trains", "expected"),
    [
        (lambda init, activation, bias: bias < 0, ["reproduced", "reproduced"]),
        (lambda init, activation, bias: bias == -4, ["reproduced", "reproduced"]),
        (lambda init, activation, bias: True, ["reproduced", "differs"]),
        (lambda init, activation, bias: init != "he" and bias < 0, ["differs", "reproduced"]),
        (lambda init, activation, bias: init == "he" and bias < 0, ["differs", "reproduced"]),
        (lambda init, activation, bias: init != "he", ["differs", "differs"]),
        (lambda init, activation, bias: bias == 0, ["differs", "differs"]),
        (lambda init, activation, bias: False, ["differs", "differs"]),
    ],
)
def test_gate_biases(trains: Callable[[str, str, float], bool], expected: list[str], tmp_path: Path) -> None:
    assert list(verdicts(judge(INITIALISATION, grid(tmp_path, trains))).values()) == expected


def test_a_pair_trains_with_more_than_half_of_the_seeds(tmp_path: Path) -> None:
    good, bad = (lambda *_: True), (lambda init, activation, bias: (init, activation) != ("he", "relu"))
    runs = [run for seed, way in (("-101", good), ("-102", bad), ("-103", bad)) for run in grid(tmp_path / seed, way, seed=seed)]
    record = judge(INITIALISATION, Evidence("laptop", runs))
    assert found(record, "negative biases") == "8 of 9 train with one of them; not: He with ReLU"
    runs = [run for seed, way in (("-104", good), ("-105", good), ("-106", bad)) for run in grid(tmp_path / seed, way, seed=seed)]
    assert verdicts(judge(INITIALISATION, Evidence("laptop", runs)))["negative biases"] == "reproduced"


def test_what_is_found_about_gate_biases(tmp_path: Path) -> None:
    record = judge(INITIALISATION, grid(tmp_path, lambda init, activation, bias: bias < -1 and (init, activation) != ("he", "relu")))
    assert found(record, "negative biases") == "8 of 9 train with one of them; not: He with ReLU"
    assert found(record, "beside no bias") == "of 9: 0 with bias 0, 0 with bias −1, 8 with bias −2, 8 with bias −4"
    evidence = evidence_of(tmp_path / "lost", dict.fromkeys((run.label for run in INITIALISATION.plan("laptop", None)), DIVERGED))
    assert judge(INITIALISATION, evidence).verdict == "differs"
    assert drawn(INITIALISATION, evidence) == ["initialisation"]
    nothing = grid(tmp_path / "nothing", lambda *_: True, end=0.0)
    assert judge(INITIALISATION, nothing).verdict == "1 of 2 reproduced"
    assert drawn(INITIALISATION, nothing) == ["initialisation"], "a loss of 0 can be drawn too"
