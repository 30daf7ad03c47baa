"""One style for all figures: small, legible on a phone and in print, safe for colour-blind readers."""

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import cycle
from typing import Any

import matplotlib as mpl
import matplotlib.figure
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LogNorm, Normalize
from matplotlib.image import AxesImage
from matplotlib.ticker import LogFormatter, MaxNLocator

Values = npt.NDArray[Any]
"""Values of any precision."""

# Okabe and Ito's palette, which readers with any common form of colour blindness can distinguish.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
KIND_COLOURS = {"highway": COLOURS[0], "plain": COLOURS[1], "residual": COLOURS[2], "maxout": COLOURS[3], "lstm": COLOURS[4]}
DASHES: list[Any] = ["-", (0, (4, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (1, 3))]
HEAT = "viridis"
DIVERGING = "RdBu_r"
FRAME = "#555555"

# In inches. As wide as the screen of a phone, so that text is not scaled down there.
WIDTH = 4.3
PIXELS = 100
"""Pixels per inch of a figure shown in a notebook; the PNG itself has twice as many."""

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
    "text.parse_math": False,  # names of runs may contain $
    "savefig.dpi": 200,  # also of heat maps inside vector figures
    "pdf.fonttype": 42,  # keeps text as text; many publishers reject the default
    "svg.fonttype": "path",
    "svg.hashsalt": "highwaynet",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Context manager with matplotlib's settings for the figures of this package."""
    with mpl.rc_context(_SETTINGS):
        yield


class Figure(matplotlib.figure.Figure):
    """A figure that is independent of pyplot; notebooks display it even if pyplot was never imported."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        return to_png(deepcopy(self)), shown_size(self)  # a copy, because drawing a figure changes its layout


def rendered(figure: matplotlib.figure.Figure, form: str, metadata: dict[str, str | None]) -> bytes:
    """Return the figure as the bytes of a file of this format."""
    buffer = io.BytesIO()
    with house_style(), warnings.catch_warnings():  # settings for vector formats apply when the figure is saved
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name may use a script that the font lacks
        figure.savefig(buffer, format=form, metadata=metadata)
    return buffer.getvalue()


def to_svg(figure: matplotlib.figure.Figure) -> str:
    """Return the figure as an SVG element without width and height; the same data give the same text."""
    text = rendered(figure, "svg", {"Date": None, "Creator": None}).decode()
    svg = text[text.index("<svg") :]
    head, closing, rest = svg.partition(">")
    attributes = [part for part in head.split() if not part.startswith(("width=", "height="))]
    return " ".join(attributes) + closing + rest


def to_png(figure: matplotlib.figure.Figure) -> bytes:
    """Return the figure as a PNG file; the same data give the same bytes."""
    return rendered(figure, "png", {"Software": None})


def shown_size(figure: matplotlib.figure.Figure) -> dict[str, int]:
    """Return width and height in a notebook, in pixels."""
    width, height = (round(PIXELS * inches) for inches in figure.get_size_inches())
    return {"width": width, "height": height}


class _PlainNumbers(LogFormatter):
    """Labels of a log axis as plain numbers: 0.02, 0.1, 1; matplotlib decides which ticks get one."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


def log_scale(axis: Axis) -> None:
    """A log axis, with numbers between the powers of ten where it spans less than a decade or two."""
    if isinstance(axis, XAxis):
        axis.axes.set_xscale("log")
    else:
        axis.axes.set_yscale("log")
    major, minor = plain_numbers()
    axis.set_major_formatter(major)
    axis.set_minor_formatter(minor)


def plain_numbers() -> tuple[LogFormatter, LogFormatter]:
    """Return the major and minor label formatters of a log axis; minor labels appear if it spans less than a decade or two."""
    return _PlainNumbers(), _PlainNumbers(labelOnlyBase=False, minor_thresholds=(1.5, 0.6))


def count_ticks(first: int, last: int, ticks: int = 5) -> list[int]:
    """Return ticks for counts from `first` to `last`: the first, and round numbers.

    >>> count_ticks(1, 49), count_ticks(0, 3), count_ticks(1, 1)
    ([1, 10, 20, 30, 40], [0, 1, 2, 3], [1])
    """
    round_ones = MaxNLocator(nbins=ticks, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]).tick_values(first, last)
    return sorted({first} | {int(place) for place in round_ones if first <= place <= last})


def finite(values: Values) -> Values:
    """Return the finite values in one dimension; a single zero if there are none."""
    numbers: Values = values[np.isfinite(values)]
    return numbers if numbers.size else np.zeros(1, dtype=np.float32)


def centred(values: Values, centre: float, least: float) -> Normalize:
    """Return a colour range that is symmetric around `centre` and covers 99 % of the values; outliers would make the others pale."""
    away = np.abs(finite(values) - centre)
    reach = float(np.quantile(away, 0.99, method="higher")) or float(away.max())
    return Normalize(centre - max(reach, least), centre + max(reach, least))


def heat_map(axes: Axes, table: Values, norm: Normalize, colours: str = HEAT, first: int = 1) -> AxesImage:
    """Draw a table as an image; rows and columns are counted from `first` at the top left, and NaN stays white."""
    rows, columns = table.shape
    axes.grid(False)
    # With more rows than pixels, neighbours are averaged, so that none is lost.
    smoothing = "nearest" if max(rows, columns) <= 300 else "antialiased"
    edges = (first - 0.5, columns + first - 0.5, rows + first - 0.5, first - 0.5)
    image = axes.imshow(table, cmap=colours, norm=norm, aspect="auto", interpolation=smoothing, extent=edges)
    axes.spines[:].set(visible=True, color=FRAME, linewidth=0.6)
    axes.tick_params(length=3, color=FRAME)
    axes.set_xticks(count_ticks(first, columns + first - 1, 4))
    axes.set_yticks(count_ticks(first, rows + first - 1))
    return image


def colour_bar(image: AxesImage, axes: Any, label: str, *, mark: float | None = None, wide: bool = False) -> Colorbar:
    """Draw a colour bar below one panel, or (`wide`) below all; its ends are pointed if values lie beyond them.

    A line marks the value `mark`.
    """
    values, (low, high) = finite(np.ma.getdata(np.ma.asarray(image.get_array()))), image.get_clim()
    slack = 1e-5 * (high - low)
    beyond = bool(values.min() < low - slack), bool(values.max() > high + slack)
    extend = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}[beyond]
    figure: Any = image.get_figure()
    shape = {"aspect": 10 * figure.get_figwidth() if wide else 22, "pad": 0.02, "extend": extend, "extendfrac": 0.02 if wide else 0.05}
    bar: Colorbar = figure.colorbar(image, ax=axes, location="bottom", label=label, **shape)
    bar.outline.set(linewidth=0.6, edgecolor=FRAME)
    bar.ax.tick_params(which="both", color=FRAME)
    bar.ax.tick_params(length=3)
    bar.ax.xaxis.labelpad = 1
    if isinstance(image.norm, LogNorm):
        bar.formatter, bar.minorformatter = plain_numbers()
    elif image.get_cmap().name == DIVERGING:
        step, centre = _round_below((high - low) / 2), (low + high) / 2
        ticks = [centre + place for place in (-step, 0, step)]
        bar.set_ticks(ticks, labels=[f"{tick:.3g}".replace("-", "−") for tick in ticks])
    else:
        bar.locator = MaxNLocator(nbins=4, steps=[1, 2, 5, 10])
    if mark is not None:
        bar.ax.axvline(mark, color="black", linewidth=1.2)
    return bar


def _round_below(number: float) -> float:
    """Return the largest number of the form 1, 2 or 5 times a power of ten that is not above `number`.

    >>> _round_below(3.7), _round_below(0.6)
    (2.0, 0.5)
    """
    power = 10.0 ** math.floor(math.log10(number) + 1e-9)
    return max(digit * power for digit in (1, 2, 5) if digit * power <= number * (1 + 1e-9))


def kind_styles(kinds: list[str]) -> list[tuple[str, Any]]:
    """Return colour and dashes for each curve; curves of a kind share a colour, as in the paper, and differ in dashes."""
    return [(KIND_COLOURS[kind], DASHES[kinds[:number].count(kind) % len(DASHES)]) for number, kind in enumerate(kinds)]


def run_colours(kinds: list[str]) -> list[str]:
    """Return a colour for each run: that of its kind for the first run of a kind, else the next free one.

    >>> run_colours(["plain", "highway", "highway"])
    ['#D55E00', '#0072B2', '#009E73']
    """
    chosen: list[str] = []
    reserved = [KIND_COLOURS[kind] for kind in kinds]
    free = cycle([colour for colour in COLOURS if colour not in reserved] or COLOURS)
    for own in reserved:
        chosen.append(next(free) if own in chosen else own)
    return chosen
