"""Captions of figures, and saving figures. matplotlib is imported only when a figure is saved."""

from copy import deepcopy
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from highwaynet.analysis.analysis_records import AnalysisRecord, DeletionsRecord, DepthRecord, LesionsRecord, PairsRecord
from highwaynet.analysis.mistakes_record import MistakesRecord
from highwaynet.base.errors import InputError
from highwaynet.base.files import write_atomically
from highwaynet.base.text import with_count
from highwaynet.figures.findings import samples_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 8.0
"""Font size of captions, in points."""

# No date and no matplotlib version, so that the same data give the same file. {} stands for the caption.
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None, "Title": "{}", "Description": "{}"},
    "svg": {"Date": None, "Creator": None, "Title": "{}", "Description": "{}"},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None, "Title": "{}", "Subject": "{}"},
}


def caption(*records: AnalysisRecord) -> str:
    """Return a caption such as: MNIST, 50-layer highway, seed 1, 60 epochs; means over 60,000 training samples.

    Records of the same run share a sentence.
    """
    runs: dict[str, list[str]] = {}
    for record in records:
        about = record.about
        run = f"{about.data}, {about.network}, seed {about.seed}, {with_count(about.epochs, 'epoch')}; {_use(record)}"
        runs.setdefault(run, []).append(samples_text(record) + _draws(record))
    return " ".join(f"{run} {' and '.join(dict.fromkeys(parts))}." for run, parts in runs.items())


def _use(record: AnalysisRecord) -> str:
    """Return the words that introduce the samples."""
    measured = LesionsRecord | PairsRecord | DeletionsRecord | DepthRecord | MistakesRecord
    return "measured on" if isinstance(record, measured) else "means over"


def _draws(record: AnalysisRecord) -> str:
    return f", random draws with seed {record.seed}" if isinstance(record, DeletionsRecord) else ""


def save_figure(figure: "Figure", path: Path, caption: str) -> None:
    """Save a figure with its caption below it and in its metadata, as PNG, SVG or PDF by the path's suffix.

    The file is written atomically, and the same data give the same file.
    """
    from highwaynet.figures.style import rendered

    form = path.suffix.lower().removeprefix(".")
    if form not in _METADATA:
        raise InputError(f"cannot write {path}: choose a name that ends in .png, .svg or .pdf")
    metadata = {key: value and caption for key, value in _METADATA[form].items()}
    write_atomically(path, rendered(with_caption(figure, caption), form, metadata))


def with_caption(figure: "Figure", caption: str) -> "Figure":
    """Return a copy of the figure, extended by its caption. It is a copy because drawing a figure changes its layout."""
    from highwaynet.figures.style import house_style

    page = deepcopy(figure)
    letters = int(72 * page.get_figwidth() / (0.58 * SIZE))  # the width of a letter is about 0.55 of its height
    lines = fill(caption, letters)
    page.set_figheight(page.get_figheight() + 1.35 * SIZE / 72 * (lines.count("\n") + 1))
    with house_style():
        page.supxlabel(lines, x=0.015, ha="left", fontsize=SIZE, color="#444444", linespacing=1.3)
    return page
