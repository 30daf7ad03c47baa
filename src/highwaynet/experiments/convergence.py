"""How fast highway and plain networks converge, and which is ahead at 10 layers: the finalists of figure 1."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from highwaynet.base.text import loss_text
from highwaynet.experiments.claims import NOT_RUN, Claim, Outcome, Rule, Run, Scale, decided, most, spread, with_seeds
from highwaynet.experiments.finalists import (
    DEPTHS,
    KINDS,
    REST,
    SEARCHED,
    SEEN,
    SMOKE_NOTE,
    TOP,
    Groups,
    finalist_runs,
    finalists,
    searched_runs,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence, RunEvidence

LOSSES = (0.1, 0.03, 0.01)
"""Training losses that tell how fast a network converges."""


def _planner(*depths: int) -> Callable[[Scale, int | None], tuple[Run, ...]]:
    """The finalists of some depths, or of all."""

    def plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
        runs = searched_runs(seeds or 1) if scale == "paper" else finalist_runs(scale, seeds or 1, TOP)
        return tuple(run for run in runs if not depths or run.spec.network.depth in depths)

    return plan


def epochs_until(run: "RunEvidence", loss: float) -> float:
    """The first epoch whose training loss is below; infinite if there is none, or if the run diverged."""
    if not run.finished:
        return math.inf
    return next((number for number, value in enumerate(run.losses, start=1) if value < loss), math.inf)


def _word(epochs: float) -> str:
    return "never" if math.isinf(epochs) else f"{epochs:g}"


def _both(evidence: "Evidence", depth: int) -> list[tuple[list["RunEvidence"], list["RunEvidence"]]]:
    """Highway and plain finalists of a depth, seed by seed."""
    highway, plain = (finalists(evidence, kind, depth) for kind in KINDS)
    return [(runs, plain[seed]) for seed, runs in highway.items() if seed in plain]


def _median_epochs(runs: Sequence["RunEvidence"], loss: float) -> float:
    return statistics.median(epochs_until(run, loss) for run in runs)


def _is_faster(highway: Sequence["RunEvidence"], plain: Sequence["RunEvidence"]) -> bool:
    return all(_median_epochs(highway, loss) < _median_epochs(plain, loss) for loss in LOSSES)


def _faster(depth: int) -> Callable[["Evidence"], Outcome]:
    def judge(evidence: "Evidence") -> Outcome:
        if not (pairs := _both(evidence, depth)):
            return NOT_RUN
        holds = [_is_faster(*pair) for pair in pairs]
        texts = []
        for loss in LOSSES:
            highway, plain = (spread([_median_epochs(pair[side], loss) for pair in pairs], _word) for side in (0, 1))
            texts.append(f"{highway} to {loss:g} (plain {plain})")
        return decided(most(holds), f"{with_seeds(holds)}median epochs of highway: {', '.join(texts)}", len(pairs))

    return judge


def _speed_headline(evidence: "Evidence") -> str:
    known = [pairs for depth in DEPTHS[evidence.scale] if (pairs := _both(evidence, depth))]
    holds = [most([_is_faster(*pair) for pair in pairs]) for pairs in known]
    return f"faster at {sum(holds)} of {len(holds)} depths" if holds else "not run"


def _draw_speed(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.optimisation_plot import draw_speed

    epochs: dict[tuple[str, int], dict[float, list[float]]] = {}
    for kind, depth in product(KINDS, DEPTHS[evidence.scale]):
        runs = [run for group in finalists(evidence, kind, depth).values() for run in group]
        if runs:
            epochs[kind, depth] = {loss: [epochs_until(run, loss) for run in runs] for loss in LOSSES}
    if not epochs:
        return {}
    text = (
        f"Epochs until the training loss on {next(iter(evidence)).spec.data.title} is below {', '.join(f'{loss:g}' for loss in LOSSES)}: "
        "median and quartiles of the finalists. At the top: at least half never came so low."
    )
    return {"convergence": (draw_speed(epochs), text)}


CONVERGENCE = Claim(
    "convergence",
    "Section 3.1: highway networks converge faster",
    "Highway networks consistently converge faster than plain ones of the same depth (MNIST).",
    _planner(),
    tuple(
        Rule(
            f"{depth} layers",
            "highway networks consistently converged significantly faster than plain ones",
            "the median, over the ten finalists, of the epochs until the training loss is below 0.1, 0.03 and 0.01 is smaller for highway "
            "than for plain at all three thresholds; never, or a run that diverged, counts as infinitely long, and if both medians are "
            "infinite, highway's is not smaller",
            _faster(depth),
        )
        for depth in DEPTHS["laptop"]
    ),
    _draw_speed,
    notes={
        "smoke": SMOKE_NOTE,
        "laptop": f"the runs of figure 1, right. {SEARCHED}; the finalists are the ten best, run for 40 epochs. {REST}",
        "paper": "100 random settings for each depth and kind, drawn anew, 400 epochs each; the finalists are the ten best runs.",
    },
    seen=SEEN,
    short="highway converges faster",
    headline=_speed_headline,
)


def _median_losses(groups: Groups) -> list[float]:
    return [statistics.median(run.best_loss for run in runs) for runs in groups.values()]


def _ahead(evidence: "Evidence") -> Outcome:
    if not (pairs := _both(evidence, 10)):
        return NOT_RUN
    losses = [[statistics.median(run.best_loss for run in runs) for runs in pair] for pair in pairs]
    holds = [plain < highway for highway, plain in losses]
    highway, plain = (spread([pair[side] for pair in losses], loss_text) for side in (0, 1))
    return decided(most(holds), f"{with_seeds(holds)}plain-10 {plain}, highway-10 {highway}", len(pairs))


def _ahead_headline(evidence: "Evidence") -> str:
    if not _both(evidence, 10):
        return "not run"
    highway, plain = (statistics.median(_median_losses(finalists(evidence, kind, 10))) for kind in KINDS)
    return f"loss {loss_text(plain)}, highway {loss_text(highway)}"


def _draw_ahead(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.small_plots import draw_losses

    losses = {f"{kind}, 10 layers": [run.best_loss for runs in finalists(evidence, kind, 10).values() for run in runs] for kind in KINDS}
    text = f"Lowest training losses of the finalists with 10 layers on {next(iter(evidence)).spec.data.title}; a line at their median."
    return {"shallow": (draw_losses(losses, "lowest training loss"), text)}


SHALLOW = Claim(
    "shallow",
    "The 2016 report: plain networks are ahead at 10 layers",
    "With 10 layers the plain network did better than the highway network, as in figure 1 of the paper (MNIST).",
    _planner(10),
    (
        Rule(
            "10 layers",
            "for 10 layers the plain network outperformed the highway network",
            "the median, over the ten finalists, of the lowest training losses is lower for plain-10 than for highway-10",
            _ahead,
        ),
    ),
    _draw_ahead,
    notes={
        "smoke": SMOKE_NOTE,
        "laptop": f"the runs of figure 1, right, with 10 layers. {SEARCHED}; the finalists are the ten best, run for 40 epochs.",
        "paper": "100 random settings for each kind, drawn anew, 400 epochs each; the finalists are the ten best runs.",
    },
    source="the 2016 report",
    seen=SEEN,
    short="plain ahead at 10 layers",
    headline=_ahead_headline,
)
