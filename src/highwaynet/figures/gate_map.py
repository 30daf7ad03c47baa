"""The gate map: mean transform gate output, layers × blocks (figure 2 of the paper, second column)."""

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from highwaynet.analysis.records import GatesRecord
from highwaynet.figures.style import HEAT, WIDTH, house_style


def draw_gate_map(record: GatesRecord) -> Figure:
    """A row per layer, the first at the top, and a column per block (or map); bright gates are open. Thinner layers end earlier."""
    layers, blocks = len(record.mean), max(map(len, record.mean))
    table = np.full((layers, blocks), np.nan)
    for row, values in zip(table, record.mean, strict=True):
        row[: len(values)] = values
    top = max(0.1, math.ceil(10 * np.nanmax(table)) / 10)
    with house_style():
        figure = Figure(figsize=(WIDTH, min(5.5, max(3.0, 1.2 + 3.4 * layers / max(layers, blocks)))))
        axes = figure.subplots()
        axes.grid(False)
        extent = (0.5, blocks + 0.5, layers + 0.5, 0.5)
        image = axes.imshow(table, cmap=HEAT, vmin=0, vmax=top, aspect="auto", interpolation="nearest", extent=extent)
        axes.set_xlabel("map" if record.convolutional else "block")
        axes.set_ylabel("highway layer")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        figure.colorbar(image, ax=axes, label="mean transform gate output T", pad=0.02)
        return figure
