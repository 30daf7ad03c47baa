"""Routing: mean gates of single classes, and distances between classes (figure 3 of the paper)."""

from collections.abc import Sequence
from textwrap import shorten
from typing import Any

import numpy as np
from matplotlib.colors import Normalize

from highwaynet.analysis.analysis_records import RoutingRecord
from highwaynet.base.errors import InputError, unknown
from highwaynet.figures.gate_map import label_gates, layer_map, map_grid
from highwaynet.figures.style import DIVERGING, WIDTH, Figure, centred, colour_bar, finite, heat_map, house_style

NAMED = 20
"""Largest number of classes that are named along the axes."""


def draw_routing(record: RoutingRecord, classes: Sequence[int | str] | None = None, columns: int = 2) -> Figure:
    """Draw, for each class, a heat map of its mean gates minus the mean over all samples, all with the same colours.

    Args:
        record: The record.
        classes: Names of classes, or numbers from 0; by default the first two.
        columns: Number of maps side by side; 2 fit a narrow page.
    """
    count = len(record.class_names)
    chosen = range(min(2, count)) if classes is None else [_number(record.class_names, one) for one in classes]
    if not chosen or not all(0 <= number < count for number in chosen):
        raise InputError(f"classes = {list(chosen)}: choose numbers from 0 to {count - 1}")
    differences = record.class_mean[list(chosen)] - record.mean
    norm = centred(differences, 0, 1e-3)
    with house_style():
        figure, grid = map_grid(record.mean.shape, len(chosen), columns, bars=False)
        for axes, number, difference in zip(grid, chosen, differences, strict=True):
            image = layer_map(axes, difference, norm, DIVERGING)
            axes.set_title(class_title(record.class_names[number]))
            if not record.class_samples[number]:
                axes.text(0.5, 0.5, "no samples", transform=axes.transAxes, ha="center", va="center")
        label_gates(grid, columns, record)
        colour_bar(image, grid, "gate output minus mean over all samples", wide=True)
        return figure


def _number(names: Sequence[str], one: int | str) -> int:
    """Return the number of a class, given its name or number."""
    if not isinstance(one, str):
        return int(one)
    if one not in names:
        raise unknown("class", one, names)
    return names.index(one)


def class_title(name: str) -> str:
    """Return the heading of a class.

    >>> class_title("7"), class_title("aquatic mammals and other large animals")
    ('class 7', 'aquatic mammals …')
    """
    return f"class {name}" if name.isdigit() else short_name(name, 20)


def draw_route_distances(record: RoutingRecord) -> Figure:
    """Draw the distances between the routes of all classes as a matrix; classes are named, or numbered if there are many."""
    count = len(record.class_names)
    apart = np.where(np.eye(count, dtype=bool), np.float32(np.nan), record.distance)
    low, high = float(finite(apart).min()), float(finite(apart).max())
    with house_style():
        figure = Figure(figsize=(WIDTH, WIDTH + 0.6))
        axes = figure.subplots()
        image = heat_map(axes, apart, Normalize(low, high if high > low else low + 1e-3), first=0)
        if count <= NAMED:
            names = [short_name(name, 18) for name in record.class_names]
            letters = max(map(len, names))
            looks: Any = {"fontsize": 8 if letters > 2 and count > 10 else 9}
            axes.set_xticks(range(count), names, rotation=90 if letters > 2 else 0, **looks)
            axes.set_yticks(range(count), names, **looks)
        else:
            axes.set_xticks(axes.get_yticks())
        axes.set_xlabel("class")
        axes.set_ylabel("class")
        colour_bar(image, axes, "r.m.s. difference of mean gates", wide=True)
        return figure


def short_name(name: str, length: int) -> str:
    """Shorten the name of a class to this many characters, if possible between words."""
    return shorten(name, length, placeholder=" …") if " " in name else name if len(name) <= length else name[: length - 1] + "…"
