"""Heat maps (layers × blocks) of transform gates: biases, mean outputs, and one sample (figure 2 of the paper)."""

import math
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.image import AxesImage

from highwaynet.analysis.analysis_records import GatesRecord, RoutingRecord
from highwaynet.figures.findings import number_text
from highwaynet.figures.style import DIVERGING, FRAME, HEAT, WIDTH, Figure, Values, centred, colour_bar, finite, heat_map, house_style


class Panel(NamedTuple):
    """One of several heat maps."""

    title: str
    table: Values
    norm: Normalize
    label: str
    """Label of the colour bar."""
    centre: float | None = None
    """The value at the centre of a diverging colour map; None for a sequential one."""


def draw_gates(record: GatesRecord, columns: int = 4) -> Figure:
    """Draw four heat maps, the first layer at the top: biases after training, mean gates, and gates and outputs of one sample.

    Args:
        record: The record.
        columns: 4 for print, 2 for narrow pages.
    """
    starts = record.start_bias[np.isfinite(record.start_bias)]
    start, sample = float(np.median(starts)) if starts.size else 0.0, f"for sample {record.sample}"
    panels = [
        Panel("transform gate biases", record.bias, centred(record.bias, start, 0.1), f"started at {number_text(start)}", start),
        Panel("mean gate outputs", record.mean, _gate_range(record.mean), "T, 1 is open"),
        Panel("gate outputs", record.sample_gates, _gate_range(record.sample_gates), f"T {sample}"),
        Panel("block outputs", record.sample_outputs, centred(record.sample_outputs, 0, 1e-3), f"y {sample}", 0),
    ]
    with house_style():
        figure, grid = map_grid(record.bias.shape, len(panels), columns)
        for axes, panel in zip(grid, panels, strict=True):
            image = layer_map(axes, panel.table, panel.norm, HEAT if panel.centre is None else DIVERGING)
            axes.set_title(panel.title)
            bar = colour_bar(image, axes, panel.label, mark=panel.centre)
            if panel.centre is None:
                _gate_ticks(bar)
        label_gates(grid, columns, record)
        return figure


def map_grid(shape: tuple[int, ...], panels: int, columns: int, bars: bool = True) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes for `panels` maps of shape (layers, blocks); `bars` leaves room for a colour bar below each."""
    columns = min(columns, panels)
    rows = math.ceil(panels / columns)
    width = WIDTH * max(1, columns / 2)
    layers, blocks = shape
    height = min(3.4 if columns > 1 else 4.0, max(1.2, 0.9 * (width / columns - 0.3) * layers / max(blocks, 1)))  # of a map
    figure = Figure(figsize=(width, rows * (height + 1.25) if bars else rows * (height + 0.75) + 0.6))
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    if rows > 1 and bars:
        engine: Any = figure.get_layout_engine()
        engine.set(hspace=0.06)
    for axes in grid[panels:]:
        axes.remove()
    return figure, list(grid[:panels])


def layer_map(axes: Axes, table: Values, norm: Normalize, colours: str = HEAT) -> AxesImage:
    """Draw a heat map of layers × blocks; a line marks where thinner layers end."""
    image = heat_map(axes, table, norm, colours)
    rows, columns = table.shape
    empty = np.isnan(table)
    ends = np.where(empty.all(axis=1), 0, columns - empty[:, ::-1].argmin(axis=1)) + 0.5
    if (ends <= columns).any():
        axes.spines[["top", "right"]].set_visible(False)
        axes.stairs(ends, np.arange(rows + 1) + 0.5, orientation="horizontal", baseline=0.5, color=FRAME, linewidth=0.6)
        axes.set(xlim=(0.5, columns + 0.5), ylim=(rows + 0.5, 0.5))
    return image


def label_gates(grid: list[Axes], columns: int, record: GatesRecord | RoutingRecord) -> None:
    """Label the axes: blocks below each map, layers only at the left edge."""
    for number, axes in enumerate(grid):
        axes.set_xlabel("map" if record.convolutional else "block", labelpad=2)
        axes.tick_params(labelbottom=True)
        if number % columns == 0:
            axes.set_ylabel("highway layer")


def _gate_range(table: Values) -> Normalize:
    """Return the colour range from 0 to the next tenth above all gates."""
    return Normalize(0, max(0.1, math.ceil(10 * float(finite(table).max()) - 1e-6) / 10))


def _gate_ticks(bar: Colorbar) -> None:
    """Put ticks at both ends and in the middle."""
    top = bar.mappable.get_clim()[1]
    places = [0, top / 2, top]
    bar.set_ticks(places, labels=[f"{place:g}" for place in places])
