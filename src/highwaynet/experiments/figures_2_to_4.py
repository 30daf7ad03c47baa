"""Figures 2, 3 and 4: inside 50-layer highway networks trained on MNIST and CIFAR-100."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from highwaynet.analysis.analysis_records import GatesRecord, LesionsRecord, RoutingRecord
from highwaynet.base.arrays import Numbers
from highwaynet.base.text import percent
from highwaynet.experiments.claims import Analysis, Claim, Outcome, Rule, Run, Scale, at_best_partly, counted, ratio, times
from highwaynet.experiments.specs import run_spec
from highwaynet.figures.findings import number_text, same_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence

    Judge = Callable[[Evidence], Outcome]

IDLE = 1.5
"""A layer is idle if the loss without it is at most this many times the intact one."""


@dataclass(frozen=True)
class LookedAt:
    """One of the two networks that the figures show."""

    label: str
    """Label of its run."""
    title: str
    data: str
    gate_bias: float
    training: dict[str, Any]
    classes: tuple[int, int]
    """The classes in figure 3."""


MNIST = LookedAt("mnist", "MNIST", "mnist", -2.0, {"epochs": 60, "learning_rate": 0.1, "decay": 0.1}, (0, 7))
CIFAR = LookedAt("cifar-100", "CIFAR-100", "cifar-100", -4.0, {"epochs": 1000, "learning_rate": 0.015, "decay": 0.03}, (0, 1))
SMOKE = {"epochs": 5, "learning_rate": 0.1, "decay": 0.5}


def _planner(analyses: tuple[Analysis, ...]) -> Callable[[Scale, int | None], tuple[Run, ...]]:
    """Return the plan: the same two runs for all three figures, with one seed."""

    def plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
        smoke = scale == "smoke"
        runs = []
        for one in (MNIST, CIFAR):
            network = {"name": "fc-highway", "depth": 50, "width": 10 if smoke else 50, "activation": "tanh", "gate_bias": one.gate_bias}
            training = {"batch_size": 32, "momentum": 0.9} | (SMOKE if smoke else one.training)
            runs.append(Run(one.label, run_spec(network, "digits" if smoke else one.data, training), analyses))
        return tuple(runs)

    return plan


def _gates(evidence: "Evidence", network: LookedAt) -> GatesRecord:
    return evidence[network.label].record("gates", GatesRecord)


def _routing(evidence: "Evidence", network: LookedAt) -> RoutingRecord:
    return evidence[network.label].record("routing", RoutingRecord)


def _lesions(evidence: "Evidence", network: LookedAt) -> LesionsRecord:
    return evidence[network.label].record("lesions", LesionsRecord)


def rank_correlation(values: Numbers) -> float:
    """Return Spearman's rank correlation of values by layer with the number of the layer; equal values share their mean rank.

    >>> rank_correlation(np.array([1.0, 2.0, 5.0])), rank_correlation(np.array([3.0, 2.0, 1.0])), rank_correlation(np.array([1.0, 1.0]))
    (1.0, -1.0, 0.0)
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    if len(count) < 2:
        return 0.0
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    return round(float(np.corrcoef(np.arange(len(values)), ranks)[0, 1]), 12)


def change_within(outputs: Numbers, first: int) -> float:
    """Return the share of the total change of block outputs from layer to layer that is in the first layers, for one sample."""
    steps = np.abs(np.diff(outputs.astype(float), axis=0)).sum(axis=1)
    return float(steps[: first - 1].sum() / (steps.sum() or 1.0))


def near(record: LesionsRecord, times: float) -> list[int]:
    """Return the layers without which the loss is at most `times` that of the intact network."""
    return [number for number, score in enumerate(record.closed, start=1) if score.loss <= times * record.intact.loss]


def _biases(evidence: "Evidence", network: LookedAt) -> Outcome:
    gates = _gates(evidence, network)
    start, mean = number_text(float(gates.start_bias[0])), number_text(float(gates.bias.mean()))
    found = f"{percent(gates.fell)} of {gates.bias.size:,} biases are below {start}; their mean is {mean}"
    return Outcome(counted([gates.fell > 0.5]), found)


def _biases_rise(evidence: "Evidence", network: LookedAt) -> Outcome:
    gates = _gates(evidence, network)
    rise, fall = rank_correlation(gates.bias.mean(axis=1)), rank_correlation(gates.mean.mean(axis=1))
    return Outcome(counted([rise > 0.3, fall < -0.3]), f"biases {rise:+.2f}, activity {fall:+.2f}".replace("-", "−"))


def _sparse(evidence: "Evidence", network: LookedAt) -> Outcome:
    gates = _gates(evidence, network)
    start = 1 / (1 + np.exp(-gates.start_bias.astype(float)))
    one, active = float(np.mean(gates.sample_gates > 0.5)), float(np.mean(gates.mean > start[:, None]))
    opened = int((gates.sample_gates > 0.5).sum())
    found = (
        f"sample {gates.sample} opens {opened} of {gates.bias.size:,} gates above 0.5 ({percent(one)}), while {percent(active)} are on "
        f"average more open than at the start; {percent(float(np.mean(gates.mean > 0.5)))} have a mean above 0.5, and on average over all "
        f"samples {percent(float(gates.open_share.mean()))} are open"
    )
    return Outcome(counted([one < 0.1, active > 0.5]), found)


def _stripes(layers: int) -> Callable[["Evidence", LookedAt], Outcome]:
    def judge(evidence: "Evidence", network: LookedAt) -> Outcome:
        gates = _gates(evidence, network)
        share, later = change_within(gates.sample_outputs, layers), len(gates.bias) - layers
        factor = ratio(share / (layers - 1), (1 - share) / later)
        first = f"{percent(share)} of the change from layer to layer lies in the first {layers} of {len(gates.bias)} layers"
        found = f"{first}, {factor:.2f} times as much in a step there as in a later one"
        return Outcome("reproduced" if share >= 2 / 3 and factor >= 2 else "partly" if factor > 1 else "not reproduced", found)

    return judge


def _routes(evidence: "Evidence", network: LookedAt) -> Outcome:
    routing = _routing(evidence, network)
    between = float(routing.class_share.mean())
    intact, static = routing.intact.accuracy or 0.0, routing.static.accuracy or 0.0
    found = (
        f"with every gate held at its mean the training accuracy falls from {percent(intact)} to {percent(static)}; "
        f"{percent(between)} of what the input does to the gates lies between classes"
    )
    return Outcome(counted([intact - static > 0.1]), found)


def _where_routes_part(evidence: "Evidence", network: LookedAt) -> Outcome:
    routing = _routing(evidence, network)
    differences = np.square(routing.class_mean[list(network.classes)] - routing.mean).sum(axis=(0, 2))
    share, even = float(differences[:15].sum() / (differences.sum() or 1.0)), 15 / len(differences)
    names = " and ".join(routing.class_names[number] for number in network.classes)
    found = f"{percent(share)} of the squared differences of classes {names} lie in the first 15 layers, of even ones {percent(even)}"
    return Outcome(counted([share > 0.5 if network is MNIST else share <= 0.5]), found)


def _counts(record: LesionsRecord) -> str:
    """Say how many layers are idle by several measures."""
    by_loss = ", ".join(f"{len(near(record, times))} within {times:g}" for times in (1.01, 1.1, 1.5, 2))
    same = sum(same_accuracy(record.intact, score) for score in record.closed)
    return f"of {len(record.closed)} layers {by_loss} times the intact loss; {same} within 0.1 points of the training accuracy"


def _idle_layers(evidence: "Evidence", network: LookedAt) -> Outcome:
    record = _lesions(evidence, network)
    layers, losses = near(record, IDLE), [score.loss for score in record.closed]
    middle = [number for number in layers if 15 <= number <= 45]
    early, late = (ratio(float(np.median(part)), record.intact.loss) for part in (losses[:9], losses[14:45]))
    share = len(layers) / len(losses)
    found = (
        f"idle are {len(layers)} of {len(losses)} layers ({percent(share)}), and {len(middle)} of the 31 layers 15–45; without a layer the "
        f"loss is {times(early)} the intact one in the median of layers 1–9, {times(late)} in that of 15–45 ({_counts(record)})"
    )
    idle = 0.45 <= share <= 0.75 or len(middle) >= 28
    return Outcome(at_best_partly(counted([idle and early > 2 * late])), found)


def _busy_layers(evidence: "Evidence", network: LookedAt) -> Outcome:
    record = _lesions(evidence, network)
    layers, losses = near(record, IDLE), [score.loss for score in record.closed]
    busy, late = ([number for number in part if number not in layers] for part in (range(1, 41), range(41, 50)))
    rise = [ratio(float(np.median(part)), record.intact.loss) for part in (losses[:40], losses[40:])]
    first, last = map(times, rise)
    found = (
        f"removing one hurts for {len(busy)} of the first 40 layers and for {len(late)} of the last 9; without a layer the loss is {first} "
        f"the intact one in the median of the first 40, {last} in that of the last 9 ({_counts(record)})"
    )
    return Outcome(at_best_partly(counted([len(busy) >= 36, rise[0] > 2 * rise[1]])), found)


def _rule(network: LookedAt, name: str, paper: str, text: str, judge: Callable[["Evidence", LookedAt], Outcome]) -> Rule:
    def judged(evidence: "Evidence") -> Outcome:
        if not evidence[network.label].finished:
            return Outcome("not reproduced", "the run diverged")
        return judge(evidence, network)

    return Rule(f"{network.title}: {name}", paper, text, judged)


def _finished(evidence: "Evidence") -> list[LookedAt]:
    """Return the networks whose runs did not diverge."""
    return [one for one in (MNIST, CIFAR) if evidence[one.label].finished]


def _gate_rules(network: LookedAt, layers: int) -> list[Rule]:
    return [
        _rule(network, "biases", "most gate biases fall below their start", "more than half", _biases),
        _rule(
            network,
            "sparse",
            "most gates are active on average, few for one sample (especially on CIFAR-100), so that samples use different blocks",
            "for one sample less than a tenth of the gates is above 0.5, while more than half have a mean above what their bias gave at "
            "the start; one of the two: partly",
            _sparse,
        ),
        _rule(
            network,
            "stripes",
            f"outputs stay constant over many layers; most of the change lies in the first {layers}",
            "at least two thirds of the sample's change of outputs, and at least twice as much in a step from layer to layer "
            "there as in a later one; more than in a later one: partly",
            _stripes(layers),
        ),
    ]


FIG2_RULES = (
    *_gate_rules(MNIST, 15),
    *_gate_rules(CIFAR, 40),
    _rule(
        CIFAR,
        "depth",
        "biases rise with depth while the mean gate activity falls",
        "rank correlation with depth above 0.3 and below −0.3; one of the two: partly",
        _biases_rise,
    ),
)
_ROUTES = (
    "routes",
    "samples take different routes: the gates look at the input",
    "gates that do not look at the input cost more than 10 points of training accuracy",
    _routes,
)
FIG3_RULES = (
    _rule(MNIST, *_ROUTES),
    _rule(
        MNIST,
        "where",
        "differences between classes lie within the first 15 layers",
        "more than half of the squared differences do",
        _where_routes_part,
    ),
    _rule(CIFAR, *_ROUTES),
    _rule(
        CIFAR,
        "where",
        "differences between classes are spread over all layers",
        "no more than half of the squared differences lie in the first 15 layers",
        _where_routes_part,
    ),
)
FIG4_RULES = (
    _rule(
        MNIST,
        "idle layers",
        "early layers matter, layers 15–45 hardly do: about 60 % are idle",
        f"idle: the loss without it is at most {IDLE:g} times the intact one (a measure that was chosen after seeing the curve). Between "
        "45 % and 75 % are idle, or nine of ten layers of 15–45 are, and without one of the layers 1–9 the loss is more than twice as high "
        "as without one of 15–45, in the median: partly, which is the most that such a measure can give",
        _idle_layers,
    ),
    _rule(
        CIFAR,
        "busy layers",
        "removing any of the first ≈40 layers hurts",
        f"it hurts where the loss without the layer is more than {IDLE:g} times the intact one (the same measure): at least 36 of the "
        "first 40, or the first 40 hurt twice as much as the last 9, in the median: partly, which is the most",
        _busy_layers,
    ),
)


def _draw_gates(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.captions import caption
    from highwaynet.figures.gate_map import draw_gates

    records = {one.label: _gates(evidence, one) for one in _finished(evidence)}
    return {f"fig2-{label}": (draw_gates(record), caption(record)) for label, record in records.items()}


def _draw_routes(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.captions import caption
    from highwaynet.figures.routing_plot import draw_routing

    records = [(one, _routing(evidence, one)) for one in _finished(evidence)]
    return {f"fig3-{one.label}": (draw_routing(record, one.classes), caption(record)) for one, record in records}


def _draw_lesions(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.captions import caption
    from highwaynet.figures.lesion_plot import draw_lesions

    records = {one.label: _lesions(evidence, one) for one in _finished(evidence)}
    return {f"fig4-{label}": (draw_lesions(record), caption(record)) for label, record in records.items()}


def _open_gates(evidence: "Evidence", network: LookedAt) -> str:
    return f"{percent(float(np.mean(_gates(evidence, network).sample_gates > 0.5)))} ({network.title})"


def _fixed_gates(evidence: "Evidence", network: LookedAt) -> str:
    routing = _routing(evidence, network)
    return f"{network.title} {100 * (routing.intact.accuracy or 0.0):.0f} → {100 * (routing.static.accuracy or 0.0):.0f} %"


def _idle(evidence: "Evidence", network: LookedAt) -> str:
    record = _lesions(evidence, network)
    return f"{network.title} {len(near(record, IDLE))} of {len(record.closed)}"


def _headline(text: str, join: str, number: Callable[["Evidence", LookedAt], str]) -> Callable[["Evidence"], str]:
    """Return a function that fills `text` with a number for each network that did not diverge."""
    return lambda evidence: text.format(join.join(number(evidence, one) for one in _finished(evidence)) or "both diverged")


NOTES: dict[Scale, str] = {
    "smoke": "digits stand in for both data sets, networks 10 wide, 5 epochs: shows that everything works, says nothing about the paper.",
    "laptop": "settings of our own, not searched (the paper's are the best of a random search): 60 epochs of MNIST, 1000 of CIFAR-100 "
    "(about an hour of one core), one seed each.",
    "paper": "the same as at scale laptop: the paper gives neither settings nor budget.",
}
SEEN = "the same two runs (docs/INSIDE.md)"
_BOTH = "50-layer highway networks trained on MNIST and on CIFAR-100"
FIG2 = Claim(
    "fig2",
    "Figure 2: biases, mean gates, one sample's gates and outputs",
    f"Gates are sparse, chosen by the sample, and most layers carry ({_BOTH}).",
    _planner(("gates",)),
    FIG2_RULES,
    _draw_gates,
    notes=NOTES,
    seen=SEEN,
    short="few gates open for one sample",
    headline=_headline("{} of gates open", " and ", _open_gates),
)
FIG3 = Claim(
    "fig3",
    "Figure 3: gates by class",
    f"Samples take different routes; classes differ in the first layers on MNIST, in all on CIFAR-100 ({_BOTH}).",
    _planner(("routing",)),
    FIG3_RULES,
    _draw_routes,
    notes=NOTES,
    seen=SEEN,
    short="samples take different routes",
    headline=_headline("fixed gates: {}", ", ", _fixed_gates),
)
FIG4 = Claim(
    "fig4",
    "Figure 4: lesioning single layers",
    f"On MNIST most layers are idle, on CIFAR-100 the first 40 matter ({_BOTH}).",
    _planner(("lesions",)),
    FIG4_RULES,
    _draw_lesions,
    notes=NOTES,
    seen=SEEN,
    short="MNIST: most layers idle; CIFAR-100: few",
    headline=_headline("idle layers: {}", ", ", _idle),
)
