"""How records show themselves: rooms below `figures` ask here, and `highwaynet.figures.drawings` answers once it is imported."""

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from highwaynet.base.errors import HighwayError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@singledispatch
def plot(record: object, **options: Any) -> "Figure":
    """The picture of a record; raises HighwayError if none is known for its type."""
    raise HighwayError(
        f"{type(record).__name__}: nothing that draws it has been imported; run `import highwaynet.figures.drawings` and plot again"
    )


@singledispatch
def as_html(record: object) -> str | None:
    """A record as an HTML fragment; None if nothing is known for its type."""
    return None
