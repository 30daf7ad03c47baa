"""Flags and `--set section.field=value` on top of a TOML file."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.base.parsing import parse_toml
from highwaynet.cli.flags import type_of
from highwaynet.runs.changes import assign, drop_dependent
from highwaynet.runs.spec import SPEC, RunSpec, check_hints, make_absolute, on_top_of_parent, read_spec_values, spec_from_values
from highwaynet.runs.suited import suited_to_data


def gather_spec(
    source: Path | None, flags: Mapping[str, str | None], settings: list[str], tell: Callable[[str], None] = lambda note: None
) -> RunSpec:
    """Build the spec from a TOML file or run directory, then flags, then `--set`; the user's own data get defaults that suit them.

    Args:
        source: A TOML file, or a run directory whose spec is used; None starts from the defaults.
        flags: Texts by dotted field name; None if a flag was not given.
        settings: Texts like ``network.depth=20``.
        tell: Called with sentences that say which defaults were chosen for the data, and why.
    """
    path = source / SPEC if source is not None and source.is_dir() else source
    values = read_spec_values(path) if path is not None else {}
    # A field that holds text takes it whatever it looks like: a folder may be called 1.5 and a column true.
    changes = [(field, text if type_of(field) is str else parse_value(text)) for field, text in flags.items() if text is not None]
    changes += map(parse_setting, settings)
    drop_dependent(values, dict(changes))
    for field, value in changes:
        assign(values, field, value)
    make_absolute(values)
    if "schema_version" not in values:  # specs written by runs have it, and are complete
        values = on_top_of_parent(values) if "start" in values else suited_to_data(values, tell=tell)
    spec = spec_from_values(values, None if changes else path)
    if spec.teacher is not None:  # the values of a run are complete, and may have such settings from a recipe
        mine = {name: value for field, value in changes for section, _, name in [field.partition(".")] if section == "teacher"}
        try:
            check_hints({"hints": spec.teacher.hints} | mine)
        except ValueError as error:
            raise InputError(str(error)) from error
    if spec.data.in_memory and path is None and spec.start is None:
        raise InputError("data.name is missing: name your own data with --data")
    return spec


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse a `--set` text to field and value.

    >>> parse_setting("network.depth=20"), parse_setting("network.activation=relu")
    (('network.depth', 20), ('network.activation', 'relu'))
    """
    field, equals, value = text.partition("=")
    field, value = field.strip(), value.strip()
    if not equals or not field or not value:
        raise InputError(f"--set {text!r}: write it as section.field=value, for instance --set network.depth=20")
    return field, parse_value(value)


def parse_value(text: str) -> Any:
    """Parse a value as TOML; anything that is not TOML is a plain string.

    >>> parse_value("1e-3"), parse_value("auto")
    (0.001, 'auto')
    """
    try:
        return parse_toml(f"value = {text}", "the value")["value"]
    except InputError:
        return text
