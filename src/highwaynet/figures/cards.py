"""Cards: the analyses of a run as figures, each with its finding."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from highwaynet.analysis.analysis_records import AnalysisRecord, LesionsRecord
from highwaynet.figures.drawings import VIEWS
from highwaynet.figures.style import COLOURS

Found = Mapping[str, Sequence[AnalysisRecord]]
"""Records of one run by question; several records of a question (lesions on several parts of the data) are drawn into one figure."""


@dataclass(frozen=True)
class Card:
    """A figure, or a part of a page that is already HTML, with its title and finding."""

    title: str
    figure: Figure | None
    finding: str
    html: str = ""


def cards(found: Found, colour: str = COLOURS[0], *, blocks: bool = False) -> Iterator[Card]:
    """Yield the cards for a narrow column; `blocks` says that closed layers are residual blocks of two layers."""
    for record, *others in found.values():
        view, of_lesions = VIEWS[type(record)], isinstance(record, LesionsRecord)
        options = {"colour": colour} if of_lesions else {}
        texts = [_closing(blocks=blocks)] if of_lesions else []
        texts.append(view.finding(record))
        for drawing in view.drawn(record).values():
            figure = drawing.draw(record, *others, narrow=True, **options)
            yield Card(drawing.title, figure, " ".join(filter(None, [*texts, drawing.note(record)])))
            texts = []  # only the first figure has the finding
        if view.appendix and (html := view.appendix.html(record)):
            yield Card(view.appendix.title, None, " ".join([*texts, view.appendix.note(record)]), html)


def _closing(*, blocks: bool) -> str:
    """Explain what closing means."""
    if blocks:
        return "One residual block of two layers at a time is closed, so that only its shortcut is left; blocks are numbered from 1."
    return "One layer at a time is closed, so that it copies its input; layers that can be closed are numbered from 1."
