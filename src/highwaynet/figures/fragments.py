"""HTML fragments for notebooks, without external resources; all texts are escaped."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def fragment(texts: Sequence[str], *parts: str) -> str:
    """Return texts as paragraphs, the first in bold, followed by parts that are already HTML."""
    first, *others = (escape(text) for text in texts)
    paragraphs = [f"<p><strong>{first}</strong></p>", *(f"<p>{text}</p>" for text in others)]
    return f'<div style="max-width: 62em">{"".join([*paragraphs, *parts])}</div>'


def picture(title: str, note: str, figure: "Figure") -> str:
    """Return a figure with title and note as HTML; it is a PNG, which all notebook viewers display."""
    from highwaynet.figures.style import shown_size, to_png

    size = f'width="{shown_size(figure)["width"]}" style="max-width: 100%; height: auto"'
    image = f'<img alt="{escape(title)}" {size} src="data:image/png;base64,{b64encode(to_png(figure)).decode()}">'
    below = f"<figcaption>{escape(note)}</figcaption>" if note else ""
    look = "display: inline-block; vertical-align: top; margin: 0.5em 1em 0.5em 0"
    return f'<figure style="{look}"><figcaption><strong>{escape(title)}</strong></figcaption>{image}{below}</figure>'


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table; the first cell of each row is its heading."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for name, *cells in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
