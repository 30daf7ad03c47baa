"""Flags and `--set section.field=value` on top of a TOML file."""

import tomllib
from pathlib import Path
from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.data.catalogue import CATALOGUE
from highwaynet.data.spec import DataSpec
from highwaynet.networks.presets import PRESETS
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.recipes import recipes_of
from highwaynet.runs.spec import SPEC, RunSpec, read_spec_values, spec_from_values
from highwaynet.runs.training_spec import COMPUTING, TrainingSpec


def gather_spec(source: Path | None, flags: dict[str, str | None], settings: list[str]) -> RunSpec:
    """The spec from a TOML file or run directory, changed by flags, changed by `--set`.

    Args:
        source: A TOML file, or a run directory whose spec is taken; None starts from the defaults.
        flags: Texts by dotted field name; None where a flag was not given.
        settings: Texts like ``network.depth=20``.
    """
    path = source / SPEC if source is not None and source.is_dir() else source
    values = read_spec_values(path) if path is not None else {}
    changes = [(field, text if field in TEXTS else parse_value(text)) for field, text in flags.items() if text is not None]
    changes += map(parse_setting, settings)
    _drop_dependent(values, dict(changes))
    for field, value in changes:
        assign(values, field, value)
    _make_absolute(values)
    return spec_from_values(values, None if changes else path)


TEXTS = {"data.name", "data.target", "training.checkpoint", "training.device"}
"""Fields that hold text, whatever it looks like: a folder may be called 1.5 and a column true."""

DEPENDENT = {
    "network.name": ("network.width", "network.gate_bias", "network.carry"),
    "network.variant": ("network.dropout",),
    "network.activation": ("network.init", "network.init_std"),
    "network.init": ("network.init_std",),
    "data.name": (
        *(f"data.{name}" for name in DataSpec.model_fields if name not in {"name", "split_seed"}),
        "training.crop",
        "training.mirror",
    ),
    "training.recipe": (*(f"training.{name}" for name in TrainingSpec.model_fields if name not in COMPUTING), "data.preprocessing"),
    "training.schedule": ("training.decay", "training.milestones", "training.schedule_in", "training.warm_up"),
    "training.optimiser": ("training.momentum", "training.nesterov", "training.smoothing"),
}
"""Fields that are left to their defaults again when the field before them is changed on top of a file."""

OTHER_FAMILY = (
    *(f"network.{name}" for name in NetworkSpec.model_fields if name != "name"),
    *(f"training.{name}" for name in TrainingSpec.model_fields if name not in {"epochs", *COMPUTING}),
    "data.preprocessing",
)
"""The same where the network becomes one of another family: what was right for the one does not fit the other."""


def _drop_dependent(values: dict[str, Any], changes: dict[str, Any]) -> None:
    complete = "schema_version" in values  # written by a run: what is not there is None
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
    """What is left to its default when this field changes."""
    after = changes[field]
    if field == "network.name" and _family(before) != _family(after):
        return OTHER_FAMILY
    if field == "network.name" and _family(after) != "dense":
        return tuple(other for other in OTHER_FAMILY if other.startswith("network."))
    network = changes.get("network.name", table.get("name"))
    if field == "network.variant" and network in PRESETS and recipes_of(network, str(before)) != recipes_of(network, str(after)):
        return (*DEPENDENT[field], *(other for other in OTHER_FAMILY if not other.startswith("network.") and other != "training.recipe"))
    return DEPENDENT[field]


def _family(network: Any) -> str | None:
    return PRESETS[network].drawing if isinstance(network, str) and network in PRESETS else None


def _make_absolute(values: dict[str, Any]) -> None:
    """The path of own data from the root on, so that the run can be repeated from another folder."""
    data = values.get("data")
    name = data.get("name") if isinstance(data, dict) else None
    if isinstance(name, str) and name not in CATALOGUE and Path(name).exists():
        data["name"] = str(Path(name).resolve())  # type: ignore[index]


def parse_setting(text: str) -> tuple[str, Any]:
    """Field and value of a `--set` text.

    >>> parse_setting("network.depth=20"), parse_setting("network.activation=relu")
    (('network.depth', 20), ('network.activation', 'relu'))
    """
    field, equals, value = text.partition("=")
    field, value = field.strip(), value.strip()
    if not equals or not field or not value:
        raise InputError(f"--set {text!r}: write it as section.field=value, for instance --set network.depth=20")
    return field, parse_value(value)


def parse_value(text: str) -> Any:
    """A value as TOML writes it; anything else is a plain word.

    >>> parse_value("1e-3"), parse_value("auto")
    (0.001, 'auto')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def assign(values: dict[str, Any], field: str, value: Any) -> None:
    """Set a dotted field in nested tables."""
    *sections, name = field.split(".")
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            raise InputError(f"{field} = {value!r}: {section} is not a section")
        values = inner
    values[name] = value
