"""How much depth a problem needs: the networks of figures 2 to 4, with layers removed one by one."""

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from highwaynet.analysis.analysis_records import DepthRecord
from highwaynet.experiments.claims import Claim, Row, spread
from highwaynet.experiments.inside_networks import (
    BOTH,
    CIFAR,
    DESCRIBED,
    MNIST,
    NOTES,
    SEEN,
    Judgement,
    LookedAt,
    headline,
    planner,
    rule,
    smaller_on_cifar,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence, RunEvidence

POINTS = 1.0
"""Percentage points of training accuracy that may be lost."""
ENOUGH = f"with which the accuracy on these samples is at most {POINTS:g} percentage point below the intact one"
HOW = (
    "layers are removed one by one, always the one whose removal raises the loss of 4,000 training samples least, without further training"
)


def _depth(run: "RunEvidence") -> DepthRecord:
    return run.record("depth", DepthRecord)


def _needed(run: "RunEvidence") -> int:
    return _depth(run).needed(POINTS)


def _few_are_enough(run: "RunEvidence") -> Judgement:
    needed, layers = _needed(run), len(_depth(run).removed)
    return 2 * needed < layers, (needed,)


def _most_are_needed(run: "RunEvidence") -> Judgement:
    needed, layers = _needed(run), len(_depth(run).removed)
    return 2 * needed > layers, (needed,)


def _removable(network: LookedAt, run: "RunEvidence") -> float:
    return float(len(_depth(run).removed) - _needed(run))


RULES = (
    rule(
        MNIST,
        "needed depth",
        "on MNIST most layers can be removed",
        f"fewer than half of the highway layers are needed: the fewest {ENOUGH}, if {HOW}",
        _few_are_enough,
        "{} layers are needed",
        "{:g}".format,
    ),
    rule(
        CIFAR,
        "needed depth",
        "on CIFAR-100 most layers matter",
        f"more than half of the highway layers are needed: the fewest {ENOUGH}, if {HOW}",
        _most_are_needed,
        "{} layers are needed",
        "{:g}".format,
    ),
    smaller_on_cifar(
        "fewer can be removed",
        "more complex data need more depth",
        "the number of layers that are not needed, in the median over the seeds, is smaller on CIFAR-100 than on MNIST",
        _removable,
        "{:g}".format,
    ),
)


def _rows(evidence: "Evidence") -> list[Row]:
    """How many layers are needed by other measures."""
    rows = []
    for one in BOTH:
        if runs := one.finished(evidence):
            for points in (0.1, 1.0, 5.0):
                counts = [float(_depth(run).needed(points)) for run in runs]
                what = f"{one.title}: layers needed to lose at most {points:g} points of training accuracy"
                rows.append(Row(what, "not given", f"{spread(counts, '{:g}'.format)} of {len(_depth(runs[0]).removed)}"))
    return rows


def _draw(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    """The first seed of each that did not diverge."""
    from highwaynet.figures.captions import caption
    from highwaynet.figures.lesion_plot import draw_depth

    records = [_depth(runs[0]) for one in BOTH if (runs := one.finished(evidence))]
    return {"needed-depth": (draw_depth(records), caption(*records))} if records else {}


def _median(network: LookedAt, runs: Sequence["RunEvidence"]) -> str:
    return f"{statistics.median(_needed(run) for run in runs):g} ({network.title})"


NEEDED_DEPTH = Claim(
    "needed-depth",
    "Section 5: how much depth a problem needs",
    f"Highway networks allow us to examine how much computation depth is needed for a given problem ({DESCRIBED}).",
    planner(("depth",)),
    RULES,
    _draw,
    _rows,
    notes=NOTES,
    seen=f"{SEEN}, with their single lesions, and removal curves of a network trained on MNIST with other settings",
    short="depth a problem needs",
    headline=headline("needed of 49: {}", ", ", _median),
)
