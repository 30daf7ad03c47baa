"""One style for all pictures: small, legible on a phone and in print, safe for the colour-blind."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import matplotlib as mpl
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

# Okabe and Ito's palette, told apart with every common form of colour blindness.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
KIND_COLOURS = {"highway": COLOURS[0], "plain": COLOURS[1], "residual": COLOURS[2], "maxout": COLOURS[3]}
HEAT = "viridis"

# A picture is as wide as a phone in its own units, so that its text is never scaled below its size there.
WIDTH = 4.3

_SETTINGS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 1.7,
    "figure.constrained_layout.use": True,
    "text.parse_math": False,  # a run may be called $x$
    "svg.fonttype": "path",
    "svg.hashsalt": "highwaynet",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib's settings for the pictures of this project."""
    with mpl.rc_context(_SETTINGS):
        yield


def to_svg(figure: Figure) -> str:
    """The picture as an SVG element for a page: no size of its own, the same text for the same data."""
    buffer = io.StringIO()
    with house_style(), warnings.catch_warnings():  # the settings for SVG count when it is written
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name in a script that the font lacks
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    svg = text[text.index("<svg") :]
    head, closing, rest = svg.partition(">")
    attributes = [part for part in head.split() if not part.startswith(("width=", "height="))]
    return " ".join(attributes) + closing + rest


class _PlainNumbers(LogFormatter):
    """Labels of a log axis as plain numbers: 0.02, 0.1, 1; which ticks get one is left to matplotlib."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


def log_scale(axis: Axis) -> None:
    """A log axis, with numbers between the powers of ten where it spans less than a decade or two."""
    axis.axes.set_yscale("log")
    axis.set_major_formatter(_PlainNumbers())
    axis.set_minor_formatter(_PlainNumbers(labelOnlyBase=False, minor_thresholds=(1.5, 0.6)))


def run_colours(kinds: list[str]) -> list[str]:
    """A colour for each run: its kind's own where it is the first of its kind, else the next free one.

    >>> run_colours(["plain", "highway", "highway"])
    ['#D55E00', '#0072B2', '#009E73']
    """
    chosen: list[str] = []
    reserved = [KIND_COLOURS[kind] for kind in kinds]
    free = cycle([colour for colour in COLOURS if colour not in reserved] or COLOURS)
    for own in reserved:
        chosen.append(next(free) if own in chosen else own)
    return chosen
