"""From the record of `highway shrink` to its page."""

from pathlib import Path
from typing import TYPE_CHECKING

from highwaynet.base.files import write_atomically
from highwaynet.figures.shrink_page import ShrinkPage, render_shrink_page
from highwaynet.figures.shrink_plot import draw_depths, draw_layers, draw_removal
from highwaynet.runs.environment import describe_environment
from highwaynet.shrinking.shrink import mean_test

if TYPE_CHECKING:
    from highwaynet.shrinking.shrink import Shrinking
    from highwaynet.shrinking.shrink_record import Candidate, ShrinkRecord


def write_page(job: "Shrinking", record: "ShrinkRecord") -> Path:
    """Write shrink.html to the folder of the result; return its path."""
    curves = job.curves(lambda title: None)
    word = "accuracy" if record.intact_test.accuracy is not None else "R²"
    part = "validation" if curves.part == "validation" else "training"
    shown: dict[str, list[float]] = {curve.criterion: [score.percent for score in curve.scores] for curve in curves.curves}
    unhealed = [(one.kept, one.unhealed.percent) for one in record.tried if one.unhealed is not None]
    healed = [(one.kept, one.selection.percent) for one in (*record.tried, *record.healed)]
    scratch = [(one.kept, one.selection.percent) for one in record.scratch]
    axis = f"{part} {word}, %"
    figures = [
        (
            "Removing layers, by every criterion",
            draw_removal(shown, record.settings.criterion, len(record.removed), axis),
            f"Without further training, on {part} samples. The thick line is the criterion that was used; the dashed line marks "
            "the network that is left.",
        ),
        (
            "How many layers are needed",
            draw_depths(unhealed, healed, scratch, record.intact_selection.percent, axis),
            f"Each healed network was trained for {record.settings.heal_epochs} more epochs.",
        ),
        ("Layers that are left", draw_layers(job.study.network.plan.removable, record.removed), "Filled: kept. Light: removed."),
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
    same = ["same"] * (len(groups) - 1)
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
    seeds = f"{settings.seeds} seeds" if settings.seeds > 1 else "one seed"
    lines = [
        f"Layers were ranked on {samples:,} training samples by {settings.criterion} and removed in this order. The rest was trained for "
        f"{settings.heal_epochs} epochs{teacher}. {part.capitalize()} samples decided; test samples were used once, at the end ({seeds}).",
        f"Removed: layers {', '.join(map(str, record.removed)) or 'none'}.",
    ]
    if record.scratch:
        lines.append("From scratch: the same small network, trained with new weights and the whole budget of the large one.")
    return lines


def _machine() -> str:
    known = describe_environment()
    threads = known.get("threads")
    return f"{known.get('processor', 'unknown processor')}, {threads} thread{'' if threads == 1 else 's'}"
