"""Where the commands speak: answers to standard output, everything else to standard error."""

from typing import Any

from pydantic_core import to_json
from rich.console import Console
from rich.table import Table

# Paths and names are printed as they are: no markup, no emoji codes.
console = Console(highlight=False, markup=False, emoji=False)
messages = Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(answer: Any) -> None:
    """One JSON document on standard output."""
    print(to_json(answer, indent=2, inf_nan_mode="null").decode())


def print_table(columns: list[tuple[str, str]], rows: list[list[str]], title: str | None = None) -> None:
    """A table on standard output; columns are (heading, "left" or "right"). Lines longer than a narrow screen are folded."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for heading, side in columns:
        table.add_column(heading, justify="right" if side == "right" else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
