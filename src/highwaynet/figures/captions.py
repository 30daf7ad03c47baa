"""What stands below a figure, and figures as files. matplotlib is imported when a figure is written."""

from copy import deepcopy
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from highwaynet.analysis.analysis_records import AnalysisRecord, DeletionsRecord, LesionsRecord, PairsRecord
from highwaynet.base.errors import InputError
from highwaynet.base.files import write_atomically
from highwaynet.figures.findings import samples_text, with_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 8.0
"""Of a caption's letters, in points."""

# Nothing in a file depends on the clock or on matplotlib's version number; {} stands for the caption.
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None, "Title": "{}", "Description": "{}"},
    "svg": {"Date": None, "Creator": None, "Title": "{}", "Description": "{}"},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None, "Title": "{}", "Subject": "{}"},
}


def caption(*records: AnalysisRecord) -> str:
    """What was looked at, for instance: MNIST, 50-layer highway, seed 1, 60 epochs; means over 60,000 training samples.

    Records of one run share a sentence; those of several have one each.
    """
    runs: dict[str, list[str]] = {}
    for record in records:
        about = record.about
        run = f"{about.data}, {about.network}, seed {about.seed}, {with_count(about.epochs, 'epoch')}; {_use(record)}"
        runs.setdefault(run, []).append(samples_text(record) + _draws(record))
    return " ".join(f"{run} {' and '.join(dict.fromkeys(parts))}." for run, parts in runs.items())


def _use(record: AnalysisRecord) -> str:
    """What the samples were for."""
    return "measured on" if isinstance(record, LesionsRecord | PairsRecord | DeletionsRecord) else "means over"


def _draws(record: AnalysisRecord) -> str:
    return f", random draws with seed {record.seed}" if isinstance(record, DeletionsRecord) else ""


def save_figure(figure: "Figure", path: Path, caption: str) -> None:
    """Write a figure with its caption below it and in its metadata, as PNG, SVG or PDF by the path's suffix.

    The file is complete or not there, and the same for the same data.
    """
    from highwaynet.figures.style import rendered

    form = path.suffix.lower().removeprefix(".")
    if form not in _METADATA:
        raise InputError(f"cannot write {path}: a figure's name ends in .png, .svg or .pdf")
    metadata = {key: value and caption for key, value in _METADATA[form].items()}
    write_atomically(path, rendered(with_caption(figure, caption), form, metadata))


def with_caption(figure: "Figure", caption: str) -> "Figure":
    """The figure on a page that is longer by its caption. A copy: drawing changes the layout from which a figure is drawn again."""
    from highwaynet.figures.style import house_style

    page = deepcopy(figure)
    letters = int(72 * page.get_figwidth() / (0.58 * SIZE))  # a letter is about 0.55 as wide as high
    lines = fill(caption, letters)
    page.set_figheight(page.get_figheight() + 1.35 * SIZE / 72 * (lines.count("\n") + 1))
    with house_style():
        page.supxlabel(lines, x=0.015, ha="left", fontsize=SIZE, color="#444444", linespacing=1.3)
    return page
