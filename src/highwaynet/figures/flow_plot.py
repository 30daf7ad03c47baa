"""Signal flow: activations and gradients by layer, before and after training (figures 5 to 7 of the 2021 report)."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, SymmetricalLogLocator

from highwaynet.analysis.analysis_records import FlowRecord
from highwaynet.base.arrays import Numbers
from highwaynet.figures.style import COLOURS, WIDTH, Figure, house_style, log_scale

Style = dict[str, Any]
# The line for the start is wider, so that it is visible below that of the trained network.
START: Style = {"color": COLOURS[1], "linewidth": 2.6}
TRAINED: Style = {"color": COLOURS[0], "linewidth": 1.3}
OUTPUTS: Style = {"linestyle": (0, (2, 1.2)), "marker": ""}
GREY: Style = {"color": "#555555", "linewidth": 1.3}
MARKED = 60
"""Largest number of layers for which each layer has a marker."""
LARGE = 1e3
"""If means exceed this, their axis is logarithmic beyond ±1."""


def draw_flow(record: FlowRecord) -> Figure:
    """Draw mean, variance and gradients by layer, in one panel each; a cross at the bottom of a log axis marks an exact 0."""
    moments = ((record.start, START), (record.trained, TRAINED))
    with house_style():
        figure = Figure(figsize=(WIDTH, 6.6))
        mean, variance, gradient = figure.subplots(3, 1, sharex=True)
        _draw_means(mean, [(finite(flow.mean), style) for flow, style in moments])
        _draw_on_log(variance, [(finite(flow.variance), style) for flow, style in moments])
        lines = [(finite(flow.signal_gradient), style | OUTPUTS) for flow, style in moments]
        _draw_on_log(gradient, [*lines, *((finite(flow.gradient), style) for flow, style in moments)])
        for axes, label in ((mean, "mean output"), (variance, "variance of outputs"), (gradient, "length of gradient")):
            axes.set_ylabel(label)
        gradient.set_xlabel("layer")
        gradient.set_xlim(0.5, len(record.layers) + 0.5)
        gradient.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        figure.align_ylabels()
        rows = {"before training": START, "after training": TRAINED, "gradient of weights": GREY, "gradient of outputs": GREY | OUTPUTS}
        handles = [Line2D([], [], label=label, **style) for label, style in rows.items()]
        figure.legend(handles=handles, loc="outside upper left", ncols=2)
        return figure


def finite(values: Numbers) -> Numbers:
    """Replace infinity by NaN, which leaves a gap in a line."""
    return np.where(np.isfinite(values), values, np.nan)


def marks(layers: int) -> Style:
    """Return the marker style for a line over this many layers."""
    return {"marker": "o", "markersize": 2.5} if layers <= MARKED else {}


def _draw(axes: Axes, values: Numbers, style: Style) -> None:
    count = len(values)
    axes.plot(np.arange(1, count + 1), values, **(marks(count) | style | (marks(1) if count == 1 else {})))


def _draw_means(axes: Axes, lines: list[tuple[Numbers, Style]]) -> None:
    for line in lines:
        _draw(axes, *line)
    if any((np.abs(values) > LARGE).any() for values, _ in lines):
        axes.set_yscale("symlog", linthresh=1)
        locator = SymmetricalLogLocator(base=10, linthresh=1)
        locator.set_params(numticks=5)
        axes.yaxis.set_major_locator(locator)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: "" if abs(value) == 1 else f"{value:g}"))


def _draw_on_log(axes: Axes, lines: list[tuple[Numbers, Style]]) -> None:
    """Draw lines on a log axis, or on a linear one if no value is above 0."""
    if not any((values > 0).any() for values, _ in lines):
        for line in lines:
            _draw(axes, *line)
        return
    for values, style in lines:
        _draw(axes, np.where(values > 0, values, np.nan), style)
        if len(zeros := np.flatnonzero(values == 0) + 1):
            cross = {"marker": "x", "markersize": 4, "linestyle": "", "clip_on": False, "in_layout": False}
            axes.plot(zeros, np.zeros(len(zeros)), transform=axes.get_xaxis_transform(), **(style | cross))
    log_scale(axes.yaxis)
