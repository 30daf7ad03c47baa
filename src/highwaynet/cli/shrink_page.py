"""From the record of `highway shrink` to its page."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from highwaynet.base.files import write_atomically
from highwaynet.figures.shrink_page import ShrinkPage, render_shrink_page
from highwaynet.figures.shrink_plot import draw_depths, draw_layers, draw_removal
from highwaynet.runs.environment import describe_environment
from highwaynet.shrinking.shrink import mean_test

if TYPE_CHECKING:
    from highwaynet.shrinking.shrink import Shrinking
    from highwaynet.shrinking.shrink_record import Candidate, ShrinkRecord, Span


def write_page(job: "Shrinking", record: "ShrinkRecord") -> Path:
    """Write shrink.html to the folder of the result; return its path."""
    curves = job.curves(lambda title: None)
    word = "accuracy" if record.intact_test.accuracy is not None else "R²"
    part = "validation" if curves.part == "validation" else "training"
    unhealed = [(one.kept, one.unhealed.percent) for one in record.tried if one.unhealed is not None]
    healed = [(one.kept, one.selection.percent) for one in (*record.tried, *record.healed)]
    scratch = [(one.kept, one.selection.percent) for one in record.scratch]
    axis = f"{part} {word}, %"
    shown: dict[str, dict[str, list[float]]] = {
        axis: {curve.criterion: [score.percent for score in curve.scores] for curve in curves.curves},
        f"{part} loss": {curve.criterion: [score.loss for score in curve.scores] for curve in curves.curves},
    }
    gone = "replaced by affine maps" if record.healed[0].spans else "removed"
    figures = [
        (
            "Removing layers, by every criterion",
            draw_removal(shown, record.settings.criterion, len(record.removed)),
            f"Without further training, on {part} samples. The thick line is the criterion that was used; the dashed line marks "
            "the network that is left.",
        ),
        (
            "How many layers are needed",
            draw_depths((f"{gone} only", unhealed), healed, scratch, record.intact_selection.percent, axis),
            f"Each healed network was trained for {record.settings.heal_epochs} more epochs." if record.removed else "Nothing was removed.",
        ),
        ("Layers that are left", draw_layers(job.study.network.plan.removable, record.removed), f"Filled: kept. Light: {gone}."),
    ]
    page = ShrinkPage(
        title=f"{job.study.title}: {record.layers - len(record.removed)} of {record.layers} layers are left",
        answer=record.answer,
        figures=figures,
        headings=("large", "small", *(["from scratch"] if record.scratch else [])),
        rows=_rows(record, word),
        method=_method(record, curves.samples, part),
        machine=_machine(),
    )
    path = job.out / "shrink.html"
    write_atomically(path, render_shrink_page(page))
    return path


def _rows(record: "ShrinkRecord", word: str) -> list[tuple[str, list[str]]]:
    groups: list[tuple[Candidate, ...]] = [record.healed, *([record.scratch] if record.scratch else [])]
    kept = record.layers - len(record.removed)
    has_maps = any(not span.merged for span in record.healed[0].spans)
    same = ["without the maps" if has_maps else "same"] * (len(groups) - 1)
    rows = [
        (f"test {word}", [f"{record.intact_test.percent:.2f} %", *(f"{mean_test(group):.2f} %" for group in groups)]),
        ("removable layers", [str(record.layers), *[str(kept)] * len(groups)]),
        ("parameters", [f"{record.parameters[0]:,}", f"{record.parameters[1]:,}", *same]),
    ]
    for size, (large, small) in record.milliseconds.items():
        rows.append((f"batch of {size}, ms", [f"{large:.3g}", f"{small:.3g} ({large / small:.1f}×)", *same]))
    return rows


def _method(record: "ShrinkRecord", samples: int, part: str) -> list[str]:
    settings = record.settings
    teacher = ", with the intact network as teacher" if settings.distil and settings.heal_epochs and record.removed else ""
    healing = f"The rest was trained for {settings.heal_epochs} epochs{teacher}." if settings.heal_epochs and record.removed else ""
    decided = f"{part.capitalize()} samples decided how many. " if settings.loss_of is not None else ""
    point = 100 / max(1, record.intact_selection.samples)
    if settings.loss_of is not None and settings.loss_of < point and record.intact_selection.accuracy is not None:
        decided += f"With {record.intact_selection.samples:,} of them one sample is {point:.2g} points, more than the aim. "
    seeds = f"{settings.seeds} seeds" if settings.seeds > 1 else "one seed"
    lines = [
        f"Layers were ranked on {samples:,} training samples by {settings.criterion} and removed in this order. {healing} {decided}"
        f"Test samples were used once, at the end ({seeds}).",
        f"Removed: layers {layer_numbers(record.removed)}.",
    ]
    if record.healed[0].spans:
        lines.append(f"In their place are affine maps, fitted by least squares: {'; '.join(map(_span, record.healed[0].spans))}.")
    if record.scratch:
        lines.append("From scratch: a network with as many layers, trained with new weights and the whole budget of the large one.")
    return lines


def _span(span: "Span") -> str:
    place = f"layer {span.first}" if span.first == span.last else f"layers {span.first}–{span.last}"
    merged = ", merged into the next layer" if span.merged else ""
    return f"{place} ({100 * span.explained:.0f} % of their effect{merged})"


def layer_numbers(numbers: Sequence[int]) -> str:
    """Return ascending numbers as text, with runs as ranges.

    >>> layer_numbers([1, 3, 4, 5, 9]), layer_numbers([])
    ('1, 3–5, 9', 'none')
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs) or "none"


def _machine() -> str:
    known = describe_environment()
    threads = known.get("threads")
    return f"{known.get('processor', 'unknown processor')}, {threads} thread{'' if threads == 1 else 's'}"
