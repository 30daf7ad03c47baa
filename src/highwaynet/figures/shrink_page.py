"""The HTML page about a network that was shrunk: one file without external resources."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from highwaynet.figures.pages import render_page
from highwaynet.figures.style import Figure, to_svg


@dataclass(frozen=True)
class ShrinkPage:
    """The contents of the page."""

    title: str
    answer: str
    figures: Sequence[tuple[str, Figure, str]]
    """Title, figure and caption."""
    headings: Sequence[str]
    """Of the columns of the table."""
    rows: Sequence[tuple[str, Sequence[str]]]
    """Name and values."""
    method: Sequence[str]
    """Sentences about how it was done."""
    machine: str


def render_shrink_page(page: ShrinkPage) -> str:
    """Return the page as HTML."""
    cards = [{"title": title, "svg": Markup(to_svg(figure)), "caption": caption} for title, figure, caption in page.figures]
    return render_page(
        "shrink.html",
        title=page.title,
        answer=page.answer,
        cards=cards,
        headings=page.headings,
        rows=page.rows,
        method=page.method,
        machine=page.machine,
    )
