"""Base of all specs: frozen pydantic models whose field docstrings are the help texts, with one-sentence errors."""

import re
from enum import Enum
from typing import Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticUndefined

from highwaynet.base.errors import InputError, SpecError, unknown
from highwaynet.base.text import shortened, visible, with_count

_PLAIN_WORDS = {
    "model_type": "a section, with a field on each line",
    "tuple_type": "a list in square brackets",
    "bool_type": "true or false",
}

MOST_ERRORS = 5
"""How many wrong fields an error names."""
LONGEST = 200
"""Characters of a value in a message."""

SpecT = TypeVar("SpecT", bound=BaseModel)


class Mark(Enum):
    """A property of a spec's field, written into its annotation and read with `marked`."""

    VARIES = "its default depends on other fields; its docstring says how"
    HOW = "it says how a run is computed and stored, not what is learned: it stays if another recipe is chosen"
    INDIFFERENT = "runs that differ only in it compute the same"


def marked(spec: type[BaseModel], mark: Mark) -> frozenset[str]:
    """Return the names of the fields of a spec that have a mark."""
    return frozenset(name for name, field in spec.model_fields.items() if mark in field.metadata)


class Spec(BaseModel):
    """Base class of validated, frozen settings; unknown fields and invalid values raise an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False, validate_default=True
    )
    _section: ClassVar[str] = ""
    """Prefix of the field names in messages, for instance "network."."""

    def __init__(self, **values: Any) -> None:
        """Raises SpecError, which is an InputError, for unknown fields and invalid values."""
        try:
            super().__init__(**{name: _plain_number(value) for name, value in values.items()})
        except ValidationError as error:
            raise SpecError(_sentence(type(self), error.errors(), self._section)) from error

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # pydantic builds inner specs without it


def _plain_number(value: Any) -> Any:
    """Convert a numpy scalar to a Python number, also inside a section."""
    if isinstance(value, dict):
        return {name: _plain_number(inner) for name, inner in value.items()}
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0 else value


def section_in(annotation: Any) -> type[BaseModel] | None:
    """Return the spec class if a field is a section (optional or not); None for other fields."""
    kinds = [kind for kind in (get_args(annotation) or (annotation,)) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], BaseModel) else None


def named(spec: type[BaseModel], values: Any) -> str | None:
    """Return the preset name in a spec's values, from which defaults follow; None if it is invalid, which validation then reports."""
    name = values.get("name", spec.model_fields["name"].default) if isinstance(values, dict) else None
    return name if isinstance(name, str) else None


def help_for(spec: type[BaseModel], field: str) -> str:
    """Return the docstring of a field and its default, for `--help` and the documentation."""
    known = spec.model_fields[field]
    default = "" if known.default in {None, (), PydanticUndefined} or Mark.VARIES in known.metadata else f" [default: {known.default}]"
    return f"{known.description}{default}"


def validated(spec: type[SpecT], values: dict[str, Any], section: str = "") -> SpecT:
    """Make a spec from these values; the `InputError` for a wrong one names the field (of this section), the value and what is allowed."""
    try:
        return spec.model_validate(values)
    except ValidationError as error:
        sentence = _newer(error.errors()) or _sentence(spec, error.errors(), section)
        if section == "--":  # the fields are flags
            sentence = re.sub(r"--\w+", lambda name: name.group().replace("_", "-"), sentence)
        raise InputError(sentence) from error


def parsed(kind: type[SpecT], text: str, place: str) -> SpecT:
    """Read a record from JSON; raises InputError, which names `place`, if it is damaged."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        if newer := _newer(error.errors()):
            raise InputError(f"{place} {newer}") from error
        detail = error.errors()[0]
        field = shortened(visible(".".join(str(part) for part in detail["loc"])), 120)  # names of unknown fields are the file's
        raise InputError(f"{place} is damaged: {field + ': ' if field else ''}{detail['msg'].removeprefix('Value error, ')}") from error


def _newer(details: list[ErrorDetails]) -> str | None:
    """Return the error for a file with a newer schema, whatever else is wrong with it; None if the schema is not newer."""
    for detail in details:
        if detail["loc"] == ("schema_version",) and detail["type"] == "literal_error" and isinstance(detail["input"], int):
            known = detail.get("ctx", {}).get("expected", "")
            if detail["input"] > int(known if known.isdigit() else 0):
                return (
                    f"was written by a newer version of highwaynet (schema_version = {detail['input']}, this one reads {known}): update it"
                )
    return None


def _sentence(spec: type[BaseModel], details: list[ErrorDetails], section: str) -> str:
    clauses: dict[str, list[str]] = {}  # a field that allows several types has an error for each of them
    for number, detail in enumerate(details):
        if len(clauses) == MOST_ERRORS:
            clauses[f"and {with_count(len(details) - number, 'more error')}"] = []
            break
        place = [str(part) for part in detail["loc"]]
        if detail["type"] == "extra_forbidden":
            clauses[_unknown_field(spec, place)] = []
        elif "error" in detail.get("ctx", {}):  # raised by a validator of this package, whose message names the field
            clauses[str(detail["ctx"]["error"])] = []
        else:
            field = section + ".".join(part for part in place if part.isidentifier() and part not in {"float", "int", "str"})
            meaning = _meaning(spec, [part for part in place if not part.isdigit()])
            if detail["type"] == "too_long" or (detail["type"] == "missing" and isinstance(detail["loc"][-1], int)):
                size = "fewer" if detail["type"] == "too_long" else "more"
                clauses[f"{field} = {_shown(detail['input'])}: should have {size} values" + (f" ({meaning})" if meaning else "")] = []
                continue
            if detail["type"] == "missing":
                clauses[f"{field} is missing" + (f" ({meaning})" if meaning else "")] = []
                continue
            wanted = detail["msg"].removeprefix("Input should be ")
            wanted = _PLAIN_WORDS.get(detail["type"], wanted)
            if detail["type"] == "string_pattern_mismatch" and meaning:  # the docstring says it in words, after its colon if it has one
                wanted = meaning.rpartition(": ")[2]
            clauses.setdefault(f"{field or 'the spec'} = {_shown(detail['input'])}: should be ", []).append(wanted)
    return "; ".join(start + ", or ".join(dict.fromkeys(wanted)) for start, wanted in clauses.items())


def _shown(value: Any) -> str:
    """Return a value as Python writes it; the middle of a long one is left out."""
    try:
        text = repr(value)
    except ValueError:  # a number with thousands of digits
        return "a number with thousands of digits"
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 4 :]}"


def _meaning(spec: Any, place: list[str]) -> str:
    """Return the docstring of a field on one line, without its full stop; empty if it has none."""
    field = None
    for part in place:
        field = getattr(spec, "model_fields", {}).get(part)
        spec = field and (section_in(field.annotation) or field.annotation)
    return " ".join(((field and field.description) or "").split()).removesuffix(".")


def _unknown_field(spec: Any, place: list[str]) -> str:
    *sections, name = place
    for section in sections:
        annotation = spec.model_fields[section].annotation
        spec = section_in(annotation) or annotation
    return str(unknown(f"field of [{'.'.join(sections)}]" if sections else "field", name, spec.model_fields))
