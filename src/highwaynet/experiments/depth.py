"""Claims on depth: why deep plain networks fail (the 2021 report), 1000 layers, and negative gate biases."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from highwaynet.analysis.analysis_records import FlowRecord
from highwaynet.base.text import loss_text, percent
from highwaynet.experiments.claims import Claim, Outcome, Row, Rule, Run, Scale, at_least, counted, ratio
from highwaynet.experiments.specs import over_seeds, run_spec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence

TRAINED = 0.5
"""A network counts as trained if its training loss falls below this."""


@dataclass(frozen=True)
class Case:
    """A network of the 2021 report."""

    label: str
    title: str
    activation: str
    init: str
    paper: str
    failure: str = ""
    """The failure that the report names; empty if it trains."""
    stays: bool = False
    """Whether the variance of its outputs stays the same, according to the report."""

    def judge(self, evidence: "Evidence") -> Outcome:
        """Judge whether it trains, which failure is found, and whether the variance stays the same."""
        if not evidence[self.label].finished:  # there is no trained network to analyse
            return Outcome("partly" if self.failure else "not reproduced", "the run diverged")
        start, accuracy = self.flow(evidence).start, self.accuracy(evidence)
        failures = [finding.partition(":")[0] for finding in start.findings]
        change = ratio(float(start.variance[-1]), float(start.variance[0]))
        true = [(accuracy > 0.5) != bool(self.failure), self.failure in failures if self.failure else not failures]
        true += [0.1 <= change <= 10] if self.stays else []
        found = (
            f"variance {_arrow(start.variance)}, gradient {_arrow(start.gradient)} from the first layer to the last; named: "
            f"{'; '.join(failures) or 'nothing wrong'}; training accuracy {percent(accuracy)}"
        )
        return Outcome(counted(true), found)

    def flow(self, evidence: "Evidence") -> FlowRecord:
        """Return activations and gradients by layer; the run must not have diverged."""
        return evidence[self.label].record("flow", FlowRecord)

    def accuracy(self, evidence: "Evidence") -> float:
        """Return the training accuracy of the last epoch."""
        return evidence[self.label].history[-1].train_accuracy or 0.0


def _arrow(values: Any) -> str:
    return f"{values[0]:.1e} → {values[-1]:.1e}"


CASES = (
    Case(
        "relu-glorot",
        "ReLU, Glorot's weights",
        "relu",
        "glorot-uniform",
        "activations fall to 0 with depth (dead ReLU); it does not train",
        "Dead ReLU",
    ),
    Case("relu-he", "ReLU, He's weights", "relu", "he", "it can be trained"),
    Case(
        "sigmoid-glorot",
        "sigmoid, Glorot's weights",
        "sigmoid",
        "glorot-uniform",
        "variance stays, the gradient vanishes in early layers; it does not train",
        "Vanishing gradient",
        stays=True,
    ),
    Case("tanh-glorot", "tanh, Glorot's weights", "tanh", "glorot-uniform", "variance keeps its range; it trains", stays=True),
)
FLOW_RULE = (
    "it trains (more than half right after 5 epochs) where the report says so, the failure is named that the report names, and where "
    "variance is said to stay it changes by less than a factor of 10 from the first layer to the last; not all of it: partly. A run that "
    "diverged: partly where the report says that it does not train"
)


def _flow_plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    smoke = scale == "smoke"
    training = {"epochs": 5, "batch_size": 128, "learning_rate": 0.01, "momentum": 0.9, "decay": 0.1}
    runs = []
    for case in CASES:
        network = {"name": "fc-plain", "depth": 50, "width": 20 if smoke else 71, "activation": case.activation, "init": case.init}
        runs.append(Run(case.label, run_spec(network, "digits" if smoke else "mnist", training), ("flow",)))
    return tuple(runs)


def _draw_flow(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.captions import caption
    from highwaynet.figures.flow_plot import draw_flow

    records = {case: case.flow(evidence) for case in CASES if evidence[case.label].finished}
    return {f"flow-{case.label}": (draw_flow(record), f"{case.title}. {caption(record)}") for case, record in records.items()}


def _flow_headline(evidence: "Evidence") -> str:
    trains = {case: evidence[case.label].finished and case.accuracy(evidence) > 0.5 for case in CASES}
    agree = all(trained != bool(case.failure) for case, trained in trains.items())
    return f"{sum(trains.values())} of {len(CASES)} train" + (", the same ones" if agree else ", but others")


REPORT_2021 = Claim(
    "report2021",
    "The 2021 report, figures 5 to 7: why deep plain networks fail",
    "Activations die (ReLU, Glorot), gradients vanish (sigmoid), or neither (ReLU with He's weights, tanh), in 50-layer plain networks.",
    _flow_plan,
    tuple(Rule(case.title, case.paper, FLOW_RULE, case.judge) for case in CASES),
    _draw_flow,
    notes={
        "smoke": "digits instead of MNIST, networks 20 wide: shows that everything works, says nothing about the report.",
        "laptop": "the whole budget: 5 epochs of MNIST, learning rate 0.01, one seed.",
        "paper": "the same as at scale laptop: the report gives no other budget.",
    },
    source="the 2021 report",
    seen="the same four runs (docs/INSIDE.md)",
    short=f"{sum(not case.failure for case in CASES)} of {len(CASES)} deep plain networks train",
    headline=_flow_headline,
)


def _thousand_plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    training = {"epochs": 20 if scale == "paper" else 3, "batch_size": 128, "learning_rate": 0.1, "momentum": 0.9, "decay": 0.1}
    network = {"name": "fc-highway", "depth": 1001, "width": 50, "activation": "tanh", "gate_bias": -8.0}
    if scale == "smoke":
        network |= {"depth": 300, "width": 10, "gate_bias": -6.0}
    return tuple(over_seeds("highway-1000", network, "digits" if scale == "smoke" else "mnist", training, seeds or 1, ("evaluation",)))


def _does_not_stall(evidence: "Evidence") -> Outcome:
    runs = evidence.labelled("highway-1000")
    ends = [run.lowest_loss for run in runs]
    falls = all(run.finished and run.losses[-1] == run.lowest_loss for run in runs)
    curves = "; ".join(", ".join([*map(loss_text, run.losses), *([] if run.finished else ["diverged"])]) for run in runs)
    verdict = at_least(-max(ends), -TRAINED if falls else math.inf, -2.0)
    return Outcome(verdict, f"training loss of each epoch: {curves}")


def _thousand_rows(evidence: "Evidence") -> list[Row]:
    return [
        Row(
            f"{run.spec.network.depth} layers, seed {run.spec.seed}, test accuracy after {len(run.history)} epochs",
            "not given",
            percent(run.test.accuracy or 0.0) if run.finished else "diverged",
        )
        for run in evidence.labelled("highway-1000")
    ]


def _thousand_headline(evidence: "Evidence") -> str:
    run = max(evidence.labelled("highway-1000"), key=lambda run: run.best_loss)
    if not run.finished:
        return f"{run.spec.network.depth:,} layers: diverged"
    return f"{run.spec.network.depth:,} layers: training loss {loss_text(run.losses[-1])} after {len(run.history)} epochs"


def _draw_thousand(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.curves import Curve, draw_curves
    from highwaynet.figures.style import COLOURS

    curves = [
        Curve(f"seed {run.spec.seed}", COLOURS[place % len(COLOURS)], run.history)
        for place, run in enumerate(evidence.labelled("highway-1000"))
        if run.history
    ]
    spec = next(iter(evidence)).spec
    return {"thousand": (draw_curves(curves), f"A highway network with {spec.network.depth} layers on {spec.data.title}.")}


THOUSAND = Claim(
    "thousand",
    "Section 2.2: beyond 1000 layers",
    "In pilot runs SGD did not stall for networks with more than 1000 layers.",
    _thousand_plan,
    (
        Rule(
            "does not stall",
            "SGD with momentum trains highway networks with more than 1000 layers",
            f"with each seed the training loss is lowest in the last epoch, and below {TRAINED}; below 2.0 in any epoch, also of a run "
            "that diverged later: partly",
            _does_not_stall,
        ),
    ),
    _draw_thousand,
    _thousand_rows,
    {
        "smoke": "digits instead of MNIST, 300 layers of 10 blocks: shows that everything works, says nothing about the paper.",
        "laptop": "1001 layers of 50 blocks, momentum 0.9, 3 epochs of MNIST, gate bias −8, found in earlier trials with 1000 layers.",
        "paper": "20 epochs; the paper gives neither data nor budget.",
    },
    seen="a run with 1000 layers (results/thousand-layers)",
    short="over 1,000 layers train",
    headline=_thousand_headline,
)

ACTIVATIONS = {"tanh": "tanh", "relu": "ReLU", "sigmoid": "sigmoid"}
INITS = {"glorot-uniform": "Glorot", "he": "He", "normal": "gaussian"}
BIASES = (0.0, -1.0, -2.0, -4.0)
RATES = (0.1, 0.01)


def _grid_label(init: str, activation: str, bias: float, rate: float) -> str:
    return f"{init}-{activation}-bias{bias or 0:g}-rate{rate:g}"


def _grid_plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    smoke = scale == "smoke"
    runs = []
    for init, activation, bias, rate in product(INITS, ACTIVATIONS, BIASES, RATES[:1] if smoke else RATES):
        network = {"name": "fc-highway", "depth": 10 if smoke else 50, "width": 10 if smoke else 50, "activation": activation, "init": init}
        training = {"epochs": 1 if smoke else 5, "batch_size": 128, "learning_rate": rate, "momentum": 0.9, "decay": 0.3}
        spec = run_spec(network | {"gate_bias": bias}, "digits" if smoke else "mnist", training)
        runs.append(Run(_grid_label(init, activation, bias, rate), spec))
    return tuple(runs)


def _end(evidence: "Evidence", init: str, activation: str, bias: float) -> float:
    """Return the lowest training loss over the learning rates; infinity if all runs diverged."""
    labels = (_grid_label(init, activation, bias, rate) for rate in RATES)
    return min((evidence[label].best_loss for label in labels if label in evidence), default=math.inf)


def _trains(evidence: "Evidence", biases: tuple[float, ...]) -> dict[tuple[str, str], bool]:
    """Return whether each pair of initialisation and activation trains with one of these gate biases."""
    pairs = product(INITS, ACTIVATIONS)
    return {pair: any(_end(evidence, *pair, bias) < TRAINED for bias in biases) for pair in pairs}


def _words(pairs: list[tuple[str, str]]) -> str:
    return ", ".join(f"{INITS[init]} with {ACTIVATIONS[activation]}" for init, activation in pairs) or "none"


def _negative_is_enough(evidence: "Evidence") -> Outcome:
    trained = _trains(evidence, BIASES[1:])
    missing = [pair for pair, good in trained.items() if not good]
    return Outcome(
        counted(list(trained.values()), partly=6), f"{sum(trained.values())} of 9 train with one of them; not: {_words(missing)}"
    )


def _better_than_none(evidence: "Evidence") -> Outcome:
    numbers = [sum(_trains(evidence, (bias,)).values()) for bias in BIASES]
    text = ", ".join(f"{count} with bias {bias:g}".replace("-", "−") for bias, count in zip(BIASES, numbers, strict=True))
    best = max(numbers[1:])
    return Outcome("reproduced" if best > numbers[0] else "partly" if best == numbers[0] == 9 else "not reproduced", f"of 9: {text}")


def _grid_headline(evidence: "Evidence") -> str:
    negative, none = (sum(_trains(evidence, biases).values()) for biases in (BIASES[1:], BIASES[:1]))
    return f"{negative} of 9 settings train, {none} without it"


def _grid_draw(name: str) -> Callable[["Evidence"], Mapping[str, tuple["Figure", str]]]:
    def draw(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
        from highwaynet.figures.comparison_plot import draw_grid
        from highwaynet.figures.findings import with_count as number_of

        pairs = list(product(INITS, ACTIVATIONS))
        losses = np.array([[_end(evidence, *pair, bias) for bias in BIASES] for pair in pairs])
        rows = [f"{INITS[init]}, {ACTIVATIONS[activation]}" for init, activation in pairs]
        columns = [f"{bias:g}".replace("-", "−") for bias in BIASES]
        spec = next(iter(evidence)).spec
        rates = sorted({run.spec.training.learning_rate for run in evidence}, reverse=True)
        chosen = "the better one of learning rates" if len(rates) > 1 else "learning rate"
        text = (
            f"{spec.network.depth}-layer highway networks on {spec.data.title}: the lowest training loss of "
            f"{number_of(spec.training.epochs, 'epoch')}, "
            f"{chosen} {' and '.join(f'{rate:g}' for rate in rates)}; bold: below {TRAINED}; ×: diverged."
        )
        return {name: (draw_grid(losses, rows, columns, TRAINED, "gate bias at the start"), text)}

    return draw


INITIALISATION = Claim(
    "initialisation",
    "Section 2.2: a negative gate bias is enough",
    "With a negative gate bias highway networks train whatever the initialisation and activation.",
    _grid_plan,
    (
        Rule(
            "negative biases",
            "a negative bias is enough for very deep networks to train, for various zero-mean initialisations and activations",
            f"each of the nine pairs reaches a training loss below {TRAINED} with one of the biases −1, −2, −4; six of them: partly",
            _negative_is_enough,
        ),
        Rule(
            "beside no bias",
            "the negative bias is what makes it work",
            "with one of the negative biases more of the nine pairs train than with bias 0; all nine with either: partly",
            _better_than_none,
        ),
    ),
    _grid_draw("initialisation"),
    notes={
        "smoke": "digits instead of MNIST, 10 layers, one epoch: shows that everything works, says nothing about the paper.",
        "laptop": "50 layers, 5 epochs of MNIST, the better one of two learning rates; gaussians have a standard deviation of 0.05.",
        "paper": "the same as at scale laptop: the paper gives no budget.",
    },
    seen="runs with gate biases from 0 to −4 at 50 layers (results/gate-bias-rule.json)",
    short="a negative gate bias is enough",
    headline=_grid_headline,
)
