"""Losses of a few runs side by side: a dot for each run, a line at the median."""

import math
import statistics
from collections.abc import Mapping, Sequence

from highwaynet.figures.curves import SMALLEST
from highwaynet.figures.style import COLOURS, WIDTH, Figure, house_style, log_scale


def draw_losses(groups: Mapping[str, Sequence[float]], what: str) -> Figure:
    """A row for each group on a log axis; infinite losses, of runs that diverged, are counted in the row's name.

    Args:
        groups: The losses of each group, by its name.
        what: What the losses are.
    """
    with house_style():
        figure = Figure(figsize=(1.5 * WIDTH, 1.2 + 0.4 * len(groups)))
        axes = figure.subplots()
        names = []
        for place, (name, losses) in enumerate(groups.items()):
            finite = [max(loss, SMALLEST) for loss in losses if math.isfinite(loss)]
            axes.plot(finite, [place] * len(finite), linestyle="", marker="o", color=COLOURS[0], alpha=0.7)
            if losses and math.isfinite(middle := statistics.median(losses)):
                axes.plot([max(middle, SMALLEST)] * 2, [place - 0.3, place + 0.3], color=COLOURS[1])
            lost = len(losses) - len(finite)
            names.append(f"{name} ({lost} diverged)" if lost else name)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlabel(what)
        log_scale(axes.xaxis)
        if not any(math.isfinite(loss) for losses in groups.values() for loss in losses):  # all diverged: nothing gives a scale
            axes.set_xlim(0.01, 1)
        return figure
