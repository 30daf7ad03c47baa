"""Figures of lesion studies: single layers (figure 4 of the paper), pairs, spans, random deletions, other orders, and needed depth."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D

from highwaynet.analysis.analysis_records import DeletionsRecord, DepthRecord, LesionsRecord, PairsRecord
from highwaynet.base.text import with_count
from highwaynet.figures.curves import SMALLEST
from highwaynet.figures.findings import PART_NAMES
from highwaynet.figures.style import COLOURS, WIDTH, Figure, Values, colour_bar, count_ticks, finite, heat_map, house_style, log_scale
from highwaynet.runs.run_records import Score

DASHED: Any = {"color": "#333333", "linestyle": (0, (4, 2)), "linewidth": 1.1}
PART_MARKERS: dict[str, dict[str, Any]] = {
    "train": {"marker": "o", "linewidth": 1.3},
    "validation": {"marker": "s", "markerfacecolor": "white", "linewidth": 1.0},
    "test": {"marker": "o", "markerfacecolor": "white", "linewidth": 1.0},
}
DRAW: Any = {"marker": "o", "linestyle": "", "markersize": 3.5, "markeredgewidth": 0, "alpha": 0.35}
MEDIAN: Any = {"marker": "o", "markersize": 4}
CROWDED = 150
"""With more layers than this, lines have no dots."""


def draw_lesions(records: LesionsRecord | Sequence[LesionsRecord], colour: str = COLOURS[0]) -> Figure:
    """Draw the loss with each layer closed, and below it the accuracy if there is one; dashed lines are the intact networks.

    Args:
        records: One record, or several to compare.
        colour: Colour of the first.
    """
    several = [records] if isinstance(records, LesionsRecord) else list(records)
    colours = [shade for shade, _ in zip(cycle([colour, *(other for other in COLOURS if other != colour)]), several, strict=False)]
    rated = any(record.intact.accuracy is not None for record in several)
    with house_style():
        figure = Figure(figsize=(WIDTH, 5.2 if rated else 3.5))
        panels = figure.subplots(2 if rated else 1, 1, sharex=True, squeeze=False, height_ratios=(3, 2) if rated else None).ravel()
        for record, shade, label in zip(several, colours, _labels(several, "one layer closed"), strict=True):
            for axes, losses in zip(panels, (True, False), strict=False):
                _draw_closed(axes, record, losses=losses, colour=shade, label=label)
        values = np.array([score.loss for record in several for score in (record.intact, *record.closed)])
        _loss_axis(panels[0], values, f" {PART_NAMES[several[0].part]} loss" if len({record.part for record in several}) == 1 else " loss")
        if rated:
            _accuracy_axis(panels[1], "accuracy")
        panels[-1].set_xlabel("closed layer")
        panels[-1].set_xticks(count_ticks(1, max(len(record.closed) for record in several)))
        figure.align_ylabels()
        _legend(figure, panels[0])
        return figure


def _labels(records: Sequence[LesionsRecord] | Sequence[DepthRecord], alone: str) -> list[str]:
    """Return labels that distinguish the lines: those of data set, network, seed, epochs and part that differ."""
    if len(records) == 1:
        return [alone]
    facts = [
        (own.data, own.network, f"seed {own.seed}", with_count(own.epochs, "epoch"), f"{PART_NAMES[record.part]} data")
        for record in records
        for own in (record.about,)
    ]
    kinds = list(zip(*facts, strict=True))
    telling = [kind for kind in kinds if len(set(kind)) > 1] or kinds[-1:]
    return [", ".join(texts) for texts in zip(*telling, strict=True)]


def _draw_closed(axes: Axes, record: LesionsRecord, *, losses: bool, colour: str, label: str) -> None:
    """Draw a line over layers and the dashed line of the intact network; a triangle at the top marks a loss that is not finite."""
    layers = np.arange(1, len(record.closed) + 1)
    values = np.array([_shown(score, losses=losses) for score in record.closed])
    looks = PART_MARKERS[record.part] | ({"marker": None} if len(layers) > CROWDED else {})
    known = np.isfinite(values)
    axes.plot(layers, np.where(known, values, np.nan), color=colour, markersize=3.2, markeredgewidth=0.8, label=label, **looks)
    axes.axhline(_shown(record.intact, losses=losses), **DASHED | {"color": colour}, zorder=1.9)
    if losses and not known.all():
        top: Any = {"transform": axes.get_xaxis_transform(), "clip_on": False}
        axes.plot(layers[~known], np.ones((~known).sum()), "^", color=colour, markersize=5, label=f"{label}: not finite", **top)


def _shown(score: Score, *, losses: bool) -> float:
    """Return the value to draw: the loss, at least `SMALLEST`, or the accuracy in percent."""
    if losses:
        return max(score.loss, SMALLEST)
    return float("nan") if score.accuracy is None else 100 * score.accuracy


def _loss_axis(axes: Axes, values: Values, label: str) -> None:
    """Use a log axis if losses span more than a factor of 3; for less, it would have hardly any tick labels."""
    known = finite(values)
    if known.max() > 3 * max(known.min(), SMALLEST):
        log_scale(axes.yaxis)
    elif known.max() <= SMALLEST:
        axes.set_yticks([SMALLEST], ["0"])
    else:
        axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_ylabel(f"mean{label}")


def _accuracy_axis(axes: Axes, label: str) -> None:
    """Label an axis in percent, and limit it to just above 100."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, min(high, 100 + 0.05 * (100 - low)))
    axes.set_ylabel(f"{label}, %")


def _legend(figure: Figure, axes: Axes) -> None:
    """Put the legend above the panels, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    labels.append("intact network")
    shown = handles[0].get_color() if len(handles) == 1 else DASHED["color"]  # type: ignore[attr-defined]
    handles.append(Line2D([], [], **DASHED | {"color": shown}))
    in_a_row = len("".join(labels)) <= 40
    figure.set_figheight(figure.get_figheight() + (0 if in_a_row else 0.2 * (len(labels) - 1)))
    figure.legend(handles, labels, loc="outside upper left", ncols=len(labels) if in_a_row else 1, columnspacing=1.4)


def draw_pairs(record: PairsRecord, columns: int = 2) -> Figure:
    """Draw two heat maps of the loss as a multiple of the intact network's, on a log scale: pairs of layers, and spans.

    Args:
        record: The record.
        columns: 2 for print, 1 for narrow pages.
    """
    pairs, spans = (_times_intact(table, record.intact.loss) for table in (record.pair_loss, record.span_loss))
    with house_style():
        figure = Figure(figsize=(2 * WIDTH, 4.9) if columns == 2 else (WIDTH, 9.0))
        grid = figure.subplots(2 // columns, columns, squeeze=False).ravel()
        for axes, table in zip(grid, (pairs, spans), strict=True):
            known = finite(table)
            norm = LogNorm(min(1.0, float(known.min()) or 1.0), max(1.1, float(known.max())))  # spans cost far more than pairs
            colour_bar(heat_map(axes, table, norm), axes, f"{PART_NAMES[record.part]} loss / intact loss", mark=1.0)
        grid[0].set(title="two layers closed", xlabel="closed layer", ylabel="closed layer")
        grid[1].set(title="all layers of a span closed", xlabel="last layer of the span", ylabel="first layer of the span")
        return figure


def _times_intact(losses: Values, intact: float) -> Values:
    """Return losses as multiples of the intact one's; infinite values become the largest finite one."""
    multiples: Values = np.maximum(losses.astype(float), SMALLEST) / max(intact, SMALLEST)
    multiples[np.isposinf(multiples)] = finite(multiples).max()
    return multiples


def draw_deletions(record: DeletionsRecord, columns: int = 2) -> Figure:
    """Draw the accuracy (or the loss) with random layers closed, and with layers in another order; dots are draws, lines medians.

    Args:
        record: The record.
        columns: 2 for print, 1 for narrow pages.
    """
    rated = record.intact.accuracy is not None
    deleted, shuffled = (
        (100 * record.deletion_accuracy, 100 * record.shuffle_accuracy)
        if rated
        else (np.maximum(record.deletion_loss, SMALLEST), np.maximum(record.shuffle_loss, SMALLEST))
    )
    intact, part = _shown(record.intact, losses=not rated), PART_NAMES[record.part]
    everything = np.concatenate([deleted.ravel(), shuffled.ravel(), [intact]])
    columns = columns if shuffled.size else 1  # if no two layers have the same shape, there are no swaps
    rows = 2 // columns if shuffled.size else 1
    with house_style():
        figure = Figure(figsize=(WIDTH * columns, 2.9 * rows + 0.5))
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
        counts = np.broadcast_to(np.array(record.deleted, dtype=float)[:, None], deleted.shape)
        _draw_draws(grid[0], counts, deleted, intact, COLOURS[0])
        most = max(record.deleted, default=1)
        grid[0].set(xlabel="deleted layers", xlim=(-0.03 * most, 1.03 * most))
        grid[0].set_xticks(count_ticks(0, most, 6))
        if shuffled.size:
            _draw_draws(grid[1], record.order, shuffled, intact, COLOURS[1])
            least = float(finite(record.order).min())
            margin = 0.03 * (1 - least) or 0.1
            grid[1].set(xlabel="order of the layers, Kendall's τ (1: as trained)", xlim=(1 + margin, least - margin))
        for axes in grid[::columns]:
            if rated:
                _accuracy_axis(axes, f"{part} accuracy")
            else:
                _loss_axis(axes, everything, f" {part} loss")
        _draws_legend(figure)
        return figure


def _draw_draws(axes: Axes, places: Values, values: Values, intact: float, colour: str) -> None:
    """Draw a dot for each draw, a line through the medians of the rows, and the intact network as a dashed line."""
    axes.plot(places.ravel(), values.ravel(), color=colour, **DRAW)
    axes.plot(np.median(places, axis=1), np.median(values, axis=1), color=colour, **MEDIAN)
    axes.axhline(intact, **DASHED)


def _draws_legend(figure: Figure) -> None:
    looks = {"one draw": DRAW | {"color": "#555555"}, "median": MEDIAN | {"color": "#555555"}, "intact network": DASHED}
    figure.legend([Line2D([], [], **look) for look in looks.values()], list(looks), loc="outside upper left", ncols=3)


def draw_depth(records: DepthRecord | Sequence[DepthRecord]) -> Figure:
    """Draw the accuracy (in a regression the R²) over the number of layers that are left; dashed lines are the intact networks.

    Args:
        records: One record, or several to compare.
    """
    several = [records] if isinstance(records, DepthRecord) else list(records)
    measure = "accuracy" if several[0].scores[0].accuracy is not None else "R²"
    with house_style():
        figure = Figure(figsize=(WIDTH, 3.5))
        axes = figure.subplots()
        for record, colour, label in zip(several, cycle(COLOURS), _labels(several, "layers removed"), strict=False):
            left = np.arange(len(record.removed), -1, -1)
            looks = PART_MARKERS[record.part] | ({"marker": None} if len(left) > CROWDED else {})
            axes.plot(left, [score.percent for score in record.scores], color=colour, markersize=3.2, label=label, **looks)
            axes.axhline(record.scores[0].percent, **DASHED | {"color": colour}, zorder=1.9)
        _accuracy_axis(axes, f"{PART_NAMES[several[0].part]} {measure}")
        axes.set_xlabel("layers left, without further training")
        axes.set_xticks(count_ticks(0, max(len(record.removed) for record in several)))
        _legend(figure, axes)
        return figure
