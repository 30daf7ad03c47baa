"""Mistakes: the confusion matrix, the calibration, and the residuals of a regression."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from highwaynet.analysis.mistakes_record import BINS, MistakesRecord
from highwaynet.base.text import quantity_text
from highwaynet.figures.routing_plot import short_name
from highwaynet.figures.style import COLOURS, FRAME, WIDTH, Figure, colour_bar, heat_map, house_style

SMALLEST = 5.5
"""Counts are written into the matrix if they fit with this font size, in points."""
NAMED = 30
"""Largest number of classes that are named along the axes."""


def draw_confusion(record: MistakesRecord) -> Figure:
    """Draw the confusion matrix: colours are shares of each true class, numbers are samples; many classes have neither."""
    counts, names = record.confusion.astype(float), record.class_names
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.full_like(counts, np.nan), where=totals > 0)
    is_named = len(names) <= NAMED
    with house_style():
        figure = Figure(figsize=(WIDTH, WIDTH + (1.6 if 20 < len(names) <= NAMED else 0.6)))
        axes = figure.subplots()
        image = heat_map(axes, shares, Normalize(0, 1), "Blues", first=0)
        room = 72 * WIDTH - 45  # in points, for the names and the matrix
        if is_named:
            room -= _name_classes(axes, names, room)
        else:
            axes.set_xticks(axes.get_yticks())
        _write_counts(axes, counts, shares, room / len(names))
        axes.set_xlabel("predicted class" if is_named else "number of the predicted class")
        axes.set_ylabel("true class" if is_named else "number of the true class")
        bar = colour_bar(image, axes, "share of the samples of the true class", wide=True)
        bar.ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        return figure


def _name_classes(axes: Axes, names: tuple[str, ...], room: float) -> float:
    """Name the classes along both axes, horizontally if there is room; return the width of the names, in points."""
    shown = [short_name(name, 18 if len(names) <= 20 else 12) for name in names]
    size = 9.0 if len(names) <= 10 else 8.0 if len(names) <= 20 else 6.5
    width = 0.6 * size * max(map(len, shown))
    fits = width + size < (room - width) / len(names)
    axes.set_xticks(range(len(names)), shown, rotation=0 if fits else 90, fontsize=size)
    axes.set_yticks(range(len(names)), shown, fontsize=size)
    return width


def _write_counts(axes: Axes, counts: Any, shares: Any, cell: float) -> None:
    """Write the number of samples into each cell that is not empty, if cells of this width, in points, have room for it."""
    size = min(9.0, cell / (0.75 * len(f"{int(counts.max()):,}")), cell / 1.6)
    if size < SMALLEST:
        return
    for row, column in np.argwhere(counts > 0).tolist():
        colour = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, f"{int(counts[row, column]):,}", ha="center", va="center", fontsize=size, color=colour)


def draw_calibration(record: MistakesRecord) -> Figure:
    """Draw accuracy over probability, in 15 equally wide bins (a reliability diagram), and below how many samples each bin has."""
    known = record.bin_samples > 0
    with house_style():
        figure = Figure(figsize=(WIDTH, WIDTH))
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        upper.plot([0, 100], [0, 100], color=FRAME, linewidth=1, linestyle=(0, (4, 3)), label="perfectly calibrated")
        upper.plot(
            100 * record.bin_confidence[known], 100 * record.bin_accuracy[known], "o-", markersize=4, color=COLOURS[0], label="this network"
        )
        upper.set_ylabel("accuracy, %")
        upper.set_ylim(-2, 102)
        upper.legend(loc="upper left")
        middles = (np.arange(BINS) + 0.5) / BINS * 100
        lower.bar(middles, record.bin_samples, width=0.9 * 100 / BINS, color=COLOURS[0], zorder=3)
        lower.set_ylabel("samples")
        lower.set_xlabel("probability of the predicted class, %")
        lower.set_xlim(0, 100)
        lower.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
        lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        figure.align_ylabels([upper, lower])
        return figure


def draw_residuals(record: MistakesRecord) -> Figure:
    """Draw predictions over true values, and below the errors over the predictions."""
    true, told = record.targets.astype(float), record.predictions.astype(float)
    known = np.isfinite(told)
    true, told = true[known], told[known]
    dots: Any = {"s": 9, "alpha": 0.6 if len(true) <= 300 else 0.3, "linewidths": 0, "color": COLOURS[0], "zorder": 3}
    name = short_name(record.target_name, 24)
    with house_style():
        figure = Figure(figsize=(WIDTH, 1.6 * WIDTH))
        upper, lower = figure.subplots(2, 1, height_ratios=[3, 2])
        upper.scatter(true, told, **dots)
        ends = [
            float(min(true.min(initial=np.inf), told.min(initial=np.inf))),
            float(max(true.max(initial=-np.inf), told.max(initial=-np.inf))),
        ]
        if np.isfinite(ends).all():
            upper.plot(ends, ends, color=FRAME, linewidth=1, linestyle=(0, (4, 3)), label="prediction = truth")
            upper.legend(loc="upper left")
        upper.set_xlabel(f"true {name}")
        upper.set_ylabel(f"predicted {name}")
        lower.scatter(told, told - true, **dots)
        lower.axhline(0, color=FRAME, linewidth=1, linestyle=(0, (4, 3)))
        lower.set_xlabel(f"predicted {name}")
        lower.set_ylabel("prediction − truth")
        for axis in (upper.xaxis, upper.yaxis, lower.xaxis, lower.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=5 if axis.axis_name == "y" else 3))  # long numbers need room
            axis.set_major_formatter(FuncFormatter(lambda value, _: quantity_text(value)))
        return figure
