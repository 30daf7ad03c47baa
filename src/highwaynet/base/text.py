"""Numbers and names as people read them, the same in tables, pages and progress bars."""

import re
from collections.abc import Iterable

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def either(names: Iterable[str]) -> str:
    """Names to choose from.

    >>> either(["sgd", "rmsprop", "adamw"])
    'sgd, rmsprop or adamw'
    """
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def visible(text: str) -> str:
    r"""Return a text with control characters, by which a file could steer a terminal, as their codes; line feeds and tabs stay.

    >>> print(visible("cat\x1b[2J"), visible("b\u202ea"))
    cat\x1b[2J b\u202ea
    """
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def shortened(text: str, most: int) -> str:
    """Return a text of at most about this many characters, without its middle if it is longer.

    >>> shortened("0123456789", 10), shortened("0123456789", 6)
    ('0123456789', '0123 … 89')
    """
    return text if len(text) <= most else f"{text[: most * 2 // 3]} … {text[-(most // 3) :]}"


def percent(share: float) -> str:
    r"""Format a share as percent, with a non-breaking space.

    >>> percent(0.9712)
    '97.12\xa0%'
    """
    return f"{100 * share:.2f}\u00a0%"


def with_count(number: int, thing: str) -> str:
    """Return a count with its noun, in the plural unless it is 1.

    >>> with_count(1, "layer"), with_count(60_000, "sample")
    ('1 layer', '60,000 samples')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def quantity_text(value: float) -> str:
    """Format a quantity in its own unit: four significant digits, and all digits before the decimal point.

    >>> [quantity_text(value) for value in (20950.3, 1234567.8, 3.14159, 0.0123, -2.0, 0.0, 1.5e-7, 2e18)]
    ['20,950', '1,234,568', '3.142', '0.0123', '−2', '0', '1.5e−07', '2e+18']
    """
    text = f"{value:,.0f}" if 999.95 <= abs(value) < 1e15 else f"{value:.4g}"
    return text.replace("-", "−")


def loss_text(loss: float) -> str:
    """Format a loss with three significant digits.

    >>> loss_text(0.12), loss_text(0.000123456), loss_text(123.4)
    ('0.120', '1.23e-04', '123')
    """
    if loss == 0:
        return "0"
    return f"{loss:#.3g}".rstrip(".") if loss >= 1e-3 else f"{loss:.2e}"
