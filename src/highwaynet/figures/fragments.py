"""HTML fragments for notebooks, without external resources; all texts are escaped."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any

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


def section(title: str, note: str, content: str) -> str:
    """Return content that is already HTML, with a title and a note."""
    return f'<div style="margin: 0.5em 0"><strong>{escape(title)}</strong><p>{escape(note)}</p>{content}</div>'


def thumbnails(pictures: Sequence[tuple[Any, str, Sequence[str]]]) -> str:
    """Return small pictures side by side, each a PNG in the page itself, with its name as a tooltip and lines of text below.

    Args:
        pictures: For each its pixels, 0 to 255, (1 or 3, height, width), its name, and the lines.
    """
    look = "width: 7.2em; margin: 0; font-size: 0.8rem; line-height: 1.35; overflow-wrap: anywhere"
    image = "display: block; width: 6em; height: 6em; object-fit: contain; image-rendering: pixelated; margin: 0 0 0.3em 0"
    cells = []
    for pixels, name, lines in pictures:
        source = f"data:image/png;base64,{b64encode(_png(pixels)).decode()}"
        below = "<br>".join(escape(line) for line in lines)
        shown = f'<img alt="{escape(name)}" title="{escape(name)}" style="{image}" src="{source}">'
        cells.append(f'<figure style="{look}">{shown}<div>{below}</div></figure>')
    return f'<div style="display: flex; flex-wrap: wrap; gap: 0.9em">{"".join(cells)}</div>'


def _png(pixels: Any) -> bytes:
    """Return pixels (1 or 3, height, width) as a PNG file; the same pixels give the same bytes."""
    import numpy as np
    from PIL import Image  # matplotlib needs it too

    buffer, whole = BytesIO(), np.asarray(pixels).round().clip(0, 255).astype(np.uint8)
    Image.fromarray(whole[0] if len(whole) == 1 else np.ascontiguousarray(whole.transpose(1, 2, 0))).save(buffer, "PNG")
    return buffer.getvalue()


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table; the first cell of each row is its heading."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for name, *cells in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
