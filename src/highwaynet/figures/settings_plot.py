"""The settings of a study as parallel coordinates: a line for each trial through its settings to its value."""

import math
import re
from collections.abc import Iterable
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D

from highwaynet.figures.style import FRAME, HEAT, WIDTH, Figure, house_style
from highwaynet.search.results import ConfigurationResult, StudyResult, TrialResult

APART = 0.14
"""Distance of the place for "no value" from the other values, as a share of an axis."""
DIVERGED = "#bbbbbb"
PRUNED: Any = (0, (3, 1.5))
LETTERS = 13
"""Longest label; longer ones would reach the next axis."""
WORDS = 15
"""Largest number of labels on an axis; more would overlap."""


def draw_settings(result: StudyResult, one: ConfigurationResult, title: str) -> Figure:
    """Draw the parallel coordinates of a configuration, coloured by rank."""
    fields = list(dict.fromkeys(field for trial in one.results for field in trial.settings))
    scales = [_scale(result, field, [trial.settings.get(field) for trial in one.results]) for field in fields]
    # Diverged trials are worse than all others: they are at the upper end if the lowest value is best.
    none = -APART if result.maximises else 1 + APART
    scales.append(_Scale((trial.value for trial in one.results), log=not result.maximises, none=none, word="diverged"))
    with house_style():
        figure = Figure(figsize=(max(WIDTH, 1.05 * len(scales)), 3.9))
        axes = figure.subplots()
        for trial, look in _looks(one.results, maximises=result.maximises):
            values = [*(trial.settings.get(field) for field in fields), trial.value]
            axes.plot([scale.place(value) for scale, value in zip(scales, values, strict=True)], linewidth=0.9, **look)
        for number, scale in enumerate(scales):
            _draw_scale(axes, number, scale)
        names = [field.partition(".")[2].replace("_", "\n") for field in fields]
        axes.set_xticks(range(len(scales)), [*names, "best\n" + result.objective.replace("-", "\n")], fontsize=9)
        axes.set_xlim(-0.05, len(scales) - 0.4)
        apart = {scale.none for scale in scales if scale.none is not None}  # their labels need room
        axes.set_ylim(-2 * APART if -APART in apart else -0.04, 1 + 2 * APART if 1 + APART in apart else 1.04)
        axes.set_yticks([])
        axes.grid(False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        axes.set_title(title)
        _legend(figure, {trial.state for trial in one.results})
        return figure


def _looks(trials: Iterable[TrialResult], *, maximises: bool) -> list[tuple[TrialResult, dict[str, Any]]]:
    """Return the style of each line in the order of drawing: diverged trials, then the others from worst to best."""
    trials, sign = list(trials), -1 if maximises else 1
    ranked = sorted((trial for trial in trials if trial.value is not None), key=lambda trial: -sign * (trial.value or 0.0))
    found: list[tuple[TrialResult, dict[str, Any]]] = [(trial, {"color": DIVERGED}) for trial in trials if trial.value is None]
    for rank, trial in enumerate(ranked, start=1):
        shade = mpl.colormaps[HEAT](1 - rank / len(ranked))
        found.append((trial, {"color": shade, "linestyle": PRUNED if trial.state == "pruned" else "-"}))
    return found


def _draw_scale(axes: Axes, number: int, scale: "_Scale") -> None:
    axes.plot([number, number], [0, 1], color=FRAME, linewidth=0.8, zorder=3)
    box = {"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "annotation_clip": False, "bbox": box, "zorder": 4}
    for text, place in scale.labels():
        axes.annotate(text, (number, place), (4, 0), va="center", **look)
    if scale.none is not None:  # beyond the lines, which would cross it
        below = scale.none < 0
        axes.annotate(scale.none_label, (number, scale.none), (0, -4 if below else 4), ha="center", va="top" if below else "bottom", **look)


def _legend(figure: Figure, states: set[str]) -> None:
    """Show the colours from worst to best, and the styles of pruned and diverged trials if there are any."""
    colours = tuple(Line2D([], [], color=mpl.colormaps[HEAT](1 - share / 8), linewidth=6, solid_capstyle="butt") for share in range(9))
    entries: dict[str, Any] = {"worst … best": colours}
    if "pruned" in states:
        entries["pruned"] = Line2D([], [], color=FRAME, linewidth=1.2, linestyle=PRUNED)
    if "diverged" in states:
        entries["diverged"] = Line2D([], [], color=DIVERGED, linewidth=1.2)
    bar = {tuple: HandlerTuple(ndivide=None, pad=0)}
    figure.legend(entries.values(), entries.keys(), handler_map=bar, loc="outside upper center", ncols=3, handlelength=3, fontsize=8.5)


def _scale(result: StudyResult, field: str, values: list[Any]) -> "_Scale":
    numbers = all(isinstance(value, int | float | None) and not isinstance(value, bool) for value in values)
    if numbers and field not in result.choices:
        return _Scale(values, log=field in result.log_scaled)
    drawn = sorted((value for value in values if value is not None), key=str)
    return _Scale(values, words=list(dict.fromkeys(map(str, (*result.choices.get(field, ()), *drawn)))))


class _Scale:
    """Maps values to heights from 0 to 1: choices at equal distances, and missing values (None) at a separate place."""

    def __init__(
        self, values: Iterable[Any], *, words: list[str] | None = None, log: bool = False, none: float = -APART, word: str = "–"
    ) -> None:
        values = list(values)
        known = [value for value in values if value is not None]
        self._words, self._log = words, log and all(value > 0 for value in known)
        self.none = none if len(known) < len(values) else None
        self.none_label = word
        self._whole = words is None and all(isinstance(value, int) for value in known)
        heights = [0.0, len(words) - 1.0] if words else [self._height(value) for value in known] or [0.0]
        self._low, self._high = min(heights), max(heights)

    def _height(self, value: Any) -> float:
        if self._words is not None:
            return float(self._words.index(str(value)))
        return math.log10(value) if self._log else float(value)

    def _at(self, height: float) -> float:
        span = self._high - self._low
        return (height - self._low) / span if span else 0.5

    def place(self, value: Any) -> float:
        """Return the height of a value."""
        return self.none if value is None and self.none is not None else self._at(self._height(value))

    def labels(self) -> list[tuple[str, float]]:
        """Return tick labels with their heights."""
        if self._words is not None:
            every = math.ceil(len(self._words) / WORDS)
            return [(_short(word), self._at(number)) for number, word in enumerate(self._words) if number % every == 0]
        heights = sorted({self._low, (self._low + self._high) / 2, self._high})
        if self._whole and not self._log:
            heights = sorted({float(round(height)) for height in heights})
        texts = _told_apart([10**height if self._log else height for height in heights])
        return list(zip(texts, map(self._at, heights), strict=True))


def _short(word: str) -> str:
    """Shorten a choice to a label.

    >>> _short("-2.0"), _short("one-cycle"), _short("an-endless-name")
    ('−2', 'one-cycle', 'an-endless-n…')
    """
    word = re.sub(r"^-(?=\d)", "−", re.sub(r"^(-?\d+)\.0$", r"\1", word))
    return word if len(word) <= LETTERS else word[: LETTERS - 1] + "…"


def _told_apart(numbers: list[float]) -> list[str]:
    """Format numbers with as many digits as needed to distinguish them, at least two.

    >>> _told_apart([0.0012345, 0.5, 128.0]), _told_apart([0.981, 0.9825, 0.984]), _told_apart([-2.0])
    (['0.0012', '0.5', '128'], ['0.981', '0.983', '0.984'], ['−2'])
    """
    for digits in range(2, 9):
        texts = [f"{number:.0f}" if 100 <= abs(number) < 1e5 and digits < 4 else f"{number:.{digits}g}" for number in numbers]
        if len(set(texts)) == len(set(numbers)):
            break
    return [text.replace("-", "−") for text in texts]
