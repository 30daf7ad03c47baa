"""Plots and HTML of records: generic functions that rooms below `figures` call and `highwaynet.figures.drawings` implements."""

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from highwaynet.base.errors import HighwayError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@singledispatch
def plot(record: object, **options: Any) -> "Figure":
    """Draw a record; raises HighwayError if no drawing is registered for its type."""
    raise HighwayError(
        f"{type(record).__name__}: no drawing is registered for this record; run `import highwaynet.figures.drawings` and plot again"
    )


@singledispatch
def as_html(record: object) -> str | None:
    """Return a record as an HTML fragment, or None if none is registered for its type."""
    return None
