"""Flags that set fields of a run's spec: name, help and kind of a flag come from its field."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import typer
from pydantic import BaseModel

from highwaynet.base.errors import InputError
from highwaynet.base.specs import help_for, section_in
from highwaynet.cli.asking import numbers_in
from highwaynet.runs.spec import RunSpec

CommandT = TypeVar("CommandT", bound=Callable[..., None])


@dataclass(frozen=True)
class Flag:
    """What a flag has that does not follow from its field."""

    name: str | None = None
    kind: str | None = None
    """What stands for its value in the help."""
    example: str = ""
    value: Callable[[str], str] = str
    """Its text as a file would have it."""


def _size(text: str) -> str:
    """Return a size like 32x48 as TOML has it; raises InputError for anything that is neither a size nor a list."""
    if not re.fullmatch(r"\d+([x×]\d+)?|\[.*\]", text):
        raise InputError(f"--resize {text}: write it as 32, for height and width, or as 32x48, height × width")
    return f"[{re.sub('[x×]', ',', text)}]" if re.search("[x×]", text) else text


def _names(text: str) -> str:
    return text if text.startswith("[") else json.dumps([name.strip() for name in text.split(",")], ensure_ascii=False)


DIFFERENT = {
    "network.name": Flag("--network"),
    "network.depth": Flag(kind="INTEGER|auto", example=" auto tries several on validation data before the run starts."),
    "network.gate_bias": Flag(kind="NUMBER|auto"),
    "data.name": Flag("--data", "NAME|PATH"),
    "data.target": Flag(kind="COLUMN"),
    "data.header": Flag("--no-header", value=lambda text: "false"),
    "data.ignore": Flag(kind="COLUMNS", example=" For instance id,name.", value=_names),
    "data.use": Flag(kind="COLUMNS", example=" For instance id,name.", value=_names),
    "data.resize": Flag(kind="SIZE|HEIGHTxWIDTH", value=_size),
    "training.patience": Flag(kind="EPOCHS"),
    "training.checkpoint": Flag(kind="INTERVAL"),
    "start.run": Flag("--start", "RUN"),
    "teacher.run": Flag("--teacher", "RUN"),
    "teacher.hints": Flag("--hints", "STUDENT:TEACHER"),
    "start.without": Flag(
        kind="NUMBERS", example=" For instance 3,5-9.", value=lambda text: str(numbers_in("--without", text, None, "layers are"))
    ),
}
KINDS = {int: "INTEGER", float: "NUMBER", bool: None}


def with_flags(*fields: str) -> Callable[[CommandT], CommandT]:
    """Give a command flags for fields of the spec, before its own; it gets them as keyword arguments, for `texts_of`."""

    def decorate(command: CommandT) -> CommandT:
        known = [parameter for parameter in signature(command).parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
        first = [parameter for parameter in known if parameter.kind is not Parameter.KEYWORD_ONLY]
        command.__signature__ = Signature([*first, *map(_parameter, fields), *known[len(first) :]])  # type: ignore[attr-defined]
        return command

    return decorate


def _parameter(field: str) -> Parameter:
    """A flag for a field. Its text is checked by the spec, so that flags and files are refused in the same words."""
    flag, (spec, name) = DIFFERENT.get(field, Flag()), _place(field)
    kind = type_of(field)
    option = typer.Option(
        flag.name or f"--{name.replace('_', '-')}",
        metavar=flag.kind or KINDS.get(kind, "NAME"),
        help=help_for(spec, name) + flag.example,
    )
    of_field: Any = Annotated[bool, option] if kind is bool else Annotated[str | None, option]
    return Parameter(field.replace(".", "__"), Parameter.KEYWORD_ONLY, default=False if kind is bool else None, annotation=of_field)


def texts_of(flags: dict[str, Any]) -> dict[str, str]:
    """The texts of the flags that were given, by field."""
    given = {key.replace("__", "."): "true" if value is True else value for key, value in flags.items() if value not in {None, False}}
    return {field: DIFFERENT.get(field, Flag()).value(text) for field, text in given.items()}


def type_of(field: str) -> Any:
    """The type of a field, without None; the first, if it has several."""
    spec, name = _place(field)
    annotation = spec.model_fields[name].annotation
    kinds = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    kind = next(kind for kind in kinds if kind is not NoneType)
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _place(field: str) -> tuple[type[BaseModel], str]:
    section, _, name = field.rpartition(".")
    spec = section_in(RunSpec.model_fields[section].annotation) if section else None
    return spec or RunSpec, name
