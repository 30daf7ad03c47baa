"""Errors whose text is written for the person at the keyboard."""

from collections.abc import Iterable
from difflib import get_close_matches


class HighwayError(Exception):
    """Base class of the errors of this package. The message is one sentence for the user; commands end with exit code 1."""

    exit_code = 1
    told = False
    """Whether another process tells it."""
    own = False
    """Whether a process that does not lead met it after it had joined the others."""
    everywhere = False
    """Whether all processes of a run meet it together."""


class InputError(HighwayError):
    """The input is wrong: the message names the field, the value and what to do. Commands end with exit code 2."""

    exit_code = 2


class SpecError(InputError, ValueError):
    """A setting is wrong, or does not exist."""


def unknown(what: str, value: str, allowed: Iterable[str]) -> InputError:
    """The error for a name that does not exist, with the nearest one that does.

    >>> str(unknown("data set", "digit", ["digits", "mnist"]))
    "unknown data set 'digit': did you mean 'digits'? Allowed: digits, mnist"
    """
    names = list(allowed)
    near = get_close_matches(value, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InputError(f"unknown {what} {value!r}: {hint}Allowed: {', '.join(names)}")
