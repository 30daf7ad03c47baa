"""What closing each single layer does to the loss (figure 4 of the paper)."""

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from highwaynet.analysis.records import LesionsRecord
from highwaynet.figures.findings import PART_NAMES
from highwaynet.figures.style import COLOURS, WIDTH, house_style, log_scale


def draw_lesions(record: LesionsRecord, colour: str = COLOURS[0]) -> Figure:
    """The loss with each layer closed, as a line over layers; the intact network as a dashed line."""
    layers = range(1, len(record.closed) + 1)
    with house_style():
        figure = Figure(figsize=(WIDTH, 3.5))
        axes = figure.subplots()
        losses = [score.loss for score in record.closed]
        axes.plot(layers, losses, color=colour, marker="o", markersize=3, linewidth=1.1, label="one layer closed")
        axes.axhline(record.intact.loss, color="#333333", linestyle="--", linewidth=1.2, label="intact network")
        if max(*losses, record.intact.loss) > 3 * record.intact.loss > 0:
            log_scale(axes.yaxis)
        axes.set_xlabel("closed layer")
        axes.set_ylabel(f"mean loss, {PART_NAMES[record.part]} data")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside upper left", ncols=2)
        return figure
