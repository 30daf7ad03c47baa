"""Fields of a run's spec by their dotted names, for instance training.learning_rate. Does not import torch."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from highwaynet.base.errors import InputError, unknown
from highwaynet.runs.spec import RunSpec

SECTIONS: dict[str, type[BaseModel]] = {
    name: field.annotation
    for name, field in RunSpec.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}
"""The tables of a run's spec."""


def flattened(values: dict[str, Any], is_leaf: Callable[[Any], bool], prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables to one with dotted names: TOML allows both "network.depth" = 10 and network.depth = 10.

    >>> flattened({"network": {"depth": 10}, "training.decay": 1}, lambda value: not isinstance(value, dict))
    {'network.depth': 10, 'training.decay': 1}
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= {prefix + name: value} if is_leaf(value) else flattened(value, is_leaf, f"{prefix}{name}.")
    return flat


def check_field(field: str, table: str) -> None:
    """Raise InputError if a run's spec has no such field, or if a study may not set it."""
    if field in {"seed", "schema_version"}:
        raise InputError(f"[{table}] {field}: the seed of a trial follows from that of the study; set seed at the top of the file")
    section, dot, name = field.partition(".")
    if section not in SECTIONS:
        raise InputError(f"[{table}] {field}: {unknown('section', section, SECTIONS)}")
    if not dot or name not in SECTIONS[section].model_fields:
        raise InputError(f"[{table}] {field}: {unknown(f'field of [{section}]', name, SECTIONS[section].model_fields)}")
