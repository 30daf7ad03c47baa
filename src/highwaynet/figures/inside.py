"""What was found inside the network of a run, as pictures with a sentence each."""

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.figure import Figure

from highwaynet.analysis.records import (
    DeletionsRecord,
    FlowRecord,
    GatesRecord,
    LesionsRecord,
    PairsRecord,
    RefinementRecord,
    RoutingRecord,
)
from highwaynet.figures.findings import (
    deletions_finding,
    flow_finding,
    gate_finding,
    lesion_finding,
    pairs_finding,
    refinement_finding,
    routing_finding,
)
from highwaynet.figures.flow_plot import draw_flow
from highwaynet.figures.gate_map import draw_gates
from highwaynet.figures.lesion_plot import draw_deletions, draw_lesions, draw_pairs
from highwaynet.figures.refinement_plot import draw_refinement
from highwaynet.figures.routing_plot import draw_route_distances, draw_routing
from highwaynet.figures.style import COLOURS


@dataclass(frozen=True)
class Inside:
    """Records of one run; what its network cannot be asked is left out."""

    gates: GatesRecord | None = None
    routing: RoutingRecord | None = None
    lesions: tuple[LesionsRecord, ...] = ()
    """On the training data, then on the test data."""
    pairs: PairsRecord | None = None
    deletions: DeletionsRecord | None = None
    flow: FlowRecord | None = None
    refinement: RefinementRecord | None = None


@dataclass(frozen=True)
class Card:
    """A picture on a page."""

    title: str
    figure: Figure
    finding: str


def cards(inside: Inside, colour: str = COLOURS[0], *, blocks: bool = False) -> Iterator[Card]:
    """The pictures for a narrow column; `blocks`: what is closed are residual blocks of two layers."""
    if gates := inside.gates:
        averaged = "Gates are averaged over the pixels of each map; thinner layers have fewer maps. " if gates.convolutional else ""
        where = f"{averaged}Highway layers are numbered from 1; plain layers are not counted."
        yield Card("Which gates open", draw_gates(gates, columns=2), f"{gate_finding(gates)} {where}")
    if routing := inside.routing:
        yield Card("Which routes classes take", draw_routing(routing), routing_finding(routing))
        yield Card("How far routes are apart", draw_route_distances(routing), "Root mean squared difference of the classes' mean gates.")
    if inside.lesions:
        unit = (
            "One residual block of two layers at a time is closed, so that only its shortcut is left; blocks are numbered from 1."
            if blocks
            else "One layer at a time is closed, so that it copies its input; layers that can be closed are numbered from 1."
        )
        yield Card("Which layers do the work", draw_lesions(inside.lesions, colour), f"{unit} {lesion_finding(inside.lesions[0])}")
    if inside.pairs:
        yield Card("Which layers depend on each other", draw_pairs(inside.pairs, columns=1), pairs_finding(inside.pairs))
    if inside.deletions:
        yield Card(
            "How many layers can go, or change places", draw_deletions(inside.deletions, columns=1), deletions_finding(inside.deletions)
        )
    if inside.flow:
        yield Card("Where the signal goes", draw_flow(inside.flow), flow_finding(inside.flow))
    if inside.refinement:
        yield Card("How layers refine an estimate", draw_refinement(inside.refinement), refinement_finding(inside.refinement))
