"""Figure 1 of the paper: training loss over epochs for highway and plain networks of several depths, and how fast they converge."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from highwaynet.figures.curves import SMALLEST
from highwaynet.figures.style import WIDTH, Figure, house_style, kind_styles, log_scale, plain_numbers

Curves = Mapping[tuple[str, int], Sequence[float]]
"""Loss of each epoch, by kind and depth."""


def draw_optimisation(best: Curves, mean: Curves, top: int) -> Figure:
    """Draw the best run of each depth and kind (left), and the mean of the `top` best (right), on the same log axis."""
    with house_style():
        figure = Figure(figsize=(2 * WIDTH, 4.0))
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, curves, title in ((left, best, "best run"), (right, mean, f"mean of the {top} best")):
            _draw(axes, curves)
            axes.set_title(title)
        left.set_ylabel("training loss")
        _legend(figure, left)
        return figure


def draw_speed(curves: Curves, loss: float) -> Figure:
    """Draw the curves with both axes logarithmic, and a line at `loss`."""
    with house_style():
        figure = Figure(figsize=(2 * WIDTH, 4.0))
        axes = figure.subplots()
        _draw(axes, curves)
        if not any(curves.values()):  # all diverged: without curves the axes have no scale
            axes.set(xlim=(1, 10), ylim=(0.1 * loss, 1000 * loss))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(plain_numbers()[0])
        axes.xaxis.set_minor_formatter(plain_numbers()[1])
        axes.axhline(loss, color="#555555", linewidth=1)
        axes.set_ylabel("training loss")
        _legend(figure, axes)
        return figure


def _draw(axes: Axes, curves: Curves) -> None:
    styles = kind_styles([kind for kind, _ in curves])
    for ((kind, depth), losses), (colour, dashes) in zip(curves.items(), styles, strict=True):
        values = [max(loss, SMALLEST) if math.isfinite(loss) else math.nan for loss in losses]
        marker = "o" if len(values) == 1 else None
        axes.plot(range(1, len(values) + 1), values, color=colour, linestyle=dashes, marker=marker, label=f"{kind}, {depth}")
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    log_scale(axes.yaxis)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, [f"{label} layers" for label in labels], loc="outside upper center", ncols=max(1, math.ceil(len(labels) / 2)))
