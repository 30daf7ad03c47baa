"""Figures of a study: figure 1 of the paper, the curves of the ten best trials of each configuration, and their settings."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from highwaynet.base.text import with_count
from highwaynet.figures.curves import SMALLEST
from highwaynet.figures.settings_plot import draw_settings
from highwaynet.figures.style import COLOURS, DASHES, KIND_COLOURS, WIDTH, Figure, Values, house_style, kind_styles, log_scale
from highwaynet.search.results import ConfigurationResult, StudyResult, TrialResult

NAMES = {"train-loss": "mean training loss", "validation-loss": "mean validation loss", "validation-accuracy": "validation accuracy"}


def draw_study(result: StudyResult) -> dict[str, tuple[Figure, str]]:
    """Draw all figures of a study; return them with their captions, by file name."""
    known = [one for one in result.configurations if one.top]
    figures: dict[str, tuple[Figure, str]] = {}
    if known:
        of = f"{with_count(len(known), 'configuration')} of {with_count(known[0].trials, 'setting')}"
        left = "the best run of each" if len(known) > 1 else "the best run"
        text = f"Study {result.name}, {of}: left {left}, right the mean of {_count_best(known, 'its')}."
        figures["best"] = (draw_best(result, known), text)
    for one in known:
        study = f"Study {result.name}, {one.label}" if one.axes else f"Study {result.name}"
        of = with_count(one.trials, "setting")
        text = f"{study}: the {len(one.top)} best of {of}, and their mean." if len(one.top) > 1 else f"{study}: the best of {of}."
        figures[f"curves-{one.label}"] = (draw_curves_of(result, one), text)
        if any(trial.settings for trial in one.results):
            dash = "; –: a setting that a trial does not have" if len({frozenset(trial.settings) for trial in one.results}) > 1 else ""
            text = f"{study}: {with_count(len(one.results), 'setting')}; the best are drawn last{dash}."
            figures[f"settings-{one.label}"] = (draw_settings(result, one, _name(result, one)), text)
    return figures


def draw_best(result: StudyResult, known: list[ConfigurationResult]) -> Figure:
    """Draw figure 1 of the paper: the best run of each configuration (left), and the mean of its ten best (right)."""
    with house_style():
        figure = Figure(figsize=(2 * WIDTH, 3.8))
        left, right = figure.subplots(1, 2, sharey=True)
        for one, (colour, dashes) in zip(known, _styles(known), strict=True):
            for axes, curve in ((left, _curves(one.top[:1])[0]), (right, _mean(_curves(one.top)))):
                axes.plot(range(1, len(curve) + 1), curve, color=colour, linestyle=dashes, label=_name(result, one), **_single(curve))
        for axes, title in ((left, "best run"), (right, f"mean of {_count_best(known, 'the')}")):
            _finish(axes, result)
            axes.set_title(title)
        right.set_ylabel("")
        figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=min(4, len(known)))
        return figure


def draw_curves_of(result: StudyResult, one: ConfigurationResult) -> Figure:
    """Draw the ten best trials of a configuration as thin lines, and their mean."""
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
        axes.set_title(_name(result, one))
        axes.legend()
        return figure


def _name(result: StudyResult, one: ConfigurationResult) -> str:
    """Return the label of a configuration; the name of the study if it has no axes."""
    return one.label if one.axes else result.name


def _count_best(known: list[ConfigurationResult], article: str) -> str:
    """Return the number of best trials in words, for instance: the 10 best."""
    counts = {len(one.top) for one in known}
    return f"{article} {max(counts)} best" if len(counts) == 1 else f"up to {max(counts)} best"


def _curves(trials: Iterable[TrialResult]) -> list[Values]:
    return [np.array([math.nan if value is None else max(value, SMALLEST) for value in trial.curve]) for trial in trials]


def _mean(curves: list[Values]) -> Values:
    """Return the mean over the epochs that all curves have; some runs may have stopped early."""
    length = min(len(curve) for curve in curves)
    mean: Values = np.mean([curve[:length] for curve in curves], axis=0)
    return mean


def _single(curve: Values) -> dict[str, Any]:
    """Return the style of a curve: a single epoch is drawn as a point."""
    return {"marker": "o"} if len(curve) == 1 else {}


def _finish(axes: Axes, result: StudyResult) -> None:
    axes.set_xlabel("epoch")
    axes.set_ylabel(NAMES[result.objective])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if not result.maximises:
        log_scale(axes.yaxis)


def _styles(known: list[ConfigurationResult]) -> list[tuple[str, Any]]:
    """Return colours and dashes: networks of the same kind share a colour, as in the paper; without kinds, each has its own colour."""
    kinds = [next((kind for kind in KIND_COLOURS if kind in str(one.axes.get("network.name", ""))), None) for one in known]
    if None in kinds or len(set(kinds)) < 2:
        return [(COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]) for number in range(len(known))]
    return kind_styles([kind or "" for kind in kinds])
