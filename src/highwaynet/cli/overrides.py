"""Flags and `--set section.field=value` on top of a TOML file."""

import tomllib
from pathlib import Path
from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.runs.spec import SPEC, RunSpec, read_spec_values, spec_from_values


def gather_spec(source: Path | None, flags: dict[str, str | None], settings: list[str]) -> RunSpec:
    """The spec from a TOML file or run directory, changed by flags, changed by `--set`.

    Args:
        source: A TOML file, or a run directory whose spec is taken; None starts from the defaults.
        flags: Texts by dotted field name; None where a flag was not given.
        settings: Texts like ``network.depth=20``.
    """
    path = source / SPEC if source is not None and source.is_dir() else source
    values = read_spec_values(path) if path is not None else {}
    changes = {field: parse_value(text) for field, text in flags.items() if text is not None}
    if "network.name" in changes:
        values["network"] = _kept_across_networks(values.get("network", {}), changes["network.name"])
    for field, value in [*changes.items(), *map(parse_setting, settings)]:
        assign(values, field, value)
    return spec_from_values(values, None if changes or settings else path)


def _kept_across_networks(section: Any, name: str) -> Any:
    """The [network] section without what belongs to the old network alone, when a flag chooses another one."""
    if not isinstance(section, dict) or section.get("name", name) == name:
        return section
    return {field: value for field, value in section.items() if field not in {"width", "gate_bias", "carry"}}


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
    except tomllib.TOMLDecodeError:
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
