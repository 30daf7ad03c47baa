"""Writes docs/SETTINGS.md from the specs: python docs/settings.py (a test fails if the page is out of date)."""

import re
import textwrap
from pathlib import Path

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from highwaynet.base.specs import Mark
from highwaynet.data.spec import DataSpec
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.spec import RunSpec, StartSpec
from highwaynet.runs.teacher_spec import TeacherSpec
from highwaynet.runs.training_spec import TrainingSpec
from highwaynet.search.spec import Parameter, StudySpec

PAGE, WIDTH = Path(__file__).parent / "SETTINGS.md", 120
SECTIONS: dict[str, type[BaseModel]] = {
    "network": NetworkSpec,
    "data": DataSpec,
    "training": TrainingSpec,
    "start": StartSpec,
    "teacher": TeacherSpec,
}
NOTES = {
    "start": [
        "Without this section a run starts with fresh weights. `highway train --start RUN --without LAYERS` writes it, and",
        "so does `RunSpec.from_run` in Python.",
        "",
    ],
    "teacher": [
        "Without this section a run learns from the targets of its data only. `highway train --teacher RUN` writes it.",
        "",
    ],
}


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return str(list(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _item(name: str, meaning: str | None, default: str) -> list[str]:
    """Return a setting as an item of a list."""
    text = f"- `{name}`{f' (default {default})' if default else ''}: {' '.join((meaning or '').split())}"
    held = re.sub(r" (?=(?:[-+=>#*]|\d+[.)]) )", "\xa0", text)  # no line may start like a Markdown list
    lines = textwrap.wrap(held, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def _rows(spec: type[BaseModel], section: str) -> list[str]:
    rows = []
    for name, field in spec.model_fields.items():
        none = field.default is None or field.default is PydanticUndefined or Mark.VARIES in field.metadata
        default = "" if none else f"`{_toml(field.default)}`"
        rows += _item(f"{section}{name}", field.description, default)
    return rows


def page() -> str:
    """Return the whole page."""
    lines = [
        "# All settings of a run",
        "",
        "Every setting of a run, with its default. There are two ways to set one:",
        "",
        "- in a TOML file (`highway train FILE`), in which the part before the dot is a section;",
        "- on the command line, as `--set section.field=value`. Common settings have a flag (`highway train --help`).",
        "",
        "If no default is shown, it depends on the network, its recipe or the data.",
        "",
        "```",
        "highway train --network highway-b --set network.head=dense --set training.warm_up=0.1",
        "```",
    ]
    for section, spec in SECTIONS.items():
        lines += [
            "",
            f"## {section}",
            "",
            *NOTES.get(section, []),
            *_rows(spec, f"{section}."),
        ]
    seed = RunSpec.model_fields["seed"]
    lines += [
        "",
        "## the run",
        "",
        *_item("seed", seed.description, f"`{seed.default}`"),
        "",
        "# All settings of a study",
        "",
        "The fields of a study's file for `highway search`; [SEARCH.md](SEARCH.md) shows one.",
        "",
        *_rows(StudySpec, ""),
        "",
        "## a field of the space",
        "",
        *_rows(Parameter, ""),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
