"""A study in pictures: the paper's figure 1, the curves of the ten best of each configuration, and parallel coordinates."""

import math
from collections.abc import Iterable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from highwaynet.figures.style import COLOURS, FRAME, HEAT, KIND_COLOURS, WIDTH, Values, house_style, log_scale
from highwaynet.search.results import ConfigurationResult, StudyResult, TrialResult

SMALLEST = 1e-12
"""Losses below are drawn here: a log axis has no zero."""
DASHES: list[Any] = ["-", (0, (4, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (1, 3))]
NAMES = {"train-loss": "mean training loss", "validation-loss": "mean validation loss", "validation-accuracy": "validation accuracy"}


def draw_study(result: StudyResult) -> dict[str, tuple[Figure, str]]:
    """All figures of a study with their captions, by the name of their file."""
    known = [one for one in result.configurations if one.top]
    figures: dict[str, tuple[Figure, str]] = {}
    if known:
        counted = f"{len(known)} configurations of {known[0].trials} settings"
        text = f"Study {result.name}, {counted}: left the best run of each, right the mean of its {len(known[0].top)} best."
        figures["best"] = (draw_best(result, known), text)
    for one in known:
        text = f"Study {result.name}, {one.label}: the {len(one.top)} best of {one.trials} settings, and their mean."
        figures[f"curves-{one.label}"] = (draw_curves_of(result, one), text)
        if any(trial.settings for trial in one.results):
            text = f"Study {result.name}, {one.label}: {len(one.results)} settings; the best are drawn last, those that diverged are grey."
            figures[f"settings-{one.label}"] = (draw_settings(result, one), text)
    return figures


def draw_best(result: StudyResult, known: list[ConfigurationResult]) -> Figure:
    """Figure 1 of the paper: left the best run of each configuration, right the mean of its ten best."""
    with house_style():
        figure = Figure(figsize=(2 * WIDTH, 3.8))
        left, right = figure.subplots(1, 2, sharey=True)
        for one, (colour, dashes) in zip(known, _styles(known), strict=True):
            for axes, curve in ((left, _curves(one.top[:1])[0]), (right, _mean(_curves(one.top)))):
                axes.plot(range(1, len(curve) + 1), curve, color=colour, linestyle=dashes, label=one.label, **_single(curve))
        for axes, title in ((left, "best run"), (right, f"mean of the {max(len(one.top) for one in known)} best")):
            _finish(axes, result)
            axes.set_title(title)
        right.set_ylabel("")
        figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=min(4, len(known)))
        return figure


def draw_curves_of(result: StudyResult, one: ConfigurationResult) -> Figure:
    """The ten best of a configuration, thin, and their mean."""
    with house_style():
        figure = Figure(figsize=(WIDTH, 3.5))
        axes = figure.subplots()
        curves = _curves(one.top)
        for number, curve in enumerate(curves):
            label = "the best ones" if number == 0 else None
            axes.plot(range(1, len(curve) + 1), curve, color=COLOURS[5], linewidth=0.9, label=label, **_single(curve))
        mean = _mean(curves)
        axes.plot(range(1, len(mean) + 1), mean, color="black", label="mean", **_single(mean))
        _finish(axes, result)
        axes.set_title(one.label)
        axes.legend()
        return figure


def draw_settings(result: StudyResult, one: ConfigurationResult) -> Figure:
    """Parallel coordinates: a line for each setting, from field to field to its value, coloured by its rank."""
    fields = list(dict.fromkeys(field for trial in one.results for field in trial.settings))
    sign = -1 if result.maximises else 1
    ended = [trial for trial in one.results if trial.value is not None]
    ranked = sorted(ended, key=lambda trial: sign * (trial.value or 0.0), reverse=True)  # the best are drawn last
    with house_style():
        figure = Figure(figsize=(max(WIDTH, 1.25 * (len(fields) + 1)), 3.8))
        axes = figure.subplots()
        scales = {field: _Scale([t.settings.get(field) for t in one.results], log=field in result.log_scaled) for field in fields}
        values = _Scale([trial.value for trial in ended], log=not result.maximises)
        colours = mpl.colormaps[HEAT]
        for trial in (trial for trial in one.results if trial.value is None):
            axes.plot(range(len(fields)), [scales[f].place(trial.settings.get(f)) for f in fields], color="#bbbbbb", linewidth=0.7)
        for rank, trial in enumerate(ranked):
            heights = [*(scales[field].place(trial.settings.get(field)) for field in fields), values.place(trial.value)]
            shade = colours(1 - rank / max(1, len(ranked) - 1))
            axes.plot(range(len(heights)), heights, color=shade, linewidth=0.9, alpha=0.9)
        for number, scale in enumerate([*scales.values(), values]):
            axes.axvline(number, color=FRAME, linewidth=0.8)
            for text, place in scale.labels():
                axes.annotate(text, (number, place), (3, 0), textcoords="offset points", fontsize=7.5, va="center", clip_on=False)
        axes.set_xticks(
            range(len(fields) + 1), [*(field.partition(".")[2].replace("_", "\n") for field in fields), "best\n" + result.objective]
        )
        axes.set_xlim(-0.05, len(fields) + 0.45)
        axes.set_ylim(-0.06, 1.06)
        axes.set_yticks([])
        axes.grid(False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        axes.set_title(one.label)
        return figure


class _Scale:
    """Values of a setting on a vertical line from 0 to 1; words stand below each other, and what was not drawn has no place."""

    def __init__(self, values: Iterable[Any], *, log: bool) -> None:
        known = [value for value in values if value is not None]
        self._numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)
        self._log = log and self._numbers and all(value > 0 for value in known)
        self._words = [] if self._numbers else sorted({str(value) for value in known})
        places = [self._height(value) for value in known] or [0.0]
        self._low, self._high = min(places), max(places)

    def _height(self, value: Any) -> float:
        if not self._numbers:
            return float(self._words.index(str(value)))
        return math.log10(value) if self._log else float(value)

    def place(self, value: Any) -> float:
        if value is None:
            return math.nan
        span = self._high - self._low
        return (self._height(value) - self._low) / span if span else 0.5

    def labels(self) -> list[tuple[str, float]]:
        if self._words:
            return [(word, self.place(word)) for word in self._words]
        middle = (self._low + self._high) / 2
        ends = [self._low, middle, self._high] if self._high > self._low else [self._low]
        return [(f"{10**end if self._log else end:.2g}", self.place(10**end if self._log else end)) for end in ends]


def _curves(trials: Iterable[TrialResult]) -> list[Values]:
    return [np.array([math.nan if value is None else max(value, SMALLEST) for value in trial.curve]) for trial in trials]


def _mean(curves: list[Values]) -> Values:
    """The mean over as many epochs as all have: some may have stopped early."""
    length = min(len(curve) for curve in curves)
    mean: Values = np.mean([curve[:length] for curve in curves], axis=0)
    return mean


def _single(curve: Values) -> dict[str, Any]:
    """One epoch is a point."""
    return {"marker": "o"} if len(curve) == 1 else {}


def _finish(axes: Axes, result: StudyResult) -> None:
    axes.set_xlabel("epoch")
    axes.set_ylabel(NAMES[result.objective])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if not result.maximises:
        log_scale(axes.yaxis)


def _styles(known: list[ConfigurationResult]) -> list[tuple[str, Any]]:
    """Networks of a kind share a colour, as in the paper, and differ in their dashes; else each has a colour of its own."""
    kinds = [next((kind for kind in KIND_COLOURS if kind in str(one.axes.get("network.name", ""))), None) for one in known]
    if None in kinds or len(set(kinds)) < 2:
        return [(COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]) for number in range(len(known))]
    return [(KIND_COLOURS[kind or ""], DASHES[kinds[:number].count(kind) % len(DASHES)]) for number, kind in enumerate(kinds)]
