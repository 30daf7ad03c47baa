"""Changes of a run's settings: fields that depend on a changed field return to their defaults. Does not import torch."""

from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.base.specs import Mark, marked
from highwaynet.data.spec import DataSpec
from highwaynet.networks.presets import PRESETS
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.optimisers import OPTIMISER_SETTINGS
from highwaynet.runs.recipes import recipes_of
from highwaynet.runs.training_spec import TrainingSpec

COMPUTING = marked(TrainingSpec, Mark.HOW)

DEPENDENT = {
    "network.name": ("network.width", "network.gate_bias", "network.carry"),
    "network.variant": ("network.dropout",),
    "network.activation": ("network.init", "network.init_std", "network.init_range"),
    "network.init": ("network.init_std", "network.init_range"),
    "data.name": (
        *(f"data.{name}" for name in DataSpec.model_fields if name not in {"name", "split_seed"}),
        "training.crop",
        "training.mirror",
        "training.rotate",
    ),
    "training.recipe": (*(f"training.{name}" for name in TrainingSpec.model_fields if name not in COMPUTING), "data.preprocessing"),
    "start.run": ("start.checkpoint", "start.without", "start.weights", "start.given", "start.fresh"),
    "start.without": ("start.weights",),
    "start.checkpoint": ("start.weights",),
    "start.fresh": ("start.weights",),
    "teacher.run": ("teacher.checkpoint", "teacher.weights"),
    "teacher.checkpoint": ("teacher.weights",),
    "teacher.hints": ("teacher.stage",),
    "training.schedule": ("training.decay", "training.milestones", "training.schedule_in", "training.warm_up"),
    "training.optimiser": (*(f"training.{name}" for name in OPTIMISER_SETTINGS), "training.learning_rate"),
    "training.momentum": ("training.nesterov",),
    "training.weight_average": ("training.answer",),
}
"""By field: the fields that return to their defaults when it is changed on top of a file, a parent run or a recipe."""

OTHER_FAMILY = (
    *(f"network.{name}" for name in NetworkSpec.model_fields if name != "name"),
    *(f"training.{name}" for name in TrainingSpec.model_fields if name not in {"epochs", *COMPUTING}),
    "data.preprocessing",
)
"""The fields that return to their defaults when the network is replaced by one of another family, whose settings differ."""


def drop_dependent(values: dict[str, Any], changes: dict[str, Any]) -> None:
    """Remove the values that depend on changed fields (dotted names, new values), so that they get their defaults."""
    complete = "schema_version" in values  # written by a run: fields that are absent are None
    for field in DEPENDENT:
        section, name = field.split(".")
        table = values.get(section)
        if field not in changes or not isinstance(table, dict):
            continue
        before = table.get(name, None if complete else changes[field])
        if before == changes[field]:
            continue
        for other in _dependent(field, before, changes, table):
            inner = values.get(other.split(".")[0])
            if isinstance(inner, dict) and other != field:
                inner.pop(other.split(".")[1], None)


def _dependent(field: str, before: Any, changes: dict[str, Any], table: dict[str, Any]) -> tuple[str, ...]:
    """Return the fields that get their defaults when this field changes."""
    after = changes[field]
    if field == "network.name" and _drawing(before) != _drawing(after):
        return OTHER_FAMILY
    if field == "training.momentum" and after != 0:
        return ()
    if field == "network.name" and _drawing(after) != "dense":
        return tuple(other for other in OTHER_FAMILY if other.startswith("network."))
    network = changes.get("network.name", table.get("name"))
    if field == "network.variant" and network in PRESETS and recipes_of(network, str(before)) != recipes_of(network, str(after)):
        return (*DEPENDENT[field], *(other for other in OTHER_FAMILY if not other.startswith("network.") and other != "training.recipe"))
    return DEPENDENT[field]


def _drawing(network: Any) -> str | None:
    return PRESETS[network].drawing if isinstance(network, str) and network in PRESETS else None


def assign(values: dict[str, Any], field: str, value: Any) -> None:
    """Set a dotted field in nested tables; raises InputError if a section is not a table."""
    *sections, name = field.split(".")
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            raise InputError(f"{field} = {value!r}: {section} is not a section")
        values = inner
    values[name] = value
