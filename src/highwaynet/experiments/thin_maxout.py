"""How deep thin maxout networks can be and still train by backpropagation: Romero et al. 2014, which the paper cites."""

import statistics
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from highwaynet.experiments.choice import CHOSEN, tried
from highwaynet.experiments.claims import NOT_RUN, Claim, Outcome, Row, Rule, Run, Scale, decided
from highwaynet.experiments.race import best_of, diverged, tested
from highwaynet.experiments.specs import run_spec, seeds_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence, RunEvidence

PARAMETERS, MULTIPLY_ADDS = 251_194, 30_200_000
"""The limits, which FitNet A sets: every network is below both, and at most 1 % below the first."""
NETWORKS = {5: "maxout-5", 7: "maxout-7", 9: "maxout-9", 11: "fitnet-a"}
RATES = (0.0005, 0.0015, 0.005)
TRAINED = 50.0
"""A network counts as trained from this test accuracy on, in percent; guessing gives 10."""
START = {"init": "uniform", "init_range": 0.005}
HOW = f"its mean test accuracy over the seeds is at least {TRAINED:g} %, with the learning rate that has {CHOSEN}"


def _plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    if scale == "smoke":
        return ()
    training: dict[str, Any] = {"recipe": "paper", "conv_rate": 0.05, "max_kernel_norm": 0.9, "max_unit_norm": 1.9}
    training |= {"epochs": 10} if scale == "laptop" else {"epochs": 500}
    data = {"name": "cifar-10", "validation": 0.2}

    def run(depth: int, rate: float, seed: int) -> Run:
        spec = run_spec({"name": NETWORKS[depth]} | START, data, training | {"learning_rate": rate}, seed)
        return Run(f"layers{depth}-rate{rate:g}-{seed}", spec, ("evaluation",))

    runs: list[Run] = []
    for depth in NETWORKS:
        runs += tried(f"layers{depth}", RATES, seeds_at(scale, seeds or 3), partial(run, depth))
    return tuple(runs)


def _best(evidence: "Evidence", depth: int) -> tuple[float, list["RunEvidence"]]:
    return best_of(evidence, f"layers{depth}")


def _judge(depth: int, *, trains: bool) -> Rule:
    def judge(evidence: "Evidence") -> Outcome:
        rate, runs = _best(evidence, depth)
        if not runs:
            return NOT_RUN
        mean = round(statistics.fmean(map(tested, runs)), 6)
        found, seeds = f"{mean:.2f} % (learning rate {rate:g})", evidence.seeds_of(runs)
        if not trains and (lost := diverged(runs)):
            return decided(False, f"{found}; {lost}", seeds, small_budget=True)
        return decided((mean >= TRAINED) is trains, found, seeds)

    if trains:
        text = f"the network is trained: {HOW}; a run that diverged has 0 %"
        return Rule(f"{depth} layers train", "backpropagation trains up to 5 layers", text, judge)
    text = f"the network is not trained; it would be if {HOW}; if one of these runs diverged: not reached"
    return Rule(f"{depth} layers do not", "backpropagation fails with more than 5 layers", text, judge)


def _rows(evidence: "Evidence") -> list[Row]:
    rows = []
    for depth, name in NETWORKS.items():
        if runs := _best(evidence, depth)[1]:
            values = [tested(run) for run in runs]
            rows.append(Row(f"{name}, mean test accuracy", "not given", f"{statistics.fmean(values):.2f} %"))
    return rows


def _draw(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.comparison_plot import Compared, draw_accuracies

    rows = [Compared(f"{depth} layers", [tested(run) for run in _best(evidence, depth)[1]]) for depth in NETWORKS]
    spec = next(iter(evidence)).spec
    text = f"Maxout networks of about 250,000 parameters and 30 million multiply-adds on {spec.data.title}, {spec.training.epochs} epochs."
    return {"thin-maxout": (draw_accuracies(rows), text)}


def _headline(evidence: "Evidence") -> str:
    deepest = [depth for depth in NETWORKS if (runs := _best(evidence, depth)[1]) and statistics.fmean(map(tested, runs)) >= TRAINED]
    return f"up to {max(deepest)} layers train" if deepest else "none trains"


THIN_MAXOUT = Claim(
    "thin-maxout",
    "Section 3.3: thin maxout networks by backpropagation",
    "Training maxout networks of about 250,000 parameters and 30 million multiplications by backpropagation was limited to 5 layers.",
    _plan,
    (_judge(5, trains=True), *(_judge(depth, trains=False) for depth in (7, 9, 11))),
    _draw,
    _rows,
    {
        "smoke": "the networks are too large for digits; race-dense runs such comparisons at this scale",
        "laptop": "the FitNets' start weights, optimiser and limits, 10 epochs, three learning rates; networks of our own except FitNet A. "
        "A network that learns slowly may count as not trained after 10 epochs.",
        "paper": "the FitNets' start weights, optimiser and limits, at most 500 epochs, three learning rates; networks of our own except "
        "FitNet A.",
    },
    short="5 thin maxout layers at most",
    headline=_headline,
)
