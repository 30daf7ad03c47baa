"""The 2021 report's plain networks, judged on records that were written by hand."""

from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, drawn, evidence_of, flow, found, judge, verdicts
from highwaynet.experiments.report_2021 import REPORT_2021

VANISHING = flow("Lost signal: all samples look alike", "Vanishing gradient: 1e-30")
GOOD = {
    "relu-glorot": Fake(accuracy=0.11, records={"flow": flow("Dead ReLU: layers 8 to 50", variance=(1.0, 1e-20))}),
    "relu-he": Fake(accuracy=0.95, records={"flow": flow(variance=(1.0, 1e-4))}),
    "sigmoid-glorot": Fake(accuracy=0.11, records={"flow": VANISHING}),
    "sigmoid-he": Fake(accuracy=0.11, records={"flow": VANISHING}),
    "tanh-glorot": Fake(accuracy=0.95, records={"flow": flow(variance=(1.0, 0.2))}),
}


def test_as_in_the_report(tmp_path: Path) -> None:
    record = judge(REPORT_2021, evidence_of(tmp_path, GOOD))
    assert (record.verdict, record.headline, len(record.rules)) == ("reproduced", "2 of 5, as reported", 12)
    assert found(record, "sigmoid, He's weights: vanishing gradient") == "named: Lost signal, Vanishing gradient"
    assert found(record, "sigmoid, He's weights: variance") == "from the first layer to the last 1.0e+00 → 5.0e-01"
    assert found(record, "tanh, Glorot's weights: trains") == "training accuracy 95.00\u00a0%"


@pytest.mark.parametrize(
    ("label", "fake", "differ"),
    [
        ("relu-glorot", Fake(accuracy=0.51, records={"flow": flow("Dead ReLU: x")}), ["does not train"]),
        ("relu-glorot", Fake(accuracy=0.5, records={"flow": flow("Dead ReLU: x")}), []),
        ("relu-glorot", Fake(accuracy=0.1, records={"flow": flow("Vanishing gradient: x")}), ["dead ReLU"]),
        ("relu-glorot", DIVERGED, ["dead ReLU"]),  # it does not train, and nothing is named
        ("relu-he", Fake(accuracy=0.5, records={"flow": flow()}), ["trains"]),
        ("relu-he", Fake(accuracy=0.9, records={"flow": flow("Exploding gradient: x")}), []),
        ("relu-he", Fake((2.0, 1.0), finished=False), ["trains"]),
        ("sigmoid-he", Fake(accuracy=0.1, records={"flow": flow("Vanishing gradient: x", variance=(1.0, 0.0))}), ["variance"]),
        ("tanh-glorot", Fake(accuracy=0.9, records={"flow": flow(variance=(1.0, 0.09))}), ["variance", "variance, trained"]),
        ("tanh-glorot", Fake(accuracy=0.9, records={"flow": flow(variance=(1.0, 0.11))}), []),
        ("tanh-glorot", Fake(accuracy=0.9, records={"flow": flow(variance=(1.0, 10.1))}), ["variance", "variance, trained"]),
        ("tanh-glorot", DIVERGED, ["trains", "variance", "variance, trained"]),
    ],
)
def test_each_rule_at_its_border(label: str, fake: Fake, differ: list[str], tmp_path: Path) -> None:
    record = judge(REPORT_2021, evidence_of(tmp_path, GOOD | {label: fake}))
    assert [name.partition(": ")[2] for name, verdict in verdicts(record).items() if verdict == "differs"] == differ


def test_the_trained_network_is_looked_at_too(tmp_path: Path) -> None:
    start, trained = flow(variance=(1.0, 1.0)).start, flow(variance=(1.0, 0.01)).trained
    record = flow().model_copy(update={"start": start, "trained": trained})
    found = verdicts(judge(REPORT_2021, evidence_of(tmp_path, GOOD | {"tanh-glorot": Fake(accuracy=0.9, records={"flow": record})})))
    assert [found[f"tanh, Glorot's weights: {name}"] for name in ("variance", "variance, trained")] == ["reproduced", "differs"]


def test_more_than_half_of_the_seeds(tmp_path: Path) -> None:
    fakes = {f"{label}-{seed}": fake for label, fake in GOOD.items() for seed in (101, 102, 103)}
    record = judge(REPORT_2021, evidence_of(tmp_path / "one", fakes | {"relu-he-101": DIVERGED}))
    assert record.verdict == "reproduced"
    assert found(record, "ReLU, He's weights: trains") == "with 2 of 3 seeds: training accuracy 95.00\u00a0% (0.00\u00a0% to 95.00\u00a0%)"
    record = judge(REPORT_2021, evidence_of(tmp_path / "two", fakes | {"relu-he-101": DIVERGED, "relu-he-103": DIVERGED}))
    assert verdicts(record)["ReLU, He's weights: trains"] == "differs"


def test_what_was_not_run_and_what_is_drawn(tmp_path: Path) -> None:
    some = {label: fake for label, fake in GOOD.items() if label != "sigmoid-he"}
    record = judge(REPORT_2021, evidence_of(tmp_path / "some", some))
    assert [name for name, verdict in verdicts(record).items() if verdict == "not run"] == [
        f"sigmoid, He's weights: {name}" for name in ("does not train", "vanishing gradient", "variance")
    ]
    assert record.headline == "2 of 4, as reported"
    lost = dict.fromkeys(["relu-he", "tanh-glorot", "relu-glorot"], DIVERGED)
    assert drawn(REPORT_2021, evidence_of(tmp_path, some | lost)) == ["flow-sigmoid-glorot"]
