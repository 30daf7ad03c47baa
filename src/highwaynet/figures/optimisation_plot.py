"""Figure 1 of the paper: training loss over epochs for highway and plain networks of several depths, and how fast they converge."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from highwaynet.figures.curves import SMALLEST
from highwaynet.figures.style import FRAME, KIND_COLOURS, WIDTH, Figure, house_style, kind_styles, log_scale

Curves = Mapping[tuple[str, int], Sequence[float]]
"""Loss of each epoch, by kind and depth."""


def draw_optimisation(best: Curves, mean: Curves) -> Figure:
    """Left the best run of each depth and kind, right the mean of the ten best; both on the same log axis."""
    with house_style():
        figure = Figure(figsize=(2 * WIDTH, 4.0))
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, curves, title in ((left, best, "best run"), (right, mean, "mean of the ten best")):
            _draw(axes, curves)
            axes.set_title(title)
        left.set_ylabel("training loss")
        _legend(figure, left)
        return figure


def draw_speed(epochs: Mapping[tuple[str, int], Mapping[float, Sequence[float]]]) -> Figure:
    """Epochs until some losses, by kind and depth: a panel for each loss, with median and quartiles; infinite ones at the top.

    Args:
        epochs: By kind and depth, for each loss the epochs of each run; infinite if it never came so low.
    """
    losses = list(next(iter(epochs.values())))
    depths = list(dict.fromkeys(depth for _, depth in epochs))
    finite = [value for by_loss in epochs.values() for values in by_loss.values() for value in values if math.isfinite(value)]
    last = max(finite, default=10.0)
    never = 1.8 * last
    with house_style():
        figure = Figure(figsize=(2 * WIDTH, 3.4))
        panels = figure.subplots(1, len(losses), sharey=True, squeeze=False)[0]
        for axes, loss in zip(panels, losses, strict=True):
            for kind, shift in (("highway", -0.12), ("plain", 0.12)):
                quartiles = np.array([np.quantile(np.minimum(epochs[kind, depth][loss], never), (0.25, 0.5, 0.75)) for depth in depths])
                quartiles[quartiles > last] = never  # between a number and never lies never
                places = np.arange(len(depths)) + shift
                axes.vlines(places, quartiles[:, 0], quartiles[:, 2], color=KIND_COLOURS[kind], linewidth=1.2)
                axes.plot(places, quartiles[:, 1], color=KIND_COLOURS[kind], marker="o", markersize=5, label=kind)
            axes.axhline(never / 1.3, color=FRAME, linewidth=0.8, linestyle=(0, (1, 2)))
            axes.set_title(f"to a loss below {loss:g}")
            axes.set_xticks(range(len(depths)), [str(depth) for depth in depths])
            axes.set_xlabel("layers")
            axes.set_yscale("log")
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500) if tick <= last]
        panels[0].set_yticks([*ticks, never], [*map(str, ticks), "never"])
        panels[0].minorticks_off()
        panels[0].set_ylim(0.85, 1.3 * never)
        panels[0].set_ylabel("epochs")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
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
