"""The runs of figure 1: the best settings of a search, for highway and plain networks with 10 to 100 layers. Other claims share them."""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from highwaynet.experiments.claims import Run, Scale
from highwaynet.experiments.specs import FIRST_SEED, run_spec, runs_of_study

if TYPE_CHECKING:
    from highwaynet.experiments.evidence import Evidence, RunEvidence

DEPTHS: dict[Scale, tuple[int, ...]] = {"smoke": (10, 20), "laptop": (10, 20, 50, 100), "paper": (10, 20, 50, 100)}
KINDS = ("highway", "plain")
TOP = 10
"""The paper shows the mean of the ten best runs."""
BESIDE = 15
"""This many settings of each network are run for it, the best ones of a short search: some diverge with another seed."""

SEARCHED = "Settings come from a search of our own (100 random ones for each depth and kind, 5 epochs each)"
REST = (
    "They are chosen after 5 epochs, when deep plain networks have hardly begun to train: a longer search might find better ones for "
    "them. Losses are means over each epoch, measured while training."
)
SMOKE_NOTE = "digits, networks 20 and 28 wide, depths 10 and 20, a few epochs: shows that everything works, says nothing about the paper."
SEEN = "the study's runs of 5 and of 40 epochs (results/paper-mnist), and those of 40 and 400 epochs with other seeds"


def best_runs(scale: Scale, seeds: int) -> Iterator[Run]:
    """The left panel: the two best settings, for 400 epochs; labels left-highway-10-RANK-SEED."""
    if scale == "smoke":
        yield from _small("left", seeds, ranks=1, epochs=10)
        return
    from highwaynet.search.ready import ready_study

    yield from _with_seeds("left", runs_of_study(ready_study("paper-mnist-best")), seeds)


def finalist_runs(scale: Scale, seeds: int, ranks: int = BESIDE) -> Iterator[Run]:
    """The right panel: the best settings of the search, for 40 epochs; labels right-highway-10-RANK-SEED."""
    if scale == "smoke":
        yield from _small("right", seeds, ranks=2, epochs=4)
        return
    from highwaynet.search.ready import ready_study

    yield from _with_seeds("right", runs_of_study(ready_study("paper-mnist-finals")), seeds)
    if ranks > TOP:
        yield from _with_seeds("right", runs_of_study(ready_study("paper-mnist-more")), seeds, first_rank=TOP)


def searched_runs(seeds: int) -> Iterator[Run]:
    """At scale paper: 100 settings of each network, for 400 epochs; labels all-highway-10-TRIAL-SEED. Both panels choose from them.

    The settings are drawn anew, by another seed of the study than that of the short search.
    """
    from highwaynet.search.ready import ready_study

    study = ready_study("paper-mnist")
    changes = {"seed": FIRST_SEED, "run": study.run | {"training": study.run["training"] | {"epochs": 400}}}
    yield from _with_seeds("all", runs_of_study(study.model_copy(update=changes)), seeds, first_seed=0)


def _with_seeds(word: str, runs: Iterable[Run], seeds: int, *, first_rank: int = 0, first_seed: int = FIRST_SEED) -> Iterator[Run]:
    """Each run with several seeds: that of the study plus a number from the first one on. A label names the number of the seed."""
    for run, place in product(runs, range(seeds)):
        network, _, rank = run.label.rpartition("-")
        seed = (run.spec.seed + first_seed + place) % 2**63
        yield Run(f"{word}-{network}-{int(rank) + first_rank}-{FIRST_SEED + place}", run.spec.model_copy(update={"seed": seed}))


def _small(word: str, seeds: int, ranks: int, epochs: int) -> Iterator[Run]:
    networks: dict[str, tuple[dict[str, Any], float]] = {
        "highway": ({"name": "fc-highway", "width": 20, "gate_bias": -2.0}, 0.1),
        "plain": ({"name": "fc-plain", "width": 28}, 0.03),
    }
    training = {"batch_size": 16, "momentum": 0.9, "decay": 0.1, "epochs": epochs}
    for (kind, (network, rate)), depth, rank in product(networks.items(), DEPTHS["smoke"], range(ranks)):
        for seed in range(1, seeds + 1):
            spec = run_spec(network | {"depth": depth}, "digits", training | {"learning_rate": rate / 2**rank}, seed)
            yield Run(f"{word}-{kind}-{depth}-{rank}-{seed}", spec)


Groups = dict[tuple[int, ...], list["RunEvidence"]]
"""Runs by seed."""


def best_candidates(evidence: "Evidence", kind: str, depth: int) -> list["RunEvidence"]:
    """The runs from which the left panel chooses, the best first."""
    candidates = evidence.labelled(f"all-{kind}-{depth}") or evidence.labelled(f"left-{kind}-{depth}")
    return sorted(candidates, key=lambda run: run.best_loss)


def finalists(evidence: "Evidence", kind: str, depth: int) -> Groups:
    """The runs with the ten best settings of the search, also those that diverged; at scale paper the ten best runs."""
    if all_runs := evidence.by_seed(f"all-{kind}-{depth}", ranked=True):
        return {seed: sorted(runs, key=lambda run: run.best_loss)[:TOP] for seed, runs in all_runs.items()}
    return {seed: runs[:TOP] for seed, runs in evidence.by_seed(f"right-{kind}-{depth}", ranked=True).items()}


def ten_best(evidence: "Evidence", kind: str, depth: int) -> Groups:
    """The ten runs with the lowest training losses; one that diverged is not among them, so that there may be fewer."""
    groups = evidence.by_seed(f"all-{kind}-{depth}", ranked=True) or evidence.by_seed(f"right-{kind}-{depth}", ranked=True)
    return {seed: sorted((run for run in runs if run.finished), key=lambda run: run.best_loss)[:TOP] for seed, runs in groups.items()}
