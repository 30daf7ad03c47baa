"""Old names of arguments, accepted for one version with a warning that shows the new form.

The warning is a FutureWarning: Python shows a DeprecationWarning only if the call is in the main script.
"""

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Changed(NamedTuple):
    """The new name of an argument, and the conversion of its old values."""

    name: str
    value: Callable[[Any], object]
    """Converts an old value to the new one."""


def accepts_old(*, positional: str | None = None, **names: str | Changed) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function or an ``__init__`` accept calls in their old form, each with a FutureWarning.

    `inspect` and type checkers see only the new signature.

    Args:
        positional: A keyword-only argument that was the last positional one before.
        **names: The new name (or form) of each argument, by its old name.

    >>> @accepts_old(positional="layers", wide="width")
    ... def stack(width, *, layers=1):
    ...     return width, layers
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     stack(50, 9)
    (50, 9)
    >>> str(caught[0].message)
    'stack(…, 9) is deprecated and will be removed in the next version: use stack(…, layers=9)'
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters.values()
        places = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        called = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> R:
            given = {*places[: len(args)], *kwargs}
            if positional is not None and len(args) == len(places) + 1:
                if positional in given:
                    raise TypeError(f"{called}() got {positional} twice: give it only as a keyword")
                *args, kwargs[positional] = args  # type: ignore[assignment]
                _warn(f"{called}(…, {kwargs[positional]!r})", f"{called}(…, {positional}={kwargs[positional]!r})")
            for old in [name for name in names if name in kwargs]:
                changed = names[old]
                new, convert = (changed, None) if isinstance(changed, str) else changed
                if new in given:
                    raise TypeError(f"{called}() got {new} and also {old}, its old name: give only {new}")
                value = kwargs.pop(old)
                kwargs[new] = value if convert is None else convert(value)
                _warn(f"{called}({old}={value!r})", f"{called}({new}={kwargs[new]!r})")
            return function(*args, **kwargs)

        return call

    return decorate


def _warn(old: str, new: str) -> None:
    # The third frame up is the user's: this function, then `call`, then the caller.
    warnings.warn(f"{old} is deprecated and will be removed in the next version: use {new}", FutureWarning, stacklevel=3)
