"""Figure 1, and that highway networks converge faster: MNIST, 10 to 100 layers, highway beside plain."""

import math
from collections.abc import Iterable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

from highwaynet.base.text import loss_text
from highwaynet.experiments.claims import Claim, Outcome, Row, Rule, Run, Scale, at_least, at_most, counted, ratio, times
from highwaynet.experiments.specs import run_spec, runs_of_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence, RunEvidence

DEPTHS = {"smoke": (10, 20), "laptop": (10, 20, 50, 100), "paper": (10, 20, 50, 100)}
KINDS = ("highway", "plain")
TOP = 10
FAST = 0.01
"""A training loss that tells how fast a network converges."""
# The 2021 report's raw losses after 400 epochs; its file of the 20-layer highway network is a copy of another one.
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
    """Labels: left-highway-10-SEED and right-highway-10-RANK; at scale paper all-highway-10-TRIAL, of which both panels choose."""
    if scale == "smoke":
        return tuple(_smoke(seeds or 1))
    from highwaynet.search.ready import ready_study

    if scale == "paper":
        study = ready_study("paper-mnist")
        whole = study.model_copy(update={"run": study.run | {"training": study.run["training"] | {"epochs": 400}}})
        return tuple(_labelled("all", runs_of_study(whole)))
    left = [
        Run(f"left-{run.label.rpartition('-')[0]}-{seed}", run.spec.model_copy(update={"seed": (run.spec.seed + seed - 1) % 2**63}))
        for run in runs_of_study(ready_study("paper-mnist-best"))
        for seed in range(1, (seeds or 1) + 1)
    ]
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


def _panel(evidence: "Evidence", panel: str, kind: str, depth: int) -> list["RunEvidence"]:
    """The runs of a panel, the best first."""
    everything = evidence.labelled(f"all-{kind}-{depth}")
    chosen = everything or evidence.labelled(f"{panel}-{kind}-{depth}")
    ranked = sorted(chosen, key=lambda run: run.best_loss)
    return ranked[: 1 if panel == "left" else TOP]


def _best(evidence: "Evidence", kind: str, depth: int) -> "RunEvidence":
    return _panel(evidence, "left", kind, depth)[0]


def _ends(evidence: "Evidence", kind: str) -> list[float]:
    """The lowest training loss of the best run of each depth."""
    return [_best(evidence, kind, depth).best_loss for depth in DEPTHS[evidence.scale]]


def _means(evidence: "Evidence", kind: str) -> list[float]:
    """The mean of the ten best's lowest training losses, of each depth."""
    panels = (_panel(evidence, "right", kind, depth) for depth in DEPTHS[evidence.scale])
    return [sum(run.best_loss for run in runs) / len(runs) for runs in panels]


def _listed(kind: str, losses: list[float], depths: Iterable[int]) -> str:
    return ", ".join(f"{kind}-{depth} {_text(loss)}" for depth, loss in zip(depths, losses, strict=True))


def _text(loss: float) -> str:
    return "diverged" if math.isinf(loss) else loss_text(loss)


def _shallow(evidence: "Evidence") -> Outcome:
    ends = _ends(evidence, "plain")[:2]
    return Outcome(counted([loss < 1e-4 for loss in ends]), _listed("plain", ends, DEPTHS[evidence.scale][:2]))


def _degrades(evidence: "Evidence") -> Outcome:
    ends = _ends(evidence, "plain")
    deep = [ratio(loss, min(ends[:2])) for loss in ends[2:]]
    return Outcome(counted([factor >= 10 for factor in deep]), _listed("plain", ends, DEPTHS[evidence.scale]))


def _alike(losses: list[float], depths: Iterable[int], what: str) -> Outcome:
    factor = ratio(max(losses), min(losses))
    text = f": {times(factor)} the lowest" if math.isfinite(factor) else ""
    return Outcome(at_most(factor, 10, 100), _listed(what, losses, depths) + text)


def _below(highway: float, plain: float, whole: float, part: float, depth: int) -> Outcome:
    factor = ratio(plain, highway)
    text = f": {times(factor)}" if math.isfinite(factor) else ""
    return Outcome(at_least(factor, whole, part), f"highway-{depth} {_text(highway)}, plain-{depth} {_text(plain)}{text}")


FIG1_RULES = (
    Rule(
        "plain, shallow",
        "plain networks with 10 and 20 layers go below 1e-4",
        "the best runs of both depths reach a training loss below 1e-4; one of them: partly",
        _shallow,
    ),
    Rule(
        "plain, deep",
        "plain networks degrade clearly with depth",
        "the best runs with 50 and with 100 layers end at least 10 times above the better one of 10 and 20 layers; one of them: partly",
        _degrades,
    ),
    Rule(
        "highway, all depths",
        "highway networks with 50 and 100 layers behave like those with 10 and 20",
        "the best runs of the four depths end within a factor of 10; of 100: partly",
        lambda evidence: _alike(_ends(evidence, "highway"), DEPTHS[evidence.scale], "highway"),
    ),
    Rule(
        "100 layers",
        "with 100 layers highway ends more than two orders of magnitude below plain",
        "the best highway-100 ends at least 100 times below the best plain-100; 10 times: partly",
        lambda evidence: _below(_ends(evidence, "highway")[-1], _ends(evidence, "plain")[-1], 100, 10, DEPTHS[evidence.scale][-1]),
    ),
    Rule(
        "ten best, highway",
        "right panel: the same for the mean of the ten best",
        "the means of the ten best of the four highway depths lie within a factor of 10; of 100: partly",
        lambda evidence: _alike(_means(evidence, "highway"), DEPTHS[evidence.scale], "highway"),
    ),
    Rule(
        "ten best, 100 layers",
        "right panel: with 100 layers the ten best highway networks are far below the ten best plain ones",
        "the mean of the ten best plain-100 is at least 10 times that of the ten best highway-100; above it: partly",
        lambda evidence: _below(_means(evidence, "highway")[-1], _means(evidence, "plain")[-1], 10, 1, DEPTHS[evidence.scale][-1]),
    ),
)


def _rows(evidence: "Evidence") -> list[Row]:
    rows = []
    for kind in KINDS:
        for depth, end, mean in zip(DEPTHS[evidence.scale], _ends(evidence, kind), _means(evidence, kind), strict=True):
            report = REPORT_2021.get((kind, depth))
            known = f"{report:.1e} (2021 report)" if report and evidence.scale != "smoke" else "only drawn"
            count = len(_panel(evidence, "right", kind, depth))
            rows.append(Row(f"{kind}-{depth}, best run, lowest training loss", known, _text(end)))
            rows.append(Row(f"{kind}-{depth}, mean of the {count} best", "only drawn", _text(mean)))
    return rows


def _draw(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.optimisation_plot import draw_optimisation

    panels = []
    for panel in ("left", "right"):
        curves = {}
        for kind in KINDS:
            for depth in DEPTHS[evidence.scale]:
                chosen = _panel(evidence, panel, kind, depth)
                # A mean over runs of which one ended early would end there too.
                runs = [run.losses for run in chosen if run.finished] or [chosen[0].losses]
                length = min(map(len, runs))
                curves[kind, depth] = [sum(losses[epoch] for losses in runs) / len(runs) for epoch in range(length)]
        panels.append(curves)
    spec = next(iter(evidence)).spec
    top = max(len(_panel(evidence, "right", kind, depth)) for kind in KINDS for depth in DEPTHS[evidence.scale])
    text = f"Figure 1 on {spec.data.title}: left the best run of each depth and kind, right the mean of the {top} best."
    if lost := [f"{kind}-{depth}" for kind in KINDS for depth in DEPTHS[evidence.scale] if not _best(evidence, kind, depth).finished]:
        text += f" On the left diverged: {', '.join(lost)}."
    shown = [run for kind in KINDS for depth in DEPTHS[evidence.scale] for run in _panel(evidence, "right", kind, depth)]
    if diverged := sum(not run.finished for run in shown):
        text += f" {diverged} of the runs on the right diverged; means are over the others."
    return {"fig1": (draw_optimisation(panels[0], panels[1], top), text)}


NOTES: dict[Scale, str] = {
    "smoke": "digits, networks 20 and 28 wide, depths 10 and 20, a few epochs: shows that everything works, says nothing about the paper.",
    "laptop": "settings from a search of our own (100 random ones for each depth and kind, 5 epochs; the ten best 40 epochs): left the "
    "best of those ten for 400 epochs, right the ten best for 40. Settings are chosen after 5 epochs, when deep plain networks have hardly "
    "begun to train: a longer search might find better ones for them.",
    "paper": "100 random settings for each depth and kind, 400 epochs each; both panels choose among them.",
}
FIG1 = Claim(
    "fig1",
    "Figure 1: training with increasing depth",
    "Depth stops plain networks from being trained and leaves highway networks alone (MNIST, 10 to 100 layers).",
    _plan,
    FIG1_RULES,
    _draw,
    _rows,
    NOTES,
)


def _epochs_until(run: "RunEvidence", loss: float) -> float:
    """The first epoch whose training loss is below; infinite where there is none."""
    return next((number for number, value in enumerate(run.losses, start=1) if value < loss), math.inf)


def _word(epochs: float) -> str:
    return "never" if math.isinf(epochs) else f"{epochs:.0f}"


def _faster(evidence: "Evidence") -> Outcome:
    pairs = [tuple(_epochs_until(_best(evidence, kind, depth), FAST) for kind in KINDS) for depth in DEPTHS[evidence.scale]]
    texts = [
        f"{depth} layers {_word(highway)} (plain {_word(plain)})"
        for depth, (highway, plain) in zip(DEPTHS[evidence.scale], pairs, strict=True)
    ]
    return Outcome(counted([highway < plain for highway, plain in pairs], partly=2), "epochs until then, " + ", ".join(texts))


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
            "partly",
            _faster,
        ),
    ),
    _draw_speed,
    notes=NOTES,
)
