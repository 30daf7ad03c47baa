"""Writes docs/SETTINGS.md from the specs: python docs/settings.py (a test fails when the page is out of date)."""

from pathlib import Path

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from highwaynet.base.specs import VARYING
from highwaynet.data.spec import DataSpec
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.spec import RunSpec, StartSpec
from highwaynet.runs.training_spec import TrainingSpec
from highwaynet.search.spec import Parameter, StudySpec

PAGE = Path(__file__).parent / "SETTINGS.md"
SECTIONS: dict[str, type[BaseModel]] = {"network": NetworkSpec, "data": DataSpec, "training": TrainingSpec, "start": StartSpec}
NOTES = {
    "start": [
        "Leave this section out to start with fresh weights. `highway train --start RUN --without LAYERS` and, in Python,",
        "`RunSpec.from_run` write it.",
        "",
    ]
}


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return str(list(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(spec: type[BaseModel], section: str) -> list[str]:
    rows = []
    for name, field in spec.model_fields.items():
        none = field.default is None or field.default is PydanticUndefined or name in VARYING
        default = "" if none else f"`{_toml(field.default)}`"
        rows.append(f"| `{section}{name}` | {' '.join((field.description or '').split())} | {default} |")
    return rows


def page() -> str:
    """The whole page."""
    lines = [
        "# All settings of a run",
        "",
        "Each can stand in a TOML file (`highway train FILE`), where the part before the dot is a section, or be given as",
        "`--set section.field=value`; the usual ones have a flag of their own (`highway train --help`).",
        "A default that is not shown depends on the network, its recipe or the data.",
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
            "| setting | meaning | default |",
            "|---|---|---|",
            *_rows(spec, f"{section}."),
        ]
    seed = RunSpec.model_fields["seed"]
    lines += [
        "",
        "## the run",
        "",
        "| setting | meaning | default |",
        "|---|---|---|",
        f"| `seed` | {seed.description} | `{seed.default}` |",
        "",
        "# All settings of a study",
        "",
        "The fields of a study's file for `highway search`; [SEARCH.md](SEARCH.md) shows one.",
        "",
        "| setting | meaning | default |",
        "|---|---|---|",
        *_rows(StudySpec, ""),
        "",
        "## a field of the space",
        "",
        "| setting | meaning | default |",
        "|---|---|---|",
        *_rows(Parameter, ""),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
