"""Errors whose messages are written for users."""

from collections.abc import Iterable
from difflib import SequenceMatcher

from highwaynet.base.text import either, shortened

CLOSE, NEAR, MOST = 0.65, 0.08, 3
"""How similar a suggestion must be (1 is equal), how much less similar than the best one, and how many are suggested at most."""


class HighwayError(Exception):
    """Base class of the errors of this package. The message is one sentence for the user; commands end with exit code 1."""

    exit_code = 1
    told = False
    """Whether another process of the run reports it, so that this one stays silent."""
    own = False
    """Whether it was raised in a process other than the first, after the processes had connected."""
    everywhere = False
    """Whether all processes of the run raise it, so that only the first reports it."""


class InputError(HighwayError):
    """Wrong input: the message names the field, the value and what to do. Commands end with exit code 2."""

    exit_code = 2


class SpecError(InputError, ValueError):
    """A setting that is invalid or does not exist."""


class DataError(InputError, ValueError):
    """Data that an estimator cannot use; a ValueError, as scikit-learn expects."""


def unknown(what: str, value: str, allowed: Iterable[str]) -> InputError:
    """Return the error for a name that does not exist; it suggests the closest name that does.

    >>> str(unknown("data set", "digit", ["digits", "mnist"]))
    "unknown data set 'digit': did you mean 'digits'? Allowed: digits, mnist"
    """
    names = list(allowed)
    near = closest(value[:100], names)  # its time grows with the length
    hint = f"did you mean {either(map(repr, near))}? " if near else ""
    return InputError(f"unknown {what} {shortened(repr(value), 100)}: {hint}Allowed: {', '.join(names)}")


def closest(value: str, names: Iterable[str]) -> list[str]:
    """Return the names that are closest to a misspelt one; empty if none is close, or if too many are about equally close.

    >>> closest("higway", ["fc-highway", "highway-a", "highway-b", "resnet-20"])
    ['highway-a', 'highway-b', 'fc-highway']
    >>> closest("HIGHWAY-A", ["highway-a", "highway-b"]), closest("lstm", ["highway-a"])
    (['highway-a'], [])
    """
    shares = {name: SequenceMatcher(None, name.lower(), value.lower()).ratio() for name in names}
    best = max(shares.values(), default=0.0)
    least = best - NEAR if best < 1 else best
    near = sorted((name for name, share in shares.items() if share >= least), key=lambda name: -shares[name])
    if len(near) > MOST:
        near = [name for name in near if shares[name] == best]
    return near if best >= CLOSE and len(near) <= MOST else []
