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
from highwaynet.figures.drawings import VIEWS
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
    first, *others = inside.lesions or (None,)
    for record in (inside.gates, inside.routing, first, inside.pairs, inside.deletions, inside.flow, inside.refinement):
        if record is None:
            continue
        view, of_lesions = VIEWS[type(record)], record is first
        compared = {"colour": colour} if of_lesions else {}
        texts = [_closing(blocks=blocks)] if of_lesions else []
        texts.append(view.finding(record))
        for drawing in view.drawings.values():
            figure = drawing.draw(record, *(others if of_lesions else ()), narrow=True, **compared)
            yield Card(drawing.title, figure, " ".join(filter(None, [*texts, drawing.note(record)])))
            texts = []  # a finding stands below the first picture


def _closing(*, blocks: bool) -> str:
    """What closing means."""
    if blocks:
        return "One residual block of two layers at a time is closed, so that only its shortcut is left; blocks are numbered from 1."
    return "One layer at a time is closed, so that it copies its input; layers that can be closed are numbered from 1."
