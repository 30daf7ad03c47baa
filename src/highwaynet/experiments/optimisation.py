"""Figure 1, and the claim of faster convergence: highway and plain networks with 10 to 100 layers on MNIST."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from highwaynet.base.text import loss_text
from highwaynet.experiments.claims import (
    Claim,
    Outcome,
    Row,
    Rule,
    Run,
    Scale,
    Verdict,
    at_best_partly,
    at_least,
    at_most,
    counted,
    ratio,
    times,
)
from highwaynet.experiments.specs import run_spec, runs_of_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence, RunEvidence

DEPTHS = {"smoke": (10, 20), "laptop": (10, 20, 50, 100), "paper": (10, 20, 50, 100)}
KINDS = ("highway", "plain")
TOP = 10
FAST = 0.01
"""The training loss used to compare how fast networks converge."""
# Raw losses of the 2021 report after 400 epochs; its file for the 20-layer highway network is a copy of another one.
REPORT_2021 = {
    ("highway", 10): 1.8e-5,
    ("highway", 50): 1.4e-5,
    ("highway", 100): 1.2e-5,
    ("plain", 10): 1.2e-5,
    ("plain", 20): 1.1e-4,
    ("plain", 50): 2.3e-3,
    ("plain", 100): 0.18,
}


def _plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    """Plan the runs.

    Labels are left-highway-10-NUMBER (ranks of the settings, for each seed) and right-highway-10-RANK. At scale paper they are
    all-highway-10-TRIAL, from which both panels choose.
    """
    if scale == "smoke":
        return tuple(_smoke(seeds or 1))
    from highwaynet.search.ready import ready_study

    if scale == "paper":
        study = ready_study("paper-mnist")
        whole = study.model_copy(update={"run": study.run | {"training": study.run["training"] | {"epochs": 400}}})
        return tuple(_labelled("all", runs_of_study(whole)))
    best = ready_study("paper-mnist-best")
    left = []
    for run, seed in product(runs_of_study(best), range(seeds or 1)):
        network, _, rank = run.label.rpartition("-")
        spec = run.spec.model_copy(update={"seed": (run.spec.seed + seed) % 2**63})
        left.append(Run(f"left-{network}-{seed * best.trials + int(rank) + 1}", spec))
    return (*left, *_labelled("right", runs_of_study(ready_study("paper-mnist-finals"))))


def _labelled(word: str, runs: Iterable[Run]) -> Iterable[Run]:
    return (Run(f"{word}-{run.label}", run.spec) for run in runs)


def _smoke(seeds: int) -> Iterable[Run]:
    networks: dict[str, tuple[dict[str, Any], float]] = {
        "highway": ({"name": "fc-highway", "width": 20, "gate_bias": -2.0}, 0.1),
        "plain": ({"name": "fc-plain", "width": 28}, 0.03),
    }
    training = {"batch_size": 16, "momentum": 0.9, "decay": 0.1}
    for (kind, (network, rate)), depth in product(networks.items(), DEPTHS["smoke"]):
        deep = network | {"depth": depth}
        for seed in range(1, seeds + 1):
            yield Run(f"left-{kind}-{depth}-{seed}", run_spec(deep, "digits", training | {"epochs": 10, "learning_rate": rate}, seed))
        for rank in range(2):
            slower = training | {"epochs": 4, "learning_rate": rate / 2**rank}
            yield Run(f"right-{kind}-{depth}-{rank}", run_spec(deep, "digits", slower))


def _candidates(evidence: "Evidence", panel: str, kind: str, depth: int) -> list["RunEvidence"]:
    """Return the runs from which a panel chooses, the best first."""
    candidates = evidence.labelled(f"all-{kind}-{depth}") or evidence.labelled(f"{panel}-{kind}-{depth}")
    return sorted(candidates, key=lambda run: run.best_loss)


def _panel(evidence: "Evidence", panel: str, kind: str, depth: int) -> list["RunEvidence"]:
    """Return the runs of a panel, the best first."""
    return _candidates(evidence, panel, kind, depth)[: 1 if panel == "left" else TOP]


def _best(evidence: "Evidence", kind: str, depth: int) -> "RunEvidence":
    return _panel(evidence, "left", kind, depth)[0]


@dataclass(frozen=True)
class _Level:
    """The loss that the runs of a kind and depth reach in a panel."""

    name: str
    loss: float
    """Mean of the lowest training losses of the runs that did not diverge; if all did, the lowest before they diverged."""
    runs: int
    """Number of runs: on the left those from which the best is taken, on the right those that are averaged."""
    diverged: int
    """How many of these diverged."""
    uncertain: bool
    """Whether a run that counts diverged, so that it is unknown how low its loss would have become."""

    @property
    def number(self) -> str:
        """The loss and the number of diverged runs in words."""
        lost = f"{self.diverged} of {self.runs} diverged" if self.runs > 1 else "diverged"
        if math.isinf(self.loss):
            return lost
        return loss_text(self.loss) + (f" ({lost})" if self.diverged else "")

    def __str__(self) -> str:
        return f"{self.name} {self.number}"


def _levels(evidence: "Evidence", panel: str, kind: str) -> list[_Level]:
    """Return the level of each depth."""
    levels = []
    for depth in DEPTHS[evidence.scale]:
        runs = _panel(evidence, panel, kind, depth)
        losses = [run.best_loss for run in runs if run.finished] or [min(run.lowest_loss for run in runs)]
        told = _candidates(evidence, panel, kind, depth) if panel == "left" else runs
        lost = sum(not run.finished for run in told)
        uncertain = not all(run.finished for run in runs)
        levels.append(_Level(f"{kind}-{depth}", sum(losses) / len(losses), len(told), lost, uncertain))
    return levels


def _outcome(verdict: Verdict, levels: Sequence[_Level], more: str = "") -> Outcome:
    """Return the outcome with the levels in words; at best partly if a level is uncertain."""
    known = at_best_partly(verdict) if any(level.uncertain for level in levels) else verdict
    return Outcome(known, ", ".join(map(str, levels)) + more)


def _shallow(evidence: "Evidence") -> Outcome:
    levels = _levels(evidence, "left", "plain")[:2]
    return _outcome(counted([level.loss < 1e-4 for level in levels]), levels)


def _degrades(evidence: "Evidence") -> Outcome:
    levels = _levels(evidence, "left", "plain")
    best = min(level.loss for level in levels[:2])
    return _outcome(counted([ratio(level.loss, best) >= 10 for level in levels[2:]]), levels)


def _alike(evidence: "Evidence", panel: str) -> Outcome:
    levels = _levels(evidence, panel, "highway")
    losses = [level.loss for level in levels]
    factor = ratio(max(losses), min(losses))
    return _outcome(at_most(factor, 10, 100), levels, f": {times(factor)} the lowest" if math.isfinite(factor) else "")


def _below(evidence: "Evidence", panel: str, whole: float, part: float) -> Outcome:
    highway, plain = (_levels(evidence, panel, kind)[-1] for kind in KINDS)
    factor = ratio(plain.loss, highway.loss)
    return _outcome(at_least(factor, whole, part), [highway, plain], f": {times(factor)}" if math.isfinite(factor) else "")


_LOST = "; where the run that counts, or one of the ten, diverged: at best partly"


FIG1_RULES = (
    Rule(
        "plain, shallow",
        "plain networks with 10 and 20 layers go below 1e-4",
        "the best runs of both depths reach a training loss below 1e-4; one of them: partly" + _LOST,
        _shallow,
    ),
    Rule(
        "plain, deep",
        "plain networks degrade clearly with depth",
        "the lowest training losses with 50 and with 100 layers are at least 10 times that of the better one of 10 and 20 layers; one of "
        "them: partly" + _LOST,
        _degrades,
    ),
    Rule(
        "highway, all depths",
        "highway networks with 50 and 100 layers behave like those with 10 and 20",
        "the lowest training losses of the four depths lie within a factor of 10; of 100: partly" + _LOST,
        lambda evidence: _alike(evidence, "left"),
    ),
    Rule(
        "100 layers",
        "with 100 layers highway ends more than two orders of magnitude below plain",
        "the lowest training loss of highway-100 is at least 100 times below that of plain-100; 10 times: partly" + _LOST,
        lambda evidence: _below(evidence, "left", 100, 10),
    ),
    Rule(
        "ten best, highway",
        "right panel: the same for the mean of the ten best",
        "the means of the ten best of the four highway depths lie within a factor of 10; of 100: partly" + _LOST,
        lambda evidence: _alike(evidence, "right"),
    ),
    Rule(
        "ten best, 100 layers",
        "right panel: with 100 layers the ten best highway networks are far below the ten best plain ones",
        "the mean of the ten best plain-100 is at least 10 times that of the ten best highway-100; above it: partly" + _LOST,
        lambda evidence: _below(evidence, "right", 10, 1),
    ),
)


def _rows(evidence: "Evidence") -> list[Row]:
    rows = []
    for kind in KINDS:
        panels = (_levels(evidence, panel, kind) for panel in ("left", "right"))
        for depth, best, ten in zip(DEPTHS[evidence.scale], *panels, strict=True):
            report = REPORT_2021.get((kind, depth))
            known = f"{report:.1e} (2021 report)" if report and evidence.scale != "smoke" else "only drawn"
            rows.append(Row(f"{best.name}, best run, lowest training loss", known, best.number))
            rows.append(Row(f"{ten.name}, mean of the {ten.runs} best", "only drawn", ten.number))
    return rows


def _draw(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.optimisation_plot import draw_optimisation

    networks = list(product(KINDS, DEPTHS[evidence.scale]))
    left, right = ({network: _panel(evidence, panel, *network) for network in networks} for panel in ("left", "right"))
    spec = next(iter(evidence)).spec
    top = max(map(len, right.values()))
    text = (
        f"Figure 1 on {spec.data.title}: mean cross-entropy of each epoch, left of the best run of each kind and depth, right the mean of "
        f"the {top} best."
    )
    tried = [run for network in networks for run in _candidates(evidence, "left", *network)]
    if lost := sum(not run.finished for run in tried):
        text += f" On the left {lost} of {len(tried)} runs diverged; the best one of each network is drawn."
    if diverged := sum(not run.finished for runs in right.values() for run in runs):
        text += f" {diverged} of the runs on the right diverged; means are over the others."
    best, means = ({network: _mean_curve(runs) for network, runs in panel.items()} for panel in (left, right))
    return {"fig1": (draw_optimisation(best, means, top), text)}


def _mean_curve(runs: Sequence["RunEvidence"]) -> list[float]:
    """Return the mean curve of the runs that did not diverge; one that ended early would cut it short."""
    losses = [run.losses for run in runs if run.finished] or [runs[0].losses]
    return [sum(epoch) / len(losses) for epoch in zip(*losses, strict=False)]


def _headline(evidence: "Evidence") -> str:
    highway, plain = (_levels(evidence, "left", kind)[-1] for kind in KINDS)
    factor, depth = ratio(plain.loss, highway.loss), DEPTHS[evidence.scale][-1]
    if not math.isfinite(factor):
        return f"{highway}, {plain}"
    return f"{depth}-layer highway ends {factor:,.0f}× below {depth}-layer plain"


SEARCHED = "settings from a search of our own (100 random ones for each depth and kind, 5 epochs; the ten best 40 epochs)"
LEFT = "the better one of the two best of these ten for 400 epochs (with the best one alone highway-50 had diverged in epoch 23)"
REST = (
    "Settings are chosen after 5 epochs, when deep plain networks have hardly begun to train: a longer search might find better ones for "
    "them. Losses are means over each epoch, measured while training."
)
NOTES: dict[Scale, str] = {
    "smoke": "digits, networks 20 and 28 wide, depths 10 and 20, a few epochs: shows that everything works, says nothing about the paper.",
    "laptop": f"{SEARCHED}: left {LEFT}, right the ten best for 40. {REST}",
    "paper": "100 random settings for each depth and kind, 400 epochs each; both panels choose among them.",
}
SEEN = "the study's runs of 5 and of 40 epochs (results/paper-mnist)"
FIG1 = Claim(
    "fig1",
    "Figure 1: training with increasing depth",
    "Depth stops plain networks from being trained and leaves highway networks alone (MNIST, 10 to 100 layers).",
    _plan,
    FIG1_RULES,
    _draw,
    _rows,
    NOTES,
    seen=SEEN,
    short="over 100× lower at 100 layers",
    headline=_headline,
)


def _epochs_until(run: "RunEvidence", loss: float) -> float:
    """Return the first epoch with a training loss below `loss`; infinity if there is none."""
    return next((number for number, value in enumerate(run.losses, start=1) if value < loss), math.inf)


def _word(run: "RunEvidence") -> str:
    epochs = _epochs_until(run, FAST)
    return ("never" if math.isinf(epochs) else f"{epochs:.0f}") + ("" if run.finished else ", diverged")


def _pairs(evidence: "Evidence") -> dict[int, tuple["RunEvidence", "RunEvidence"]]:
    """Return the best highway and the best plain run of each depth."""
    return {depth: (_best(evidence, "highway", depth), _best(evidence, "plain", depth)) for depth in DEPTHS[evidence.scale]}


def _is_faster(highway: "RunEvidence", plain: "RunEvidence") -> bool:
    return highway.finished and _epochs_until(highway, FAST) < _epochs_until(plain, FAST)


def _faster(evidence: "Evidence") -> Outcome:
    pairs = _pairs(evidence)
    verdict = counted([_is_faster(*pair) for pair in pairs.values()], partly=2)
    if not all(plain.finished for _, plain in pairs.values()):
        verdict = at_best_partly(verdict)
    texts = [f"{depth} layers {_word(highway)} (plain {_word(plain)})" for depth, (highway, plain) in pairs.items()]
    return Outcome(verdict, "epochs until then, " + ", ".join(texts))


def _speed_headline(evidence: "Evidence") -> str:
    holds = [_is_faster(*pair) for pair in _pairs(evidence).values()]
    return f"faster to a training loss of {FAST} at {sum(holds)} of {len(holds)} depths"


def _plan_left(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    return tuple(run for run in _plan(scale, seeds) if not run.label.startswith("right-"))


def _draw_speed(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.optimisation_plot import draw_speed

    curves = {(kind, depth): _best(evidence, kind, depth).losses for kind in KINDS for depth in DEPTHS[evidence.scale]}
    text = f"The best run of each depth and kind on {next(iter(evidence)).spec.data.title}: epochs until the training loss is below {FAST}."
    return {"convergence": (draw_speed(curves, FAST), text)}


CONVERGENCE = Claim(
    "convergence",
    "Section 3.1: highway networks converge faster",
    "Highway networks converge faster than plain ones of the same depth (MNIST).",
    _plan_left,
    (
        Rule(
            "epochs to 0.01",
            "highway networks converge faster than plain ones",
            f"the best highway run reaches a training loss below {FAST} in fewer epochs than the best plain run, at all depths; at two: "
            "partly. A highway run that diverged does not count as faster; where a plain one diverged: at best partly",
            _faster,
        ),
    ),
    _draw_speed,
    notes=NOTES | {"laptop": f"the runs of figure 1, left; {SEARCHED}: {LEFT}. {REST}"},
    seen=SEEN,
    short="highway converges faster",
    headline=_speed_headline,
)
