"""Figures about shrinking a network: accuracy over removed layers, over depth, and which layers are left."""

from collections.abc import Collection, Mapping, Sequence
from itertools import cycle

from matplotlib.ticker import MaxNLocator

from highwaynet.figures.style import COLOURS, DASHES, WIDTH, Figure, count_ticks, house_style

Points = Sequence[tuple[int, float]]
"""(layers kept, accuracy in percent)."""


def draw_removal(panels: Mapping[str, Mapping[str, Sequence[float]]], chosen: str, removed: int) -> Figure:
    """Draw metric and loss after removing 0, 1, 2, … layers, for each criterion, without further training.

    Args:
        panels: What is drawn, by the name of its axis: values by number of removed layers, by criterion. The last one is the loss.
        chosen: The criterion that was used.
        removed: How many layers were removed in the end.
    """
    with house_style():
        figure = Figure(figsize=(WIDTH, 1.2 + 2.7 * len(panels)))
        rows = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        for axes, (what, curves) in zip(rows, panels.items(), strict=True):
            styles = cycle([(colour, dashes) for dashes in DASHES for colour in COLOURS])
            for (name, values), (colour, dashes) in zip(curves.items(), styles, strict=False):
                width, front = (2.4, 3) if name == chosen else (1.1, 2)
                axes.plot(range(len(values)), values, color=colour, linestyle=dashes, linewidth=width, zorder=front, label=name)
            axes.axvline(removed, color="#555555", linewidth=0.9, linestyle=(0, (4, 2)))
            axes.set_ylabel(what)
        rows[-1].set_yscale("log")
        rows[-1].set_xlabel("removed layers, without further training")
        rows[-1].xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        figure.legend(*rows[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return figure


def draw_depths(unhealed: tuple[str, Points], healed: Points, scratch: Points, intact: float, what: str) -> Figure:
    """Draw the metric over the layers that are kept: before and after healing, and from scratch; the dashed line is the large network."""
    with house_style():
        figure = Figure(figsize=(WIDTH, 3.6))
        axes = figure.subplots()
        axes.axhline(intact, color="#333333", linestyle=(0, (4, 2)), linewidth=1.1, label="intact")
        looks = (
            (*unhealed, COLOURS[1], "v"),
            ("healed", healed, COLOURS[0], "o"),
            ("from scratch", scratch, COLOURS[2], "s"),
        )
        for label, points, colour, marker in looks:
            if points:
                kept, values = zip(*sorted(points), strict=True)
                line = "" if label == "from scratch" else "-"
                axes.plot(kept, values, color=colour, marker=marker, markersize=4.5, linestyle=line, linewidth=1.2, label=label)
        axes.set_xlabel("layers kept")
        axes.set_ylabel(what)
        places = [kept for kept, _ in (*unhealed[1], *healed, *scratch)]
        axes.set_xlim(min(places, default=0) - 1, max(places, default=0) + 1)  # also if there is one place only
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        figure.legend(loc="outside upper center", ncols=2)
        return figure


def draw_layers(layers: int, removed: Collection[int]) -> Figure:
    """Draw a strip with a field for each layer; those that are left are filled."""
    with house_style():
        figure = Figure(figsize=(WIDTH, 1.3))
        axes = figure.subplots()
        for number in range(1, layers + 1):
            gone = number in removed
            axes.bar(number, 1, width=0.8, color="#e6e8eb" if gone else COLOURS[0])
        axes.set_yticks([])
        axes.set_xticks(count_ticks(1, layers))
        axes.set_xlabel("layer")
        axes.grid(False)
        axes.spines["left"].set_visible(False)
        return figure
