"""Figure 2: gate biases, mean gates, and gates and outputs of one sample."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from highwaynet.analysis.analysis_records import GatesRecord
from highwaynet.base.arrays import Numbers
from highwaynet.base.text import percent
from highwaynet.experiments.claims import Claim, Rule, ratio
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
from highwaynet.figures.findings import number_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence, RunEvidence


def _gates(run: "RunEvidence") -> GatesRecord:
    return run.record("gates", GatesRecord)


def rank_correlation(values: Numbers) -> float:
    """Of a number for each layer with the layer's own number (Spearman; equal numbers share their mean rank).

    >>> rank_correlation(np.array([1.0, 2.0, 5.0])), rank_correlation(np.array([3.0, 2.0, 1.0])), rank_correlation(np.array([1.0, 1.0]))
    (1.0, -1.0, 0.0)
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    if len(count) < 2:
        return 0.0
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    return round(float(np.corrcoef(np.arange(len(values)), ranks)[0, 1]), 12)


def change_within(outputs: Numbers, first: int) -> float:
    """Which share of the way from the first to the last block outputs lies in the first layers, for one sample."""
    steps = np.abs(np.diff(outputs.astype(float), axis=0)).sum(axis=1)
    return float(steps[: first - 1].sum() / (steps.sum() or 1.0))


def _open_gates(run: "RunEvidence") -> float:
    """The share of the gates that one sample opens."""
    return float(np.mean(_gates(run).sample_gates > 0.5))


def _biases(run: "RunEvidence") -> Judgement:
    gates = _gates(run)
    return gates.fell > 0.5, (gates.fell, float(gates.bias.mean()))


def _few(run: "RunEvidence") -> Judgement:
    return _open_gates(run) < 0.1, (_open_gates(run),)


def _active(run: "RunEvidence") -> Judgement:
    gates = _gates(run)
    start = 1 / (1 + np.exp(-gates.start_bias.astype(float)))
    active = float(np.mean(gates.mean > start[:, None]))
    return active > 0.5, (active, float(np.mean(gates.mean > 0.5)))


def _stripes(layers: int) -> Callable[["RunEvidence"], Judgement]:
    def measure(run: "RunEvidence") -> Judgement:
        gates = _gates(run)
        share, later = change_within(gates.sample_outputs, layers), len(gates.bias) - layers
        factor = ratio(share / (layers - 1), (1 - share) / later)
        return share >= 2 / 3 and factor >= 2, (share, factor)

    return measure


def _rise(run: "RunEvidence") -> Judgement:
    rise = rank_correlation(_gates(run).bias.mean(axis=1))
    return rise > 0.3, (rise,)


def _fall(run: "RunEvidence") -> Judgement:
    fall = rank_correlation(_gates(run).mean.mean(axis=1))
    return fall < -0.3, (fall,)


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _gate_rules(network: LookedAt, layers: int) -> list[Rule]:
    return [
        rule(
            network,
            "biases",
            "most gate biases fall below their start",
            "more than half do",
            _biases,
            "{} are below their start; their mean is {}",
            percent,
            number_text,
        ),
        rule(
            network,
            "one sample",
            "few gates are active for one sample",
            "less than a tenth of the gates is above 0.5 for it",
            _few,
            "one sample opens {} of the gates above 0.5",
            percent,
        ),
        rule(
            network,
            "on average",
            "most gates are active on average (especially on CIFAR-100)",
            "more than half have a mean over all samples above what their bias gave at the start; the paper gives no threshold for active",
            _active,
            "{} have a mean above what their bias gave at the start, {} one above 0.5",
            percent,
            percent,
        ),
        rule(
            network,
            "stripes",
            f"outputs stay constant over many layers; most of the change lies in the first {layers}",
            f"at least two thirds of one sample's change of outputs lie in the first {layers} layers, and at least twice as much in a step "
            "from layer to layer there as in a later one",
            _stripes(layers),
            f"{{}} of the change lies in the first {layers} layers, {{}} times as much in a step there as in a later one",
            percent,
            "{:.2f}".format,
        ),
    ]


FIG2_RULES = (
    *_gate_rules(MNIST, 15),
    *_gate_rules(CIFAR, 40),
    rule(
        CIFAR,
        "biases rise",
        "the biases increase with depth",
        "the rank correlation of a layer's mean bias with its depth is above 0.3",
        _rise,
        "rank correlation {}",
        _signed,
    ),
    rule(
        CIFAR,
        "activity falls",
        "this gradient is inversely correlated with the average activity of the gates",
        "the rank correlation of a layer's mean gate with its depth is below −0.3",
        _fall,
        "rank correlation {}",
        _signed,
    ),
    smaller_on_cifar(
        "sparser",
        "gates are sparse for one sample, more so on CIFAR-100 than on MNIST",
        "the share of gates above 0.5, in the mean over all samples and the median over the seeds, is smaller on CIFAR-100 than on MNIST",
        lambda network, run: float(_gates(run).open_share.mean()),
        percent,
    ),
)


def _draw(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    """The first seed of each that did not diverge."""
    from highwaynet.figures.captions import caption
    from highwaynet.figures.gate_map import draw_gates

    records = {one.label: _gates(runs[0]) for one in BOTH if (runs := one.finished(evidence))}
    return {f"fig2-{label}": (draw_gates(record), caption(record)) for label, record in records.items()}


def _opened(network: LookedAt, runs: Sequence["RunEvidence"]) -> str:
    return f"{network.title} {100 * statistics.median(map(_open_gates, runs)):.2f}"


FIG2 = Claim(
    "fig2",
    "Figure 2: biases, mean gates, one sample's gates and outputs",
    f"Gates are sparse, chosen by the sample, and most layers carry ({DESCRIBED}).",
    planner(("gates",)),
    FIG2_RULES,
    _draw,
    notes=NOTES,
    seen=SEEN,
    short="few gates open at a time",
    headline=headline("{} %", ", ", _opened),
)
