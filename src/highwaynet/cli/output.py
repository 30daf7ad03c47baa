"""Where the commands speak: answers to standard output, everything else to standard error."""

from typing import Any

from pydantic_core import to_json
from rich.console import Console
from rich.table import Table

CHECKPOINT = "Which weights: final (after the last epoch) or best (lowest validation loss)."
"""Help of the option of several commands."""


class _Console(Console):
    """Where nobody listens any more, whoever prints decides what that means; rich would end the program."""

    def on_broken_pipe(self) -> None:
        """Pass the error on that is being handled."""
        raise  # noqa: PLE0704


# Paths and names are printed as they are: no markup, no emoji codes.
console = _Console(highlight=False, markup=False, emoji=False)
messages = _Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(answer: Any) -> None:
    """One JSON document on standard output."""
    print(to_json(answer, indent=2, inf_nan_mode="null").decode())


def print_table(columns: list[tuple[str, str]], rows: list[list[str]], title: str | None = None) -> None:
    """A table on standard output; columns are (heading, "left", "right" or "whole"). On a narrow screen left ones are folded."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for heading, side in columns:
        table.add_column(
            heading,
            justify="right" if side == "right" else "left",
            overflow="fold",
            no_wrap=side != "left",
            min_width=12 if side == "left" else None,
        )
    for row in rows:
        table.add_row(*row)
    console.print(table)
