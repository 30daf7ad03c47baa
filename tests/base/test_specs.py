"""What is said about a value that is missing or wrong."""

from typing import Annotated, Any

import pytest
from pydantic import Field

from highwaynet.base.errors import InputError
from highwaynet.base.specs import Spec, validated
from highwaynet.runs.spec import spec_from_values
from highwaynet.search.spec import StudySpec

SPACE = {"training.momentum": {"kind": "uniform", "low": 0.0, "high": 0.9}}


class Inner(Spec):
    size: int
    """How large it is, in pixels
    of the screen."""

    code: Annotated[str, Field(pattern="^[a-z]+$")] = "a"
    """Small letters."""


class Outer(Spec):
    inner: Inner
    """A section."""

    listed: dict[str, Inner] = Field(default_factory=dict)
    plain: Annotated[str, Field(pattern="^x$")] = "x"


@pytest.mark.parametrize(
    ("spec", "values", "sentence"),
    [
        (
            StudySpec,
            {"trials": 2, "space": SPACE},
            "name is missing (Name of the study in its storage, and of its folder: up to 100 letters, digits, dots, dashes and "
            "underscores, starting with a letter or digit)",
        ),
        (
            StudySpec,
            {"name": "a b", "space": SPACE},
            "name = 'a b': should be up to 100 letters, digits, dots, dashes and underscores, starting with a letter or digit",
        ),
        (
            StudySpec,
            {"name": "a b"},
            "name = 'a b': should be up to 100 letters, digits, dots, dashes and underscores, starting with a letter or digit; "
            "space is missing (Fields with the values that they may take)",
        ),
        (Outer, {"inner": {}}, "inner.size is missing (How large it is, in pixels of the screen)"),
        (Outer, {"inner": {"size": 1, "code": "A"}}, "inner.code = 'A': should be Small letters"),
        (Outer, {"inner": {"size": 1}, "listed": {"a": {}}}, "listed.a.size is missing"),
        (Outer, {"inner": {"size": 1}, "plain": "y"}, "plain = 'y': should be String should match pattern '^x$'"),
    ],
)
def test_sentences(spec: type[Spec], values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        validated(spec, values)
    assert str(caught.value) == sentence


def test_a_section_is_named() -> None:
    with pytest.raises(InputError, match=r"^network\.size is missing \(How large"):
        validated(Inner, {}, "network.")


def test_an_unknown_field_of_an_optional_section_is_named() -> None:
    with pytest.raises(InputError, match=r"unknown field of \[teacher\] 'hint_layer'"):
        spec_from_values({"teacher": {"run": "wise", "hint_layer": 2}})
