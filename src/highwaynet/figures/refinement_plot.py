"""Iterative refinement: difference of each output from the last one of its stage (Greff et al. 2017)."""

from matplotlib.ticker import MaxNLocator

from highwaynet.analysis.analysis_records import RefinementRecord
from highwaynet.figures.flow_plot import finite, marks
from highwaynet.figures.style import COLOURS, WIDTH, Figure, house_style

NAMED = 4
"""Largest number of stages that are named in the figure; more are numbered."""
GREY = "#777777"


def draw_refinement(record: RefinementRecord, colour: str = COLOURS[0]) -> Figure:
    """Draw the error by layer, and below it the mean difference with its spread as a band; dashed lines separate stages."""
    stages, marker = record.places, marks(len(record.stage))
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
        difference.set_xlabel("layer" if len(stages) == 1 else "layer, counted over all stages")
        difference.set_xlim(0.5, len(record.stage) + 0.5)
        difference.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        figure.align_ylabels()
        figure.legend(loc="outside upper left", ncols=2)
        return figure
