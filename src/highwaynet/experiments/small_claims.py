"""Statements of the paper and of the 2016 report that a few short runs can test."""

import math
import statistics
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from highwaynet.base.text import loss_text
from highwaynet.experiments.choice import tried
from highwaynet.experiments.claims import NOT_RUN, Claim, Outcome, Row, Rule, Run, Scale, decided, most, ratio, spread, times, with_seeds
from highwaynet.experiments.race import HOW, best_of, mean_of, tested
from highwaynet.experiments.specs import over_seeds, run_spec, seeds_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence, RunEvidence

LOW = 0.1
"""A training loss that a network that trains well has after 10 epochs of MNIST."""
SMOKE_NOTE = "digits instead of MNIST, small networks, 2 epochs: shows that everything works, says nothing about the claim."
SAME = "the same as at scale laptop: no other budget is given."

_RATES: dict[str, tuple[float, ...]] = {"momentum": (0.01, 0.03, 0.1, 0.3), "rmsprop": (1e-4, 3e-4, 1e-3, 3e-3)}
_OPTIMISERS: dict[str, dict[str, Any]] = {
    "momentum": {"optimiser": "sgd", "momentum": 0.9},
    "rmsprop": {"optimiser": "rmsprop", "momentum": 0.0},
}


def _dense(scale: Scale, **more: Any) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """A 50-layer highway network, its data, and how it is trained."""
    smoke = scale == "smoke"
    network = {"name": "fc-highway", "depth": 10 if smoke else 50, "width": 10 if smoke else 50, "activation": "tanh", "gate_bias": -3.0}
    training = {"epochs": 2 if smoke else 10, "batch_size": 128, "decay": 0.1}
    return network | more, "digits" if smoke else "mnist", training


def _seeds(scale: Scale, seeds: int | None) -> range:
    return seeds_at(scale, seeds or (1 if scale == "smoke" else 3))


def _end(run: "RunEvidence") -> float:
    """The training loss of the last epoch; infinite if the run diverged."""
    return run.losses[-1] if run.finished else math.inf


def _rmsprop_plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    network, data, training = _dense(scale)
    runs: list[Run] = []
    for name, rates in _RATES.items():
        for rate in rates:
            own = training | _OPTIMISERS[name] | {"learning_rate": rate}
            runs += over_seeds(f"{name}-rate{rate:g}", network, data, own, _seeds(scale, seeds))
    return tuple(runs)


def _medians(evidence: "Evidence", optimiser: str) -> dict[float, float]:
    """The final training loss of each learning rate, in the median over the seeds."""
    groups = {rate: evidence.labelled(f"{optimiser}-rate{rate:g}") for rate in _RATES[optimiser]}
    return {rate: statistics.median(map(_end, runs)) for rate, runs in groups.items() if runs}


def _best_rate(medians: Mapping[float, float]) -> str:
    rate = min(medians, key=lambda rate: medians[rate])
    return f"{_loss(medians[rate])} (learning rate {rate:g})"


def _loss(loss: float) -> str:
    return "diverged" if math.isinf(loss) else loss_text(loss)


def _rmsprop_is_worse(evidence: "Evidence") -> Outcome:
    medians = {name: _medians(evidence, name) for name in _RATES}
    if not all(medians.values()):
        return NOT_RUN
    momentum, rmsprop = (min(medians[name].values()) for name in ("momentum", "rmsprop"))
    factor = ratio(rmsprop, momentum) if math.isfinite(momentum) else math.nan
    found = ", ".join(f"{name} {_best_rate(medians[name])}" for name in ("momentum", "rmsprop"))
    return decided(factor >= 2, f"{found}: {times(factor)}", evidence.seeds_of(evidence))


def _rmsprop_rows(evidence: "Evidence") -> list[Row]:
    return [
        Row(f"{name}, learning rate {rate:g}, final training loss, median over the seeds", "not given", _loss(loss))
        for name in _RATES
        for rate, loss in _medians(evidence, name).items()
    ]


def _rmsprop_headline(evidence: "Evidence") -> str:
    momentum, rmsprop = (min(_medians(evidence, name).values(), default=math.inf) for name in ("momentum", "rmsprop"))
    return f"{times(ratio(rmsprop, momentum))} the loss"


def _draw_rmsprop(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.small_plots import draw_losses

    losses = {
        f"{name}, {rate:g}": [_end(run) for run in evidence.labelled(f"{name}-rate{rate:g}")] for name in _RATES for rate in _RATES[name]
    }
    spec = next(iter(evidence)).spec
    text = f"{spec.network.depth}-layer highway networks on {spec.data.title}, by optimiser and learning rate; a line at the median."
    return {"rmsprop": (draw_losses(losses, f"training loss after {spec.training.epochs} epochs"), text)}


RMSPROP = Claim(
    "rmsprop",
    "The 2016 report: RMSprop is worse than momentum",
    "With RMSprop the losses of highway networks were off by roughly one order of magnitude; momentum was better.",
    _rmsprop_plan,
    (
        Rule(
            "worse by a factor",
            "results with RMSprop were off by roughly one magnitude, with basically any set of hyperparameters",
            "the final training loss of RMSprop is at least twice that of momentum, each with the best of four learning rates, in the "
            "median over the seeds",
            _rmsprop_is_worse,
        ),
    ),
    _draw_rmsprop,
    _rmsprop_rows,
    {"smoke": SMOKE_NOTE, "laptop": "50 layers, 10 epochs of MNIST, gate bias −3, four learning rates for each optimiser.", "paper": SAME},
    source="the 2016 report",
    short="RMSprop ten times worse",
    headline=_rmsprop_headline,
)

CARRIES = ("coupled", "independent")


def _carry_plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    runs: list[Run] = []
    for carry in CARRIES:
        network, data, training = _dense(scale, carry=carry)
        runs += over_seeds(carry, network, data, training | {"learning_rate": 0.1, "momentum": 0.9}, _seeds(scale, seeds))
    return tuple(runs)


def _independent_trains(evidence: "Evidence") -> Outcome:
    if not (runs := evidence.labelled("independent")):
        return NOT_RUN
    ends = [run.best_loss for run in runs]
    holds = [end < LOW for end in ends]
    return decided(most(holds), f"{with_seeds(holds)}lowest training loss {spread(ends, _loss)}", evidence.seeds_of(runs))


def _carry_rows(evidence: "Evidence") -> list[Row]:
    groups = {carry: [run.best_loss for run in evidence.labelled(carry)] for carry in CARRIES}
    return [
        Row(f"{carry} carry gate, lowest training loss, median over the seeds", "not given", spread(ends, _loss))
        for carry, ends in groups.items()
        if ends
    ]


def _carry_headline(evidence: "Evidence") -> str:
    coupled, independent = (statistics.median([run.best_loss for run in evidence.labelled(carry)] or [math.inf]) for carry in CARRIES)
    return f"loss {_loss(independent)} (coupled {_loss(coupled)})"


def _draw_carry(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.small_plots import draw_losses

    spec = next(iter(evidence)).spec
    losses = {carry: [run.best_loss for run in evidence.labelled(carry)] for carry in CARRIES}
    text = f"{spec.network.depth}-layer highway networks on {spec.data.title}, by carry gate; a line at the median."
    return {"carry": (draw_losses(losses, f"lowest training loss of {spec.training.epochs} epochs"), text)}


CARRY = Claim(
    "carry",
    "Section 2: a carry gate of its own",
    "The definition allows a carry gate that is independent of the transform gate; the paper uses C = 1 − T for simplicity.",
    _carry_plan,
    (
        Rule(
            "independent gate trains",
            "highway layers have a transform gate and a carry gate; C = 1 − T only for simplicity",
            f"a 50-layer network with independent carry gates reaches a training loss below {LOW} within 10 epochs of MNIST",
            _independent_trains,
        ),
    ),
    _draw_carry,
    _carry_rows,
    {"smoke": SMOKE_NOTE, "laptop": "50 layers, 10 epochs of MNIST, gate bias −3, learning rate 0.1.", "paper": SAME},
    short="independent carry gates work",
    headline=_carry_headline,
)

COMPANIONS = {"without": False, "companions": True}
PLAIN_RATES = (0.003, 0.01, 0.03)
TRAINS = 50.0
"""Test accuracy in percent below which a network has not trained."""


def _supervision_plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    smoke = scale == "smoke"
    training = {"recipe": "quick", "epochs": 2 if smoke else 10}
    data: dict[str, Any] = {"name": "digits"} if smoke else {"name": "mnist", "validation": 0.1}

    def run(label: str, rate: float, seed: int) -> Run:
        network = {"name": "mnist-plain-16", "deep_supervision": COMPANIONS[label]}
        return Run(f"{label}-rate{rate:g}-{seed}", run_spec(network, data, training | {"learning_rate": rate}, seed), ("evaluation",))

    runs: list[Run] = []
    for label in COMPANIONS:
        runs += tried(label, PLAIN_RATES[:1] if smoke else PLAIN_RATES, _seeds(scale, seeds), partial(run, label))
    return tuple(runs)


def _companions_hurt(evidence: "Evidence") -> Outcome:
    found = {label: best_of(evidence, label)[1] for label in COMPANIONS}
    if not all(found.values()):
        return NOT_RUN
    means = {label: mean_of(evidence, label) for label in found}
    text = f"mean test accuracy {means['companions']:.2f} % with companions, {means['without']:.2f} % without"
    trained = max(means.values()) >= TRAINS
    return decided(trained and means["companions"] < means["without"], text, evidence.seeds_of(found["without"]), small_budget=not trained)


def _supervision_rows(evidence: "Evidence") -> list[Row]:
    titles = {"without": "plain network, 16 wide", "companions": "the same with deep supervision"}
    rows = []
    for label, title in titles.items():
        rate, runs = best_of(evidence, label)
        if runs:
            values = spread([tested(run) for run in runs], "{:.2f} %".format)
            rows.append(Row(f"{title}, learning rate {rate:g}, median test accuracy", "not given", values))
    return rows


def _supervision_headline(evidence: "Evidence") -> str:
    if not all(best_of(evidence, label)[1] for label in COMPANIONS):
        return "not run"
    return f"with {mean_of(evidence, 'companions'):.2f} %, without {mean_of(evidence, 'without'):.2f} %"


def _draw_supervision(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    from highwaynet.figures.comparison_plot import Compared, draw_accuracies

    titles = {"without": "plain, 16 wide", "companions": "with deep supervision"}
    rows = [Compared(title, [tested(run) for run in best_of(evidence, label)[1]]) for label, title in titles.items()]
    spec = next(iter(evidence)).spec
    text = f"A thin plain network on {spec.data.title} with and without companion classifiers, {spec.training.epochs} epochs."
    return {"supervision": (draw_accuracies(rows), text)}


SUPERVISION = Claim(
    "supervision",
    "Section 5: deep supervision hurts thin deep networks",
    "Deep supervision has been shown to hurt performance of thin deep networks (discussion, after Romero et al.).",
    _supervision_plan,
    (
        Rule(
            "lower accuracy",
            "deep supervision hurts thin deep networks",
            f"the mean test accuracy is lower with companion classifiers than without ({HOW}); a run that diverged has 0 %; if neither "
            "network reaches 50 %: not reached",
            _companions_hurt,
        ),
    ),
    _draw_supervision,
    _supervision_rows,
    {
        "smoke": SMOKE_NOTE,
        "laptop": "the plain twin of the 10-layer network 16 wide, 10 epochs of MNIST; the paper cites this result and names no network.",
        "paper": SAME,
    },
    short="deep supervision hurts",
    headline=_supervision_headline,
    seen="six runs with the learning rate 0.06 of the recipe, at which neither network trains",
)
