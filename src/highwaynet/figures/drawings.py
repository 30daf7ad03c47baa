"""The table of figures and findings for each kind of record, used by commands, the report and notebooks.

Importing this module registers them with `base/display.py`, which the records' `plot` and notebook output use. matplotlib is imported only
when something is drawn; findings do not need it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from highwaynet.analysis.analysis_records import (
    AnalysisRecord,
    DeletionsRecord,
    DepthRecord,
    EvaluationRecord,
    FlowRecord,
    GatesRecord,
    LesionsRecord,
    PairsRecord,
    RefinementRecord,
    RoutingRecord,
)
from highwaynet.analysis.mistakes_record import MistakesRecord
from highwaynet.base import display
from highwaynet.base.errors import InputError, unknown
from highwaynet.figures.captions import caption
from highwaynet.figures.findings import (
    METRICS,
    PART_NAMES,
    deletions_finding,
    depth_finding,
    flow_finding,
    gate_finding,
    lesion_finding,
    pairs_finding,
    refinement_finding,
    routing_finding,
)
from highwaynet.figures.fragments import fragment, picture, section, table
from highwaynet.figures.mistakes_words import mistakes_finding, worst_as_html, worst_note

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """One figure of a record."""

    title: str
    """The heading above it."""
    home: str
    """Module and function that draw it."""
    narrow: dict[str, Any] = field(default_factory=dict)
    """Arguments of that function for narrow pages."""
    note: Callable[[Any], str] = lambda record: ""
    """Returns a text that explains how to read the figure."""
    applies: Callable[[Any], object] = lambda record: True
    """Says whether a record has what the figure shows."""

    def draw(self, record: AnalysisRecord, *others: AnalysisRecord, narrow: bool = False, **options: Any) -> "Figure":
        """Draw the record; `others` are records of the same kind to compare with, if the function accepts several."""
        module, function = self.home.split(".")
        draw = getattr(import_module(f"highwaynet.figures.{module}"), function)
        figure: Figure = draw([record, *others] if others else record, **(self.narrow if narrow else {}) | options)
        return figure


@dataclass(frozen=True)
class View:
    """Finding and figures of one kind of record."""

    finding: Callable[[Any], str]
    """Returns the record in words."""
    drawings: Mapping[str, Drawing]
    """Figures by file name; the first that applies to a record is the main one."""
    appendix: "Appendix | None" = None
    """What is shown below the figures."""

    def drawn(self, record: AnalysisRecord) -> dict[str, Drawing]:
        """Return the figures that apply to a record."""
        return {name: drawing for name, drawing in self.drawings.items() if drawing.applies(record)}


@dataclass(frozen=True)
class Appendix:
    """What pages and notebooks show of a record besides figures."""

    title: str
    """The heading above it."""
    html: Callable[[Any], str]
    """Returns HTML, empty if there is nothing to show; needs matplotlib if the record has pictures."""
    note: Callable[[Any], str]
    """Returns a text that explains it."""


def _gate_note(record: GatesRecord) -> str:
    averaged = "Gates are averaged over the pixels of each map; thinner layers have fewer maps. " if record.convolutional else ""
    return f"{averaged}Highway layers are numbered from 1; plain layers are not counted."


def _confusion_note(record: MistakesRecord) -> str:
    return "Colours are shares of each true class, so that rows add up to 100 %; numbers, where there is room for them, are samples."


def _calibration_note(record: MistakesRecord) -> str:
    return "Below the dashed line the network is too sure of its predictions, above it not sure enough. 15 equally wide bins."


def _residuals_note(record: MistakesRecord) -> str:
    few = f"{len(record.targets):,} evenly spaced samples. " if len(record.targets) < record.samples else ""
    return f"{few}Dots on the dashed line are predicted exactly."


def _distance_note(record: RoutingRecord) -> str:
    return "Root mean squared difference of the classes' mean gates."


VIEWS: dict[type[AnalysisRecord], View] = {
    MistakesRecord: View(
        mistakes_finding,
        {
            "confusion": Drawing(
                "Which classes are confused", "mistakes_plot.draw_confusion", note=_confusion_note, applies=lambda one: len(one.confusion)
            ),
            "calibration": Drawing(
                "How far its probabilities can be trusted",
                "mistakes_plot.draw_calibration",
                note=_calibration_note,
                applies=lambda one: one.bin_samples.any(),
            ),
            "residuals": Drawing(
                "Predictions and their errors", "mistakes_plot.draw_residuals", note=_residuals_note, applies=lambda one: not one.classes
            ),
        },
        Appendix("The worst mistakes", worst_as_html, worst_note),
    ),
    GatesRecord: View(gate_finding, {"gates": Drawing("Which gates open", "gate_map.draw_gates", {"columns": 2}, _gate_note)}),
    RoutingRecord: View(
        routing_finding,
        {
            "routing": Drawing("Which routes classes take", "routing_plot.draw_routing"),
            "route-distances": Drawing("How far routes are apart", "routing_plot.draw_route_distances", note=_distance_note),
        },
    ),
    LesionsRecord: View(lesion_finding, {"lesions": Drawing("Which layers do the work", "lesion_plot.draw_lesions")}),
    PairsRecord: View(pairs_finding, {"pairs": Drawing("Which layers depend on each other", "lesion_plot.draw_pairs", {"columns": 1})}),
    DeletionsRecord: View(
        deletions_finding,
        {"deletions": Drawing("How many layers can go, or change places", "lesion_plot.draw_deletions", {"columns": 1})},
    ),
    DepthRecord: View(depth_finding, {"depth": Drawing("How many layers are needed", "lesion_plot.draw_depth")}),
    FlowRecord: View(flow_finding, {"flow": Drawing("Where the signal goes", "flow_plot.draw_flow")}),
    RefinementRecord: View(refinement_finding, {"refinement": Drawing("How layers refine an estimate", "refinement_plot.draw_refinement")}),
}


def _plot(
    view: View, record: AnalysisRecord, *, which: str | None = None, others: Sequence[AnalysisRecord] = (), **options: Any
) -> "Figure":
    """Draw one of the figures of a record, by default the main one."""
    _need_matplotlib(f"{type(record).__name__}.plot()")
    drawn = view.drawn(record)
    name = next(iter(drawn)) if which is None else which
    if name not in drawn:
        raise unknown("figure", name, drawn)
    return drawn[name].draw(record, *others, **options)


def _as_html(view: View, record: AnalysisRecord) -> str:
    """Return caption, finding, all figures and the appendix as HTML."""
    texts = [caption(record), view.finding(record)]
    try:
        _need_matplotlib("The figure")
    except InputError as error:
        return fragment([*texts, f"{error}"])
    shown = [picture(drawing.title, drawing.note(record), drawing.draw(record)) for drawing in view.drawn(record).values()]
    if view.appendix and (content := view.appendix.html(record)):
        shown.append(section(view.appendix.title, view.appendix.note(record), content))
    return fragment(texts, *shown)


def _need_matplotlib(what: str) -> None:
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise InputError(f"{what} needs the package matplotlib: pip install 'highwaynet[figures]'") from error


def _evaluation_as_html(record: EvaluationRecord) -> str:
    """Return a table with a row for each part of the data and a column for each metric of the task."""
    parts = {name: score for part, name in PART_NAMES.items() if (score := getattr(record, part)) is not None}
    metrics = {metric: shown for metric, shown in METRICS.items() if getattr(record.test, metric) is not None}
    rows = [
        [name, *(write(getattr(score, metric)) for metric, (_, write) in metrics.items()), f"{score.samples:,}"]
        for name, score in parts.items()
    ]
    headings = ["", *(heading for heading, _ in metrics.values()), "samples"]
    return fragment([f"{record.parameters:,} parameters"], table(headings, rows))


for _kind, _view in VIEWS.items():
    display.plot.register(_kind, partial(_plot, _view))
    display.as_html.register(_kind, partial(_as_html, _view))
display.as_html.register(EvaluationRecord, _evaluation_as_html)
