"""Comparison with the paper: accuracies as dots, and a grid of losses by setting."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from highwaynet.figures.style import COLOURS, FRAME, WIDTH, Figure, Values, colour_bar, house_style

SMALLEST = 1e-6
"""Losses below this have its colour."""


@dataclass(frozen=True)
class Compared:
    """A row of the figure."""

    label: str
    here: Sequence[float]
    """Accuracies in percent, one for each seed; empty if it was not run."""
    paper: float | None = None
    spread: float = 0.0
    """The paper's standard deviation."""


def draw_accuracies(rows: Sequence[Compared], source: str = "the paper") -> Figure:
    """Draw test accuracies: a dot for each seed here, a diamond with standard deviation for the other source."""
    with house_style():
        figure = Figure(figsize=(1.5 * WIDTH, 1.2 + 0.45 * len(rows)))
        axes = figure.subplots()
        for place, row in enumerate(rows):
            if row.paper is not None:
                axes.errorbar([row.paper], [place], xerr=[row.spread or np.nan], color=COLOURS[1], marker="D", linestyle="", capsize=3)
            axes.plot(row.here, [place] * len(row.here), linestyle="", marker="o", color=COLOURS[0], alpha=0.7)
        handles = [Line2D([], [], linestyle="", marker="o", color=COLOURS[0], label="here, a dot for each seed")]
        if any(row.paper is not None for row in rows):
            handles.append(Line2D([], [], linestyle="", marker="D", color=COLOURS[1], label=source))
        figure.legend(handles=handles, loc="outside upper center", ncols=2)
        axes.set_yticks(range(len(rows)), [row.label if row.here else f"{row.label}\n(no result here)" for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("test accuracy, %")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
        return figure


def draw_grid(losses: Values, rows: Sequence[str], columns: Sequence[str], below: float, what: str) -> Figure:
    """Draw a coloured table of losses. Those below `below`, which count as trained, are bold; × marks diverged ones."""
    with house_style():
        figure = Figure(figsize=(max(WIDTH, 1.4 + 0.85 * len(columns)), 1.6 + 0.34 * len(rows)))
        axes = figure.subplots()
        finite = losses[np.isfinite(losses)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (below, below)
        norm = LogNorm(max(min(low, below), SMALLEST), max(high, 2 * below))
        image = axes.imshow(np.where(np.isfinite(losses), np.maximum(losses, SMALLEST), np.nan), norm=norm, cmap="viridis_r", aspect="auto")
        for row in range(len(rows)):
            for column in range(len(columns)):
                loss = float(losses[row, column])
                text = f"{loss:.2g}" if np.isfinite(loss) else "×"
                dark = np.isfinite(loss) and norm(max(loss, SMALLEST)) > 0.5
                weight = "bold" if loss < below else "normal"
                axes.text(column, row, text, ha="center", va="center", fontsize=8.5, fontweight=weight, color="white" if dark else "black")
        axes.grid(False)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_xlabel(what)
        axes.tick_params(length=0)
        axes.spines[:].set(visible=True, color=FRAME, linewidth=0.6)
        colour_bar(image, axes, "training loss")
        return figure
