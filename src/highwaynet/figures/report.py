"""The HTML report: one file without external resources."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from markupsafe import Markup, escape
from pydantic import BaseModel

from highwaynet.analysis.analysis_records import EvaluationRecord
from highwaynet.analysis.mistakes_record import MistakesRecord
from highwaynet.analysis.questions import MISTAKES
from highwaynet.base.specs import section_in
from highwaynet.base.text import percent, quantity_text
from highwaynet.data.record import DataRecord
from highwaynet.figures.cards import Card, Found, cards
from highwaynet.figures.curves import Curve, draw_curves
from highwaynet.figures.findings import METRICS, PART_NAMES
from highwaynet.figures.pages import render_page
from highwaynet.figures.style import run_colours, to_svg
from highwaynet.runs.run_records import EpochRecord, Score
from highwaynet.runs.spec import RunSpec

MARK = '<meta name="generator" content="highwaynet'
"""Marks a report of this package, which may be overwritten."""


@dataclass(frozen=True)
class ReportedRun:
    """The contents of the report for one run."""

    path: str
    label: str
    """Kind and number of layers, for instance 50-layer highway; convolutional networks have names."""
    spec: RunSpec
    data: DataRecord
    history: list[EpochRecord]
    seconds: float
    environment: dict[str, Any]
    evaluation: EvaluationRecord
    inside: Found
    """Analyses of the network, by question."""
    left_out: tuple[str, ...] = ()
    """Analyses that apply to the network but were not asked for (--quick), in words."""

    @property
    def held_out(self) -> tuple[str, Score]:
        """The score on test data, with the name of the part; without test data that on validation data, or else on training data."""
        scores = {"test": self.evaluation.test, "validation": self.evaluation.validation}
        return next(((PART_NAMES[part], score) for part, score in scores.items() if score), ("training", self.evaluation.train))


def render_report(
    runs: list[ReportedRun], note: str | None = None, pages: Sequence[tuple[str, str]] = (), checkpoint: str | None = None
) -> str:
    """Return the HTML page for these runs.

    Args:
        runs: The runs.
        note: The user's note, for the top of the page.
        pages: Names and addresses of pages in which the networks can be tried.
        checkpoint: The weights that were asked for; None if they are each run's answer.
    """
    labels = distinct_labels(runs)
    colours = run_colours([run.spec.network.kind for run in runs])
    curves = [Curve(label, colour, run.history) for label, colour, run in zip(labels, colours, runs, strict=True) if run.history]
    views = [_view(run, label, colour) for run, label, colour in zip(runs, labels, colours, strict=True)]
    return render_page(
        "report.html",
        views=views,
        settings=_settings(runs),
        data=", ".join(sorted({run.spec.data.title for run in runs})),
        note=note,
        checkpoint=checkpoint,
        pages=pages,
        found=sorted({run.data.found for run in runs}),
        results=_results(runs),
        environments=_environments(runs),
        commands=[f"highway train {quote(run.path)} --out {quote(run.path + '-again')}" for run in runs],
        curves=Markup(to_svg(draw_curves(curves))) if curves else "",
        breakable=_breakable,
    )


def distinct_labels(runs: list[ReportedRun]) -> list[str]:
    """Return a label for each run: kind and depth, with the path if several runs have the same."""
    labels = [run.label for run in runs]
    return [label if labels.count(label) == 1 else f"{label} ({run.path})" for label, run in zip(labels, runs, strict=True)]


def _results(runs: list[ReportedRun]) -> list[tuple[str, list[str]]]:
    """Return the rows of the table of results, for the metrics that any run has."""
    rows = []
    for metric, (heading, text) in METRICS.items():
        for part, name in PART_NAMES.items():
            scores = [getattr(run.evaluation, part) for run in runs]
            values = [getattr(score, metric) if score else None for score in scores]
            if any(value is not None for value in values):
                rows.append((f"{name} {heading}", ["–" if value is None else text(value) for value in values]))
    return rows + _next_to_guessing(runs)


GUESSING: dict[str, tuple[str, Callable[[float], str]]] = {
    "baseline_accuracy": ("accuracy of guessing the most frequent class", percent),
    "balanced_accuracy": ("balanced accuracy", percent),
    "calibration_error": ("calibration error", percent),
    "mae": ("MAE", quantity_text),
    "baseline_rmse": ("RMSE of guessing the mean", quantity_text),
}
"""Fields of the record of mistakes in the table of results, with heading and number format."""


def _next_to_guessing(runs: list[ReportedRun]) -> list[tuple[str, list[str]]]:
    """Return the rows of the table of results that are about mistakes."""
    records = [next((one for one in run.inside.get(MISTAKES.name, ()) if isinstance(one, MistakesRecord)), None) for run in runs]
    rows = []
    for field, (heading, text) in GUESSING.items():
        for part, name in PART_NAMES.items():
            values = [getattr(record, field) if record and record.part == part else None for record in records]
            if any(value is not None for value in values):
                rows.append((f"{name} {heading}", ["–" if value is None else text(value) for value in values]))
    return rows


def _environments(runs: list[ReportedRun]) -> list[str]:
    """Return descriptions of the environments of the runs, each once."""
    places = []
    for run in runs:
        known = run.environment
        versions = ", ".join(f"{key} {known[key]}" for key in ("highwaynet", "torch", "python") if key in known)
        places.append(
            f"{versions}, {known.get('processor', 'unknown processor')}, {known.get('cores')} cores, {known.get('threads')} threads"
        )
    return list(dict.fromkeys(places))


def _view(run: ReportedRun, label: str, colour: str) -> dict[str, Any]:
    """Return what the template needs for a run."""
    network = run.spec.network
    blocks = network.kind == "residual" and network.preset.traits.has_blocks
    wrong = {name: records for name, records in run.inside.items() if name == MISTAKES.name}
    inside = {name: records for name, records in run.inside.items() if name not in wrong}
    sections = {f"What the {label} network gets wrong": wrong, f"Inside the {label} network": inside}
    shown = {heading: [_shown(card) for card in cards(found, colour, blocks=blocks)] for heading, found in sections.items() if found}
    return {"run": run, "label": label, "colour": colour, "sections": shown}


def _shown(card: Card) -> dict[str, Any]:
    content = f'<div class="scroll">{card.html}</div>' if card.figure is None else to_svg(card.figure)
    return {"title": card.title, "content": Markup(content), "finding": card.finding}


def _settings(runs: list[ReportedRun]) -> list[dict[str, Any]]:
    """Return a row for each setting with a value for each run; `same` says whether all are equal."""
    tables = []
    for run in runs:
        flat: dict[str, str] = {}
        for section, values in run.spec.model_dump(exclude_none=True, exclude={"schema_version"}).items():
            if isinstance(values, dict):
                flat |= {f"{section}.{field}": f"{value}" for field, value in values.items()}
            else:
                flat[section] = f"{values}"
        flat["data.preprocessing"] = ", ".join(run.data.preprocessing) or "none"
        tables.append(flat)
    names = sorted({name for table in tables for name in table}, key=_field_names(RunSpec).index)
    rows = [{"name": name, "values": [table.get(name, "–") for table in tables]} for name in names]
    return [row | {"same": len(set(row["values"])) == 1} for row in rows]


def _field_names(spec: type[BaseModel], section: str = "") -> list[str]:
    """Return the dotted names of all fields, in the order of the spec."""
    names: list[str] = []
    for name, field in spec.model_fields.items():
        inner = section_in(field.annotation)
        names += _field_names(inner, f"{name}.") if inner else [section + name]
    return names


def _breakable(name: str) -> Markup:
    """Allow line breaks in a field name after dots and underscores."""
    return Markup(escape(name).replace(".", Markup(".<wbr>")).replace("_", Markup("_<wbr>")))


def is_own_report(path: Path) -> bool:
    """Whether a file is a report of this package, which may be overwritten."""
    try:
        with path.open("r", encoding="utf-8") as stream:
            return MARK in stream.read(2000)
    except (OSError, UnicodeDecodeError):
        return False
