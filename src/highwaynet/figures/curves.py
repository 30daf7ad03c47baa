"""Training curves: loss over epochs on a log axis."""

from dataclasses import dataclass

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from highwaynet.figures.style import WIDTH, Figure, house_style, log_scale
from highwaynet.runs.run_records import EpochRecord

SMALLEST = 1e-12
"""Losses below this are drawn at this value, because a log axis has no zero."""


@dataclass(frozen=True)
class Curve:
    """One run in the figure."""

    label: str
    colour: str
    history: list[EpochRecord]


def draw_curves(curves: list[Curve]) -> Figure:
    """Draw training losses as lines, and validation losses as thin dashed lines."""
    with house_style():
        figure = Figure(figsize=(WIDTH, 3.5))
        axes = figure.subplots()
        for curve in curves:
            epochs = [record.epoch for record in curve.history]
            marker = "o" if len(epochs) == 1 else None
            train = [max(record.train_loss, SMALLEST) for record in curve.history]
            axes.plot(epochs, train, color=curve.colour, label=curve.label, marker=marker)
            checked = [(r.epoch, max(r.validation_loss, SMALLEST)) for r in curve.history if r.validation_loss is not None]
            if checked:
                axes.plot(*zip(*checked, strict=True), color=curve.colour, linestyle=(0, (3, 2)), linewidth=1.1, marker=marker)
        checked_any = any(record.validation_loss is not None for curve in curves for record in curve.history)
        log_scale(axes.yaxis)
        axes.set_xlabel("epoch")
        axes.set_ylabel("loss (log scale)" if checked_any else "training loss (log scale)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles, labels = axes.get_legend_handles_labels()
        if checked_any:
            handles.append(Line2D([], [], color="#555555", linestyle=(0, (3, 2)), linewidth=1.1))
            labels.append("validation")
        # Above the axes, where it hides no curve.
        figure.legend(handles, labels, loc="outside upper left", ncols=2)
        return figure
