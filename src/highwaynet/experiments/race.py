"""The race of table 2: thin networks trained with a teacher, in one or two stages, against highway networks trained directly.

It is run on MNIST with dense and with maxout networks, and on CIFAR-10 with the networks of the papers.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from highwaynet.experiments.choice import CHOSEN, tried, validation_accuracy
from highwaynet.experiments.claims import NOT_RUN, Claim, Outcome, Row, Rule, Run, Scale, decided
from highwaynet.experiments.keys import key_of
from highwaynet.experiments.specs import run_spec, seeds_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence, RunEvidence

METHODS = {
    "plain": "thin network, backpropagation",
    "distilled": "thin network, distillation",
    "hinted": "thin network, hints and distillation",
    "highway": "highway network, backpropagation",
}
DISTILLATION: dict[str, Any] = {"form": "fitnets", "temperature": 3.0, "weight": 4.0, "final_weight": 1.0}
"""The temperature and the weights of the FitNets; the weight falls over the whole run."""
TESTED = "mean test accuracy over the seeds, each with the learning rate of the grid that has"
HOW = f"{TESTED} {CHOSEN}"
HOW_ALL = f"{TESTED} the highest mean validation accuracy"
"""The same, if all learning rates are run with all seeds."""


@dataclass(frozen=True)
class RaceSetting:
    """A race at one scale."""

    data: dict[str, Any]
    teacher: dict[str, Any]
    """The network of the teacher."""
    student: dict[str, Any]
    highway: dict[str, Any]
    hints: str
    epochs: int
    """The budget of every network; with hints, a third of it is the first stage."""
    rates: tuple[float, ...]
    teacher_rate: float
    after: int = 0
    """How many seeds were used up by earlier races of these networks."""
    training: dict[str, Any] = field(default_factory=dict)

    def runs(self, scale: Scale, seeds: int, *, all_seeds: bool) -> tuple[Run, ...]:
        """The teacher with one seed, and each method with the rates and seeds."""
        chosen = seeds_at(scale, self.after + seeds)[self.after :]
        first = chosen[0]
        budget = self.training | {"epochs": self.epochs}
        spec = run_spec(self.teacher, self.data, budget | {"learning_rate": self.teacher_rate}, first)
        teacher = Run(f"teacher-{first}", spec, ("evaluation",))
        if all_seeds:
            settings = product(METHODS, self.rates, chosen)
            return (teacher, *(self._run(teacher, method, rate, seed) for method, rate, seed in settings))
        runs = [teacher]
        for method in METHODS:
            runs += tried(method, self.rates, chosen, partial(self._run, teacher, method))
        return tuple(runs)

    def _run(self, teacher: Run, method: str, rate: float, seed: int) -> Run:
        """A run of a method."""
        network, training = self.highway if method == "highway" else self.student, self.training | {"learning_rate": rate}
        section = None if method in {"plain", "highway"} else DISTILLATION | {"run": key_of(teacher.spec)}
        early = 0
        if method == "hinted":
            early = max(1, self.epochs // 3)
            section = (section or {}) | {"hints": self.hints, "hint_epochs": early}
        made = run_spec(network, self.data, training | {"epochs": self.epochs - early}, seed, section)
        return Run(f"{method}-rate{rate:g}-{seed}", made, ("evaluation",), None if section is None else teacher)


def validated(run: "RunEvidence") -> float:
    """The validation accuracy of the weights that are the run's answer; 0 if it diverged."""
    return validation_accuracy(run.history) if run.finished else 0.0


def tested(run: "RunEvidence") -> float:
    """The test accuracy in percent; 0 if the run diverged."""
    return 100 * (run.test.accuracy or 0.0) if run.finished else 0.0


def by_rate(evidence: "Evidence", method: str) -> dict[float, list["RunEvidence"]]:
    """The runs of a method, by learning rate."""
    groups: dict[float, list[RunEvidence]] = {}
    for run in evidence:
        if run.label.startswith(f"{method}-rate"):
            groups.setdefault(float(run.label.removeprefix(f"{method}-rate").rpartition("-")[0]), []).append(run)
    return dict(sorted(groups.items()))


def best_of(evidence: "Evidence", method: str) -> tuple[float, list["RunEvidence"]]:
    """The learning rate with the highest mean validation accuracy (the lowest of equal ones), and its runs; 0 and none if not run.

    If one rate is repeated with more seeds than the others, it was chosen before.
    """
    groups = by_rate(evidence, method)
    if not groups:
        return 0.0, []
    seeds = max(map(len, groups.values()))
    groups = {rate: runs for rate, runs in groups.items() if len(runs) == seeds}
    rate = max(groups, key=lambda rate: statistics.fmean(map(validated, groups[rate])))
    return rate, groups[rate]


def mean_of(evidence: "Evidence", method: str) -> float:
    """The mean test accuracy of a method, in percent."""
    return statistics.fmean(map(tested, best_of(evidence, method)[1]))


def _ahead(one: str, other: str, *, equal: bool = False, strict: bool = False) -> Callable[["Evidence"], Outcome]:
    """Judge whether the first method is ahead of the second, or at least equal to it; if `strict`, only if no run diverged."""

    def judge(evidence: "Evidence") -> Outcome:
        if not all(best_of(evidence, method)[1] for method in (one, other)):
            return NOT_RUN
        mine, theirs = (round(mean_of(evidence, method), 6) for method in (one, other))
        found = f"{one} {mine:.2f} %, {other} {theirs:.2f} %"
        runs = [best_of(evidence, method)[1] for method in (one, other)]
        seeds = min(map(evidence.seeds_of, runs))
        if strict and (lost := diverged(*runs)):
            return decided(False, f"{found}; {lost}", seeds, small_budget=True)
        return decided(mine >= theirs if equal else mine > theirs, found, seeds)

    return judge


def _reaches_teacher(*, strict: bool) -> Callable[["Evidence"], Outcome]:
    def judge(evidence: "Evidence") -> Outcome:
        runs, teachers = best_of(evidence, "hinted")[1], evidence.labelled("teacher")
        if not runs or not teachers:
            return NOT_RUN
        mine, theirs = round(mean_of(evidence, "hinted"), 6), round(statistics.fmean(map(tested, teachers)), 6)
        found, seeds = f"hinted {mine:.2f} %, teacher {theirs:.2f} % (one seed)", evidence.seeds_of(runs)
        if strict and (lost := diverged(runs, teachers)):
            return decided(False, f"{found}; {lost}", seeds, small_budget=True)
        return decided(mine >= theirs, found, seeds)

    return judge


def diverged(*groups: Sequence["RunEvidence"]) -> str:
    """How many of these runs diverged, in words; empty if none did."""
    runs = [run for group in groups for run in group]
    lost = sum(not run.finished for run in runs)
    return f"{lost} of {len(runs)} runs diverged" if lost else ""


def _rules(*, all_seeds: bool) -> tuple[Rule, ...]:
    """The rules of a race. A run that diverged counts as 0 % if all rates are run with all seeds; otherwise nothing is judged by it."""
    strict = not all_seeds
    how = HOW_ALL if all_seeds else f"{HOW}; if one of these runs diverged: not reached"
    return (
        Rule(
            "one stage is enough",
            "highway networks reach in one stage what FitNets reach in two (CIFAR-10: 89.18 % and 89.01 %)",
            f"the highway network is at least as good as the thin network with hints and distillation: {how}",
            _ahead("highway", "hinted", equal=True, strict=strict),
        ),
        Rule(
            "distillation helps",
            "distillation is better than backpropagation (Romero et al., MNIST: errors of 0.65 % and 1.9 %)",
            f"the thin network is better with distillation than without: {how}",
            _ahead("distilled", "plain", strict=strict),
        ),
        Rule(
            "hints help",
            "hints and distillation are better than distillation (Romero et al., MNIST: errors of 0.51 % and 0.65 %)",
            f"the thin network is better with hints and distillation than with distillation, in the same number of epochs: {how}",
            _ahead("hinted", "distilled", strict=strict),
        ),
        Rule(
            "the student overtakes",
            "the student is at least as good as its teacher (Romero et al., MNIST: errors of 0.51 % and 0.55 %)",
            f"the thin network with hints and distillation is at least as good as the teacher of one seed: {how}",
            _reaches_teacher(strict=strict),
        ),
    )


def _rows(reported: Mapping[str, str]) -> Callable[["Evidence"], list[Row]]:
    def rows(evidence: "Evidence") -> list[Row]:
        found = []
        for run in evidence.labelled("teacher"):
            found.append(Row(f"teacher{_size([run])}", reported.get("teacher", "not given"), f"{tested(run):.2f} %"))
        for method, title in METHODS.items():
            rate, runs = best_of(evidence, method)
            if runs:
                what = f"{title}{_size(runs)}, learning rate {rate:g}"
                found.append(Row(what, reported.get(method, "not given"), _accuracies(runs)))
        for method, title in METHODS.items():
            groups = by_rate(evidence, method)
            if len({len(runs) for runs in groups.values()}) > 1:  # only one rate was repeated with other seeds
                firsts = [(rate, runs[0]) for rate, runs in groups.items()]
                values = [f"{rate:g}: {f'{tested(run):.2f} %' if run.finished else 'diverged'}" for rate, run in firsts]
                found.append(Row(f"{title}, first seed, by rate", "not given", ", ".join(values)))
            elif groups:
                means = [f"{rate:g}: {statistics.fmean(map(tested, runs)):.2f}" for rate, runs in groups.items()]
                found.append(Row(f"{title}, means by learning rate", "not given", f"{', '.join(means)} %"))
        return found

    return rows


def _size(runs: Sequence["RunEvidence"]) -> str:
    sizes = [run.parameters for run in runs if run.finished]
    return f", {sizes[0]:,} parameters" if sizes else ""


def _accuracies(runs: Sequence["RunEvidence"]) -> str:
    values = [tested(run) for run in runs if run.finished]
    texts = [diverged(runs)] if diverged(runs) else []
    if len(values) == 1:
        texts.insert(0, f"{values[0]:.2f} %")
    elif values:
        texts.insert(0, f"{max(values):.2f} ({statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}) %")
    return "; ".join(texts)


def _headline(evidence: "Evidence") -> str:
    if not all(best_of(evidence, method)[1] for method in METHODS):
        return "not run"
    if any(diverged(best_of(evidence, method)[1]) for method in ("hinted", "highway")):
        return "some runs diverged"
    return f"hints {mean_of(evidence, 'hinted'):.2f}, highway {mean_of(evidence, 'highway'):.2f} %"


def _drawer(name: str, numbers: Mapping[str, float]) -> Callable[["Evidence"], Mapping[str, tuple["Figure", str]]]:
    def draw(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
        from highwaynet.figures.comparison_plot import Compared, draw_accuracies

        shown = {} if evidence.scale == "smoke" else numbers
        rows = [Compared("teacher", [tested(run) for run in evidence.labelled("teacher")], shown.get("teacher"))]
        for method, title in METHODS.items():
            label = title.replace(", ", ",\n", 1)
            rows.append(Compared(label, [tested(run) for run in best_of(evidence, method)[1]], shown.get(method)))
        spec = next(iter(evidence)).spec
        text = f"Thin networks with and without a teacher beside a highway network, on {spec.data.title}, {spec.training.epochs} epochs."
        return {name: (draw_accuracies(rows, "the papers"), text)}

    return draw


def race(
    name: str,
    title: str,
    settings: Mapping[Scale, RaceSetting],
    notes: Mapping[Scale, str],
    *,
    kind: str,
    numbers: Mapping[str, float] | None = None,
    seen: str = "",
    all_seeds: bool = False,
) -> Claim:
    """Make the claim of a race.

    `kind` says in a word which networks race, and `numbers` has the accuracies in the papers, by method. With `all_seeds`, all learning
    rates are run with all seeds, not only the best.
    """
    numbers = numbers or {}

    def plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
        count = seeds or (1 if scale == "smoke" else 3)
        return settings[scale].runs(scale, count, all_seeds=all_seeds) if scale in settings else ()

    return Claim(
        name,
        title,
        "Highway networks are trained directly, in one stage, to the accuracy that thin networks reach with hints from a teacher, in two.",
        plan,
        _rules(all_seeds=all_seeds),
        _drawer(name, numbers),
        _rows({method: f"{value:.2f} %" for method, value in numbers.items()}),
        notes,
        source="the papers",
        seen=seen,
        short=f"1 stage, not 2 ({kind})",
        headline=_headline,
    )


_SGD: dict[str, Any] = {"optimiser": "sgd", "momentum": 0.9, "batch_size": 128, "decay": 0.1}
_DENSE = RaceSetting(
    data={"name": "mnist", "validation": 0.1},
    teacher={"name": "fc-plain", "depth": 3, "width": 200, "activation": "relu"},
    student={"name": "fc-plain", "depth": 20, "width": 36},
    highway={"name": "fc-highway", "depth": 20, "width": 25},
    hints="10:2",
    epochs=9,
    rates=(0.01, 0.04, 0.16),
    teacher_rate=0.05,
    training=_SGD,
)
_TINY = RaceSetting(
    data={"name": "digits"},
    teacher={"name": "fc-plain", "depth": 3, "width": 40, "activation": "relu"},
    student={"name": "fc-plain", "depth": 6, "width": 14},
    highway={"name": "fc-highway", "depth": 6, "width": 10},
    hints="3:2",
    epochs=3,
    rates=(0.02, 0.1),
    teacher_rate=0.05,
    training={"batch_size": 64, "decay": 0.1},
)
RACE_DENSE = race(
    "race-dense",
    "Table 2's race: thin dense networks on MNIST",
    {"smoke": _TINY, "laptop": _DENSE, "paper": _DENSE},
    {
        "smoke": "digits, 6 layers, 3 epochs: shows that everything works, says nothing about the papers.",
        "laptop": "dense networks, which neither paper uses here: plain with 20 layers and 36 units, highway with 20 layers and "
        "25 units, a teacher of 3 layers and 200 units with one seed; 9 epochs (3 of them with hints), 54,000 training images.",
        "paper": "the same as at scale laptop: the papers have no such networks.",
    },
    kind="dense",
    seen="three runs of 2 epochs with seed 0: the teacher, the thin network alone, and with hints and another form of distillation",
    all_seeds=True,
)

_CLIPPED: dict[str, Any] = {"recipe": "quick", "batch_size": 100, "clip_norm": 1.0}
"""Maxout networks diverge at most rates without clipping."""
_MAXOUT = RaceSetting(
    data={"name": "mnist", "validation": 0.1},
    teacher={"name": "mnist-maxout"},
    student={"name": "mnist-fitnet"},
    highway={"name": "mnist-highway-16"},
    hints="4:2",
    epochs=9,
    rates=(0.01, 0.03, 0.09),
    teacher_rate=0.01,  # chosen on validation data: benchmarks/quick_rates.py
    training=_CLIPPED,
    after=3,
)
RACE_MAXOUT = race(
    "race-maxout",
    "Table 2's race: maxout networks on MNIST",
    {"laptop": _MAXOUT, "paper": _MAXOUT},
    {
        "smoke": "the maxout networks are too large for digits; race-dense runs the same code at this scale",
        "laptop": "the FitNet of the released files, its teacher of one seed, and the paper's highway network of 39,000 parameters, with a "
        "recipe of our own (quick), gradients clipped to a norm of 1; 9 epochs (3 of them with hints), 54,000 training images.",
        "paper": "the same as at scale laptop: the papers name no budget for MNIST.",
    },
    kind="maxout",
    seen="the same race with three other seeds and without clipped gradients, in which two of three runs with hints diverged "
    "(results/race-without-clipping.json)",
    numbers={"teacher": 99.45, "plain": 98.10, "distilled": 99.35, "hinted": 99.49, "highway": 99.40},
)

_CIFAR = RaceSetting(
    data={"name": "cifar-10", "validation": 0.2},
    teacher={"name": "maxout-teacher-half", "dropout": [0.0, 0.1, 0.1, 0.2]},
    student={"name": "fitnet-a"},
    highway={"name": "highway-a"},
    hints="6:2",
    epochs=12,
    rates=(0.03, 0.09, 0.27),
    teacher_rate=0.09,  # chosen on validation data, with this dropout: benchmarks/quick_rates.py
    training=_CLIPPED | {"crop": 0, "mirror": False},
    after=3,
)
_CIFAR_WHOLE = replace(_CIFAR, teacher={"name": "maxout-teacher"}, epochs=150, training=_CLIPPED)
FITNETS = race(
    "fitnets",
    "Table 2: FitNet A in two stages, Highway A in one",
    {"laptop": _CIFAR, "paper": _CIFAR_WHOLE},
    {
        "smoke": "the networks are too large for digits; race-dense runs the same code at this scale",
        "laptop": "a recipe of our own (quick), gradients clipped to a norm of 1, no augmentation, so that the teacher is asked once; "
        "12 epochs (4 of them with hints), 40,000 training images, and a teacher of half the width and with less dropout, of one seed: the "
        "whole one needs 573 million multiply-adds a sample.",
        "paper": "a recipe of our own (quick), gradients clipped to a norm of 1; 150 epochs (50 of them with hints), 40,000 training "
        "images; FitNet A, Highway A and the teacher are reconstructions.",
    },
    kind="CIFAR-10",
    seen="the same race with seeds 101 to 103, lower learning rates, and a teacher that was hardly trained (42 %), in which the highway "
    "network came last (results/race-weak-teacher.json)",
    numbers={"teacher": 90.18, "hinted": 89.01, "highway": 89.18},
)
