"""Figure 3: gates by class; figure 4: lesioning single layers."""

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from highwaynet.analysis.analysis_records import LesionsRecord, RoutingRecord
from highwaynet.base.arrays import Numbers
from highwaynet.base.text import percent
from highwaynet.experiments.claims import Claim, Row, ratio, times
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

IDLE = 1.5
"""A layer is idle if the loss without it is at most this many times the intact one."""


def _routing(run: "RunEvidence") -> RoutingRecord:
    return run.record("routing", RoutingRecord)


def _lesions(run: "RunEvidence") -> LesionsRecord:
    return run.record("lesions", LesionsRecord)


def half_of_the_squares(squares: Numbers) -> float:
    """The smallest share of the values that holds half of their sum.

    >>> half_of_the_squares(np.array([8.0, 4.0, 2.0, 2.0])), half_of_the_squares(np.ones(4)), half_of_the_squares(np.zeros(4))
    (0.25, 0.5, 1.0)
    """
    sums = np.cumsum(np.sort(squares.astype(float).ravel())[::-1])
    if sums[-1] == 0:
        return 1.0
    return float(np.searchsorted(sums, 0.5 * sums[-1]) + 1) / len(sums)


def near(record: LesionsRecord, times: float) -> list[int]:
    """The layers without which the loss is at most this many times the intact network's."""
    return [number for number, score in enumerate(record.closed, start=1) if score.loss <= times * record.intact.loss]


def _differences(network: LookedAt, run: "RunEvidence") -> Numbers:
    """Squared differences of the two classes' mean gates from the mean over all samples, (layers, blocks)."""
    routing = _routing(run)
    squares: Numbers = np.square(routing.class_mean[list(network.classes)] - routing.mean).sum(axis=0)
    return squares


def _shares(network: LookedAt, run: "RunEvidence", *ends: int) -> tuple[float, ...]:
    """The shares of these squares in the layers before each end."""
    layers = _differences(network, run).sum(axis=1)
    return tuple(float(part.sum() / (layers.sum() or 1.0)) for part in np.split(layers, ends))


def _routes(run: "RunEvidence") -> Judgement:
    routing = _routing(run)
    intact, static = routing.intact.accuracy or 0.0, routing.static.accuracy or 0.0
    return intact - static > 0.1, (intact, static, float(routing.class_share.mean()))


def _early(run: "RunEvidence") -> Judgement:
    share = _shares(MNIST, run, 15)[0]
    return share > 0.5, (share,)


def _spread_out(run: "RunEvidence") -> Judgement:
    """Thirds of 49 layers: 17, 16 and 16."""
    thirds = _shares(CIFAR, run, 17, 33)
    return min(thirds) >= 0.15, thirds


_ROUTES = (
    "routes",
    "samples take different routes: the gates look at the input",
    "gates that do not look at the input (every gate held at its mean) cost more than 10 points of training accuracy",
    _routes,
    "with every gate at its mean the training accuracy falls from {} to {}; {} of what the input does to the gates lies between classes",
    percent,
    percent,
    percent,
)
FIG3_RULES = (
    rule(MNIST, *_ROUTES),
    rule(
        MNIST,
        "where",
        "differences between classes (0 and 7) lie within the first 15 layers",
        "more than half of the squared differences do",
        _early,
        "{} of the squared differences lie in the first 15 layers (evenly: 30.61\u00a0%)",
        percent,
    ),
    rule(CIFAR, *_ROUTES),
    rule(
        CIFAR,
        "where",
        "differences between classes (0 and 1) are spread over all layers",
        "each third of the layers holds at least 15 % of the squared differences",
        _spread_out,
        "first third {}, second {}, last {}",
        percent,
        percent,
        percent,
    ),
    smaller_on_cifar(
        "sparser",
        "the differences are sparser on CIFAR-100 than on MNIST",
        "the share of the gates that holds half of the squared differences is smaller on CIFAR-100 than on MNIST, in the median over the "
        "seeds",
        lambda network, run: half_of_the_squares(_differences(network, run)),
        percent,
    ),
)


def _losses(run: "RunEvidence") -> tuple[list[float], float]:
    """Without each layer, and intact."""
    record = _lesions(run)
    return [score.loss for score in record.closed], record.intact.loss


def _idle(run: "RunEvidence") -> Judgement:
    record = _lesions(run)
    layers = near(record, IDLE)
    share = len(layers) / len(record.closed)
    return 0.45 <= share <= 0.75, (len(layers), share, sum(15 <= number <= 45 for number in layers))


def _early_layers_matter(run: "RunEvidence") -> Judgement:
    losses, intact = _losses(run)
    early, middle = (ratio(statistics.median(part), intact) for part in (losses[:9], losses[14:45]))
    return early > 2 * middle, (early, middle)


def _busy(run: "RunEvidence") -> Judgement:
    idle = near(_lesions(run), IDLE)
    first, last = (sum(number not in idle for number in part) for part in (range(1, 41), range(41, 50)))
    return first >= 36, (first, last)


def _first_forty_matter(run: "RunEvidence") -> Judgement:
    losses, intact = _losses(run)
    first, last = (ratio(statistics.median(part), intact) for part in (losses[:40], losses[40:]))
    return first > 2 * last, (first, last)


FIG4_RULES = (
    rule(
        MNIST,
        "idle layers",
        "about 60 % of the layers do not contribute to the result",
        f"between 45 % and 75 % are idle: without one of them the loss is at most {IDLE:g} times the intact one",
        _idle,
        "{} of 49 layers are idle ({}), and {} of the 31 layers 15–45",
        "{:g}".format,
        percent,
        "{:g}".format,
    ),
    rule(
        MNIST,
        "early layers",
        "the error rises if one of the early layers is removed; layers 15–45 have close to no effect",
        "the median loss without one of the layers 1–9 is more than twice that without one of the layers 15–45",
        _early_layers_matter,
        "{} the intact loss without one of the layers 1–9, {} without one of 15–45",
        times,
        times,
    ),
    rule(
        CIFAR,
        "busy layers",
        "removing any of the first ≈40 layers hurts",
        f"without a layer the loss is more than {IDLE:g} times the intact one, for at least 36 of the first 40 layers",
        _busy,
        "it hurts for {} of the first 40 layers, and for {} of the last 9",
        "{:g}".format,
        "{:g}".format,
    ),
    rule(
        CIFAR,
        "first layers",
        "the first ≈40 layers matter more than the last ones",
        "the median loss without one of the first 40 layers is more than twice that without one of the last 9",
        _first_forty_matter,
        "{} the intact loss without one of the first 40 layers, {} without one of the last 9",
        times,
        times,
    ),
)


def _lesion_rows(evidence: "Evidence") -> list[Row]:
    """How many layers are idle by other measures."""
    rows = []
    for one, paper in ((MNIST, "about 60 % idle"), (CIFAR, "the first ≈40 matter")):
        for run in one.finished(evidence)[:1]:
            counts = ", ".join(str(len(near(_lesions(run), times))) for times in (1.01, 1.1, 1.5, 2))
            what = f"{one.title}, first seed: layers within 1.01, 1.1, 1.5, 2 × the intact loss"
            rows.append(Row(what, paper, f"{counts} of {len(_lesions(run).closed)}"))
    return rows


def _draw_routes(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    """The first seed of each that did not diverge."""
    from highwaynet.figures.captions import caption
    from highwaynet.figures.routing_plot import draw_routing

    records = [(one, _routing(runs[0])) for one in BOTH if (runs := one.finished(evidence))]
    return {f"fig3-{one.label}": (draw_routing(record, one.classes), caption(record)) for one, record in records}


def _draw_lesions(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    """The first seed of each that did not diverge."""
    from highwaynet.figures.captions import caption
    from highwaynet.figures.lesion_plot import draw_lesions

    records = {one.label: _lesions(runs[0]) for one in BOTH if (runs := one.finished(evidence))}
    return {f"fig4-{label}": (draw_lesions(record), caption(record)) for label, record in records.items()}


def _fixed_gates(network: LookedAt, runs: Sequence["RunEvidence"]) -> str:
    return f"{100 * statistics.median(_routing(run).static.accuracy or 0.0 for run in runs):.0f} % ({network.title})"


def _idle_layers(network: LookedAt, runs: Sequence["RunEvidence"]) -> str:
    count = statistics.median(len(near(_lesions(run), IDLE)) for run in runs)
    return f"{count:g} ({network.title})"


FIG3 = Claim(
    "fig3",
    "Figure 3: gates by class",
    f"Samples take different routes; classes differ in the first layers on MNIST, in all on CIFAR-100 ({DESCRIBED}).",
    planner(("routing",)),
    FIG3_RULES,
    _draw_routes,
    notes=NOTES,
    seen=SEEN,
    short="samples take different routes",
    headline=headline("fixed gates: {}", ", ", _fixed_gates),
)
FIG4 = Claim(
    "fig4",
    "Figure 4: lesioning single layers",
    f"On MNIST most layers are idle, on CIFAR-100 the first 40 matter ({DESCRIBED}).",
    planner(("lesions",)),
    FIG4_RULES,
    _draw_lesions,
    _lesion_rows,
    notes=NOTES | {"laptop": f"{NOTES['laptop']} What counts as idle was chosen on the runs with seed 1."},
    seen=SEEN,
    short="most layers idle on MNIST",
    headline=headline("idle of 49: {}", ", ", _idle_layers),
)
