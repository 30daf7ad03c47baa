"""How layers refine one estimate: the way of each output to the last of its stage (Greff et al. 2017)."""

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from highwaynet.analysis.records import RefinementRecord
from highwaynet.figures.findings import samples_text
from highwaynet.figures.flow_plot import finite, marks
from highwaynet.figures.style import COLOURS, WIDTH, house_style

NAMED = 4
"""Up to so many stages are named in the picture; more are numbered."""
GREY = "#777777"


def draw_refinement(record: RefinementRecord, colour: str = COLOURS[0]) -> Figure:
    """The error by layer, and below the mean difference with its spread as a band; a dashed line stands between two stages."""
    stages, marker = _stages(record), marks(len(record.stage))
    with house_style():
        figure = Figure(figsize=(WIDTH, 5.0))
        error, difference = figure.subplots(2, 1, sharex=True)
        for number, places in enumerate(stages):
            layers, middle, spread = places + 1, finite(record.bias[places]), finite(record.spread[places])
            error.plot(layers, finite(record.error[places]), color=colour, **marker)
            difference.plot(layers, middle, color=colour, label=None if number else "mean", **marker)
            band = {"color": colour, "alpha": 0.25, "linewidth": 0, "label": None if number else "± standard deviation"}
            difference.fill_between(layers, middle - spread, middle + spread, **band)
            if len(stages) > 1:
                name = record.stages[number].replace(" of ", "\n") if len(stages) <= NAMED else f"{number + 1}"
                above = {"transform": error.get_xaxis_transform(), "ha": "center", "va": "bottom", "fontsize": 8.5}
                error.text(float(layers.mean()), 1.02, name, **above)
            for axes in (error, difference) if number else ():
                axes.axvline(places[0] + 0.5, color=GREY, linestyle="--", linewidth=0.9)
        error.set_ylim(bottom=0)
        error.set_ylabel("error, as a share of\nthe stage's last output")
        difference.set_ylabel("output − last output")
        difference.set_xlabel("layer" if len(stages) == 1 else "layer, all stages counted")
        difference.set_xlim(0.5, len(record.stage) + 0.5)
        difference.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        figure.align_ylabels()
        figure.legend(loc="outside upper left", ncols=2)
        return figure


def refinement_finding(record: RefinementRecord) -> str:
    """How far the first output of each stage is from the last, and how soon that is mended."""
    parts = [f"Over {samples_text(record)}:"]
    for name, places in zip(record.stages, _stages(record), strict=True):
        parts.append(f"In the {len(places)} layers with {name} {_way(record.error[places])}")
    bias, spread = np.abs(record.bias).max(), record.spread.max()
    if np.isfinite([bias, spread]).all():
        parts.append(f"The mean difference stays within ±{bias:.2g}, its standard deviation is up to {spread:.2g}.")
    return " ".join(parts)


def _stages(record: RefinementRecord) -> list[npt.NDArray[np.intp]]:
    """The places of each stage's layers."""
    return [np.flatnonzero(np.array(record.stage) == number) for number in range(len(record.stages))]


def _way(error: npt.NDArray[np.float32]) -> str:
    if not np.isfinite(error).all():
        return "nothing can be compared: the last output is 0 everywhere, or not finite."
    if not error.any():
        return "all outputs are the same."
    apart, behind = f"the first output differs from the last by {error[0]:.2f} times the last one's size", len(error) - 1
    if behind == 1:
        return f"{apart}."
    half, tenth = (int(np.flatnonzero(error > share * error[0])[-1]) + 1 for share in (0.5, 0.1))
    if half == behind:
        return f"{apart}; no layer but the last brings it to half of that."
    return f"{apart}; it takes {half} of the {behind} layers behind it to halve that, and {tenth} to bring it to a tenth."
