"""Section 2.2: beyond 1000 layers, and that a negative gate bias is enough."""

import math
import statistics
from collections.abc import Callable, Mapping
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from highwaynet.base.text import loss_text, percent
from highwaynet.experiments.claims import NOT_RUN, Claim, Outcome, Row, Rule, Run, Scale, decided, most
from highwaynet.experiments.specs import over_seeds, seeds_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence, RunEvidence

TRAINED = 0.5
"""A network trains if its training loss falls below."""
LOW = 0.1
"""With 1000 layers the training loss of the last epoch is to be below."""
LONG = 20
"""Epochs for 1000 layers; the paper gives no number."""


def _thousand_plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    smoke = scale == "smoke"
    training = {"epochs": 3 if smoke else LONG, "batch_size": 128, "learning_rate": 0.1, "momentum": 0.9, "decay": 0.1}
    network = {"name": "fc-highway", "depth": 1001, "width": 50, "activation": "tanh", "gate_bias": -8.0}
    if smoke:
        network |= {"depth": 300, "width": 10, "gate_bias": -6.0}
    numbers = seeds_at(scale, seeds or (1 if smoke else 3))
    return tuple(over_seeds("highway-1000", network, "digits" if smoke else "mnist", training, numbers, ("evaluation",)))


def _does_not_stall(evidence: "Evidence") -> Outcome:
    if not (runs := evidence.labelled("highway-1000")):
        return NOT_RUN
    ends = [loss_text(run.losses[-1]) if run.finished else "diverged" for run in runs]
    holds = all(run.finished and run.losses[-1] < LOW for run in runs)
    epochs = min(run.spec.training.epochs for run in runs)
    found = f"training loss after {epochs} epochs, seed by seed: {', '.join(ends)}"
    return decided(holds, found, evidence.seeds_of(runs), small_budget=epochs < LONG)


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
    run = max(evidence.labelled("highway-1000"), key=lambda run: run.losses[-1] if run.finished else math.inf)
    return f"loss {loss_text(run.losses[-1])} in {len(run.history)} epochs" if run.finished else "diverged"


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
            f"with every seed the training loss of the last of {LONG} epochs is below {LOW}, and no run diverges",
            _does_not_stall,
        ),
    ),
    _draw_thousand,
    _thousand_rows,
    {
        "smoke": "digits instead of MNIST, 300 layers of 10 blocks: shows that everything works, says nothing about the paper.",
        "laptop": f"1001 layers of 50 blocks, momentum 0.9, {LONG} epochs of MNIST, gate bias −8, which was found in earlier trials.",
        "paper": "the same as at scale laptop: the paper gives neither data nor budget.",
    },
    seen="a run with 1000 layers (results/thousand-layers), and one of 3 epochs with 1001",
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
    runs: list[Run] = []
    for init, activation, bias, rate in product(INITS, ACTIVATIONS, BIASES, RATES[:1] if smoke else RATES):
        network = {"name": "fc-highway", "depth": 10 if smoke else 50, "width": 10 if smoke else 50, "activation": activation, "init": init}
        training = {"epochs": 1 if smoke else 5, "batch_size": 128, "learning_rate": rate, "momentum": 0.9, "decay": 0.3}
        numbers = seeds_at(scale, seeds or (1 if smoke else 3))
        label = _grid_label(init, activation, bias, rate)
        runs += over_seeds(label, network | {"gate_bias": bias}, "digits" if smoke else "mnist", training, numbers)
    return tuple(runs)


def _ends(evidence: "Evidence", init: str, activation: str, bias: float) -> list[float]:
    """For each seed the lowest training loss with either learning rate; infinite if both diverged."""
    groups: dict[tuple[int, ...], list[RunEvidence]] = {}
    for rate in RATES:
        for seed, runs in evidence.by_seed(_grid_label(init, activation, bias, rate)).items():
            groups.setdefault(seed, []).extend(runs)
    return [min(run.best_loss for run in runs) for runs in groups.values()]


def _trains(evidence: "Evidence", biases: tuple[float, ...]) -> dict[tuple[str, str], bool]:
    """Whether each pair of initialisation and activation trains with one of these gate biases, with more than half of the seeds."""
    pairs = product(INITS, ACTIVATIONS)
    return {pair: any(most([end < TRAINED for end in _ends(evidence, *pair, bias)]) for bias in biases) for pair in pairs}


def _words(pairs: list[tuple[str, str]]) -> str:
    return ", ".join(f"{INITS[init]} with {ACTIVATIONS[activation]}" for init, activation in pairs)


def _negative_is_enough(evidence: "Evidence") -> Outcome:
    trained = _trains(evidence, BIASES[1:])
    missing = [pair for pair, good in trained.items() if not good]
    found = f"{sum(trained.values())} of 9 train with one of them" + (f"; not: {_words(missing)}" if missing else "")
    return decided(not missing, found, evidence.seeds_of(evidence))


def _better_than_none(evidence: "Evidence") -> Outcome:
    numbers = [sum(_trains(evidence, (bias,)).values()) for bias in BIASES]
    text = ", ".join(f"{count} with bias {bias:g}".replace("-", "−") for bias, count in zip(BIASES, numbers, strict=True))
    return decided(max(numbers[1:]) > numbers[0], f"of 9: {text}", evidence.seeds_of(evidence))


def _grid_headline(evidence: "Evidence") -> str:
    negative, none = (sum(_trains(evidence, biases).values()) for biases in (BIASES[1:], BIASES[:1]))
    return f"{negative} of 9 train, {none} without it"


def _grid_draw(name: str) -> Callable[["Evidence"], Mapping[str, tuple["Figure", str]]]:
    def draw(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
        from highwaynet.base.text import with_count as number_of
        from highwaynet.figures.comparison_plot import draw_grid

        pairs = list(product(INITS, ACTIVATIONS))
        losses = np.array([[statistics.median(_ends(evidence, *pair, bias) or [math.inf]) for bias in BIASES] for pair in pairs])
        rows = [f"{INITS[init]}, {ACTIVATIONS[activation]}" for init, activation in pairs]
        columns = [f"{bias:g}".replace("-", "−") for bias in BIASES]
        spec = next(iter(evidence)).spec
        rates = sorted({run.spec.training.learning_rate for run in evidence}, reverse=True)
        chosen = "the better one of learning rates" if len(rates) > 1 else "learning rate"
        seeds = evidence.seeds_of(evidence)
        median = f", the median of {seeds} seeds" if seeds > 1 else ""
        text = (
            f"{spec.network.depth}-layer highway networks on {spec.data.title}: the lowest training loss of "
            f"{number_of(spec.training.epochs, 'epoch')}, "
            f"{chosen} {' and '.join(f'{rate:g}' for rate in rates)}{median}; bold: below {TRAINED}; ×: diverged."
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
            f"each of the nine pairs of initialisation and activation reaches a training loss below {TRAINED} with one of the biases −1, "
            "−2, −4, with more than half of the seeds and the better one of two learning rates",
            _negative_is_enough,
        ),
        Rule(
            "beside no bias",
            "the negative bias is what makes it work",
            "with one of the negative biases more of the nine pairs train than with bias 0, counted in the same way",
            _better_than_none,
        ),
    ),
    _grid_draw("initialisation"),
    notes={
        "smoke": "digits instead of MNIST, 10 layers, one epoch: shows that everything works, says nothing about the paper.",
        "laptop": "50 layers, 5 epochs of MNIST, the better one of two learning rates; gaussians have a standard deviation of 0.05.",
        "paper": "the same as at scale laptop: the paper gives no budget.",
    },
    seen="runs with gate biases from 0 to −4 at 50 layers (results/gate-bias-rule.json), and these runs with seed 1",
    short="a negative gate bias is enough",
    headline=_grid_headline,
)
