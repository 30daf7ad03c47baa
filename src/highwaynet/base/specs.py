"""What all specs share: frozen pydantic models whose field docstrings are the help, and one sentence for a wrong value."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from highwaynet.base.errors import InputError, unknown

SpecT = TypeVar("SpecT", bound=BaseModel)


class Spec(BaseModel):
    """A frozen description; unknown fields and impossible values are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, validate_default=True)


def help_for(spec: type[BaseModel], field: str) -> str:
    """The docstring of a field, for `--help` and the documentation."""
    return spec.model_fields[field].description or ""


def validated(spec: type[SpecT], values: dict[str, Any]) -> SpecT:
    """The spec with these values, or an `InputError` whose sentence names the field, the value and what is allowed."""
    try:
        return spec.model_validate(values)
    except ValidationError as error:
        raise InputError("; ".join(_sentence(spec, detail) for detail in error.errors())) from error


def _sentence(spec: type[BaseModel], detail: ErrorDetails) -> str:
    place = [str(part) for part in detail["loc"]]
    if detail["type"] == "extra_forbidden":
        owner: Any = spec
        for part in place[:-1]:
            owner = owner.model_fields[part].annotation
        section = f" of [{'.'.join(place[:-1])}]" if len(place) > 1 else ""
        return str(unknown(f"field{section}", place[-1], owner.model_fields))
    if "error" in detail.get("ctx", {}):  # raised by a validator of ours, which names the field itself
        return str(detail["ctx"]["error"])
    message = detail["msg"].removeprefix("Input should be ").removeprefix("a ")
    fields = [part for part in place if part.isidentifier() and part not in {"float", "int", "str"}]
    return f"{'.'.join(fields) or 'the spec'} = {detail['input']!r}: should be {message}"
