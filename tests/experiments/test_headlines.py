"""The cells of the table of claims: a few words, with numbers from the evidence."""

from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, evaluation, evidence_of, gates, lesions, routing
from highwaynet.experiments.claims import Claim
from highwaynet.experiments.depth import INITIALISATION, THOUSAND
from highwaynet.experiments.figure_2 import FIG2
from highwaynet.experiments.figures_3_and_4 import FIG3, FIG4
from highwaynet.experiments.optimisation import FIG1
from highwaynet.experiments.registry import CLAIMS, WITHOUT_A_CLAIM
from highwaynet.experiments.tables import TABLE1, TABLE2

DEPTHS = (10, 20, 50, 100)
BOTH = ("mnist-101", "cifar-100-101")


def best_runs(**changed: Fake) -> dict[str, Fake]:
    """Highway networks of all depths reach 0.001 in two epochs, plain ones 0.1 in three."""
    runs = {f"left-highway-{depth}-0-101": Fake((0.1, 0.001)) for depth in DEPTHS}
    runs |= {f"left-plain-{depth}-0-101": Fake((0.9, 0.5, 0.1)) for depth in DEPTHS}
    return runs | {name.replace("_", "-"): fake for name, fake in changed.items()}


def accuracy(percent: float) -> Fake:
    return Fake(records=evaluation(percent / 100))


@pytest.mark.parametrize(
    ("claim", "runs", "expected"),
    [
        (FIG1, best_runs(), "100× lower"),
        (FIG1, best_runs(left_plain_100_0_101=DIVERGED), "highway-100 0.00100, plain-100 diverged"),
        (TABLE1, {"w16-1": accuracy(99), "w16-2": accuracy(98), "w32-1": accuracy(97)}, "98.50, 97.00 %"),
        (TABLE2, {"highway-a-101": accuracy(80)}, "80.00, –, – %"),
        (TABLE1, {"w16-released-1": accuracy(80)}, "not run"),
        (FIG2, {name: Fake(records={"gates": gates(opened=147)}) for name in BOTH}, "MNIST 50.00, CIFAR-100 50.00 %"),
        (FIG3, {name: Fake(records={"routing": routing()}) for name in BOTH}, "fixed gates: 50 % (MNIST), 50 % (CIFAR-100)"),
        (FIG4, {"mnist-101": Fake(records={"lesions": lesions([1, 2, 3])}), "cifar-100-101": DIVERGED}, "idle of 49: 46 (MNIST)"),
        (FIG4, dict.fromkeys(BOTH, DIVERGED), "both diverged"),
        (THOUSAND, {"highway-1000-101": Fake((0.5, 0.1)), "highway-1000-102": Fake((0.5, 0.25))}, "loss 0.250 in 2 epochs"),
        (THOUSAND, {"highway-1000-101": Fake((0.5, 0.1)), "highway-1000-102": DIVERGED}, "diverged"),
    ],
)
def test_headlines(claim: Claim, runs: dict[str, Fake], expected: str, tmp_path: Path) -> None:
    assert claim.headline(evidence_of(tmp_path, runs)) == expected


def test_settings_that_train_are_counted(tmp_path: Path) -> None:
    good, bad = Fake((0.4,)), Fake((0.6,))
    runs = {
        run.label: good if "tanh-bias-2-" in run.label or "he-relu-bias0-" in run.label else bad for run in INITIALISATION.plan("laptop", 1)
    }
    assert INITIALISATION.headline(evidence_of(tmp_path, runs)) == "3 of 9 train, 1 without it"


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_says_what_it_is_about_in_a_few_words(name: str) -> None:
    assert 0 < len(CLAIMS[name].short) <= 32


def test_what_no_claim_tests_is_said_once() -> None:
    assert len(set(WITHOUT_A_CLAIM)) == len(WITHOUT_A_CLAIM) >= 3
