"""Numbers and names as people read them, the same in tables, pages and progress bars."""

from collections.abc import Iterable


def either(names: Iterable[str]) -> str:
    """Names to choose from.

    >>> either(["sgd", "rmsprop", "adamw"])
    'sgd, rmsprop or adamw'
    """
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def percent(share: float) -> str:
    r"""A share in percent, with a space that does not break.

    >>> percent(0.9712)
    '97.12\xa0%'
    """
    return f"{100 * share:.2f}\u00a0%"


def loss_text(loss: float) -> str:
    """A loss with three digits that matter.

    >>> loss_text(0.12), loss_text(0.000123456), loss_text(123.4)
    ('0.120', '1.23e-04', '123')
    """
    if loss == 0:
        return "0"
    return f"{loss:#.3g}".rstrip(".") if loss >= 1e-3 else f"{loss:.2e}"
