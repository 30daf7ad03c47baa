"""The cells of the table of claims: a few words, with numbers from the evidence."""

from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, evaluation, evidence_of, gates, lesions, mnist_spec, routing
from highwaynet.experiments.claims import Claim
from highwaynet.experiments.depth import INITIALISATION, THOUSAND
from highwaynet.experiments.figures_2_to_4 import FIG2, FIG3, FIG4
from highwaynet.experiments.optimisation import CONVERGENCE, FIG1
from highwaynet.experiments.registry import CLAIMS
from highwaynet.experiments.tables import TABLE1, TABLE2

DEPTHS = (10, 20, 50, 100)
BOTH = ("mnist", "cifar-100")


def best_runs(**changed: Fake) -> dict[str, Fake]:
    """Highway networks of all depths reach 0.001 in two epochs, plain ones 0.1 in three."""
    runs = {f"left-highway-{depth}-1": Fake((0.1, 0.001)) for depth in DEPTHS}
    runs |= {f"left-plain-{depth}-1": Fake((0.9, 0.5, 0.1)) for depth in DEPTHS}
    return runs | {name.replace("_", "-"): fake for name, fake in changed.items()}


def accuracy(percent: float) -> Fake:
    return Fake(records=evaluation(percent / 100))


@pytest.mark.parametrize(
    ("claim", "runs", "expected"),
    [
        (FIG1, best_runs(), "100-layer highway ends 100× below 100-layer plain"),
        (FIG1, best_runs(left_plain_100_1=DIVERGED), "highway-100 0.00100, plain-100 diverged"),
        (CONVERGENCE, best_runs(), "faster to a training loss of 0.01 at 4 of 4 depths"),
        (CONVERGENCE, best_runs(left_plain_20_1=Fake((0.009,))), "faster to a training loss of 0.01 at 3 of 4 depths"),
        (TABLE1, {"w16-1": accuracy(99), "w16-2": accuracy(98), "w32-1": accuracy(97)}, "16 wide 98.50 %, 32 wide 97.00 %"),
        (TABLE2, {"highway-a-1": accuracy(80)}, "Highway A 80.00 %; others not run"),
        (TABLE1, {"w16-released-1": accuracy(80)}, "not run"),
        (
            FIG2,
            {name: Fake(records={"gates": gates(opened=147)}) for name in BOTH},
            "50.00 % (MNIST) and 50.00 % (CIFAR-100) of gates open",
        ),
        (FIG3, {name: Fake(records={"routing": routing()}) for name in BOTH}, "fixed gates: MNIST 90 → 50 %, CIFAR-100 90 → 50 %"),
        (FIG4, {"mnist": Fake(records={"lesions": lesions([1, 2, 3])}), "cifar-100": DIVERGED}, "idle layers: MNIST 46 of 49"),
        (FIG4, dict.fromkeys(BOTH, DIVERGED), "idle layers: both diverged"),
    ],
)
def test_headlines(claim: Claim, runs: dict[str, Fake], expected: str, tmp_path: Path) -> None:
    assert claim.headline(evidence_of(tmp_path, runs)).replace("\u00a0", " ") == expected


@pytest.mark.parametrize(
    ("run", "expected"),
    [(Fake((0.5, 0.25)), "1,001 layers: training loss 0.250 after 2 epochs"), (DIVERGED, "1,001 layers: diverged")],
)
def test_the_worst_seed_of_a_thousand_layers_counts(run: Fake, expected: str, tmp_path: Path) -> None:
    runs = {"highway-1000-1": Fake((0.5, 0.1)), "highway-1000-2": run}
    specs = dict.fromkeys(runs, mnist_spec(depth=1001))
    assert THOUSAND.headline(evidence_of(tmp_path, runs, specs=specs)) == expected


def test_settings_that_train_are_counted(tmp_path: Path) -> None:
    good, bad = Fake((0.4,)), Fake((0.6,))
    runs = {
        run.label: good if "tanh-bias-2-" in run.label or "he-relu-bias0-" in run.label else bad
        for run in INITIALISATION.plan("laptop", None)
    }
    assert INITIALISATION.headline(evidence_of(tmp_path, runs)) == "3 of 9 settings train, 1 without it"


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_says_what_it_is_about_in_a_few_words(name: str) -> None:
    assert 0 < len(CLAIMS[name].short) <= 41
