"""The two networks of figures 2 to 4: 50 layers, trained on MNIST and on CIFAR-100; and how rules about them are judged, seed by seed."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from highwaynet.experiments.claims import NOT_RUN, Analysis, Outcome, Rule, Run, Scale, decided, most, spread, with_seeds
from highwaynet.experiments.specs import over_seeds, seeds_at

if TYPE_CHECKING:
    from highwaynet.experiments.evidence import Evidence, RunEvidence


@dataclass(frozen=True)
class LookedAt:
    """One of the two."""

    label: str
    """Of its runs, before the seed."""
    title: str
    data: str
    gate_bias: float
    training: dict[str, Any]
    seeds: int
    """At scales laptop and paper."""
    classes: tuple[int, int]
    """Those that figure 3 shows."""

    def finished(self, evidence: "Evidence") -> list["RunEvidence"]:
        """Its runs that can be looked into."""
        return [run for run in evidence.labelled(self.label) if run.finished]


MNIST = LookedAt("mnist", "MNIST", "mnist", -2.0, {"epochs": 60, "learning_rate": 0.1, "decay": 0.1}, 5, (0, 7))
CIFAR = LookedAt("cifar-100", "CIFAR-100", "cifar-100", -4.0, {"epochs": 1000, "learning_rate": 0.015, "decay": 0.03}, 2, (0, 1))
BOTH = (MNIST, CIFAR)
SMOKE = {"epochs": 5, "learning_rate": 0.1, "decay": 0.5}


def planner(analyses: tuple[Analysis, ...]) -> Callable[[Scale, int | None], tuple[Run, ...]]:
    """The same runs for all three figures."""

    def plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
        smoke = scale == "smoke"
        runs: list[Run] = []
        for one in BOTH:
            network = {"name": "fc-highway", "depth": 50, "width": 10 if smoke else 50, "activation": "tanh", "gate_bias": one.gate_bias}
            training = {"batch_size": 32, "momentum": 0.9} | (SMOKE if smoke else one.training)
            numbers = seeds_at(scale, seeds or (1 if smoke else one.seeds))
            runs += over_seeds(one.label, network, "digits" if smoke else one.data, training, numbers, analyses)
        return tuple(runs)

    return plan


Judgement = tuple[bool, tuple[float, ...]]
"""Whether a rule holds for a trained network, and the numbers that decide."""
Text = Callable[[float], str]


def rule(
    network: LookedAt, name: str, paper: str, text: str, measure: Callable[["RunEvidence"], Judgement], found: str, *texts: Text
) -> Rule:
    """A rule about one of the two networks, which is to hold with more than half of the seeds; a run that diverged counts against it.

    Args:
        network: Which one.
        name: Short.
        paper: What the paper says.
        text: When that is reproduced.
        measure: Looks into a trained network.
        found: What is said about the numbers, with a place {} for each.
        *texts: How each number is written.
    """

    def judge(evidence: "Evidence") -> Outcome:
        runs = evidence.labelled(network.label)
        if not runs:
            return NOT_RUN
        measured = [measure(run) for run in runs if run.finished]
        lost = len(runs) - len(measured)
        holds = [held for held, _ in measured] + [False] * lost
        words = "the run diverged" if len(runs) == 1 else "all runs diverged"
        if measured:
            columns = zip(*(numbers for _, numbers in measured), strict=True)
            words = found.format(*(spread(column, write) for column, write in zip(columns, texts, strict=True)))
            words += f"; {lost} diverged" if lost else ""
        return decided(most(holds), with_seeds(holds) + words, evidence.seeds_of(runs))

    return Rule(f"{network.title}: {name}", paper, text, judge)


def smaller_on_cifar(name: str, paper: str, text: str, measure: Callable[[LookedAt, "RunEvidence"], float], write: Text) -> Rule:
    """A rule that compares the two networks: a number, in the median over the seeds, is smaller on CIFAR-100 than on MNIST."""

    def judge(evidence: "Evidence") -> Outcome:
        if not all(evidence.labelled(one.label) for one in BOTH):
            return NOT_RUN
        mnist, cifar = numbers = [[measure(one, run) for run in one.finished(evidence)] for one in BOTH]
        found = ", ".join(f"{one.title} {spread(own, write) if own else 'diverged'}" for one, own in zip(BOTH, numbers, strict=True))
        holds = bool(mnist and cifar) and statistics.median(cifar) < statistics.median(mnist)
        return decided(holds, found, min(evidence.seeds_of(evidence.labelled(one.label)) for one in BOTH))

    return Rule(f"CIFAR-100: {name}", paper, text, judge)


def headline(text: str, join: str, number: Callable[[LookedAt, Sequence["RunEvidence"]], str]) -> Callable[["Evidence"], str]:
    """A sentence with a number of each network that did not diverge."""

    def words(evidence: "Evidence") -> str:
        known = [(one, runs) for one in BOTH if (runs := one.finished(evidence))]
        return text.format(join.join(number(one, runs) for one, runs in known)) if known else "both diverged"

    return words


NOTES: dict[Scale, str] = {
    "smoke": "digits stand in for both data sets, networks 10 wide, 5 epochs: shows that everything works, says nothing about the paper.",
    "laptop": "60 epochs of MNIST with settings of our own, 1000 of CIFAR-100 with the best of eight settings (study inside-cifar-100); "
    "the paper's are the best of a random search.",
    "paper": "the same as at scale laptop: the paper gives neither settings nor budget.",
}
SEEN = "runs of both networks with seed 1 (docs/INSIDE.md)"
DESCRIBED = "50-layer highway networks trained on MNIST and on CIFAR-100"
