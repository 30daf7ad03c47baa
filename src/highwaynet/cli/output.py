"""Where the commands speak: answers to standard output, everything else to standard error."""

import os
import shlex
import sys
import time
from collections.abc import Callable
from typing import Any, Self

from pydantic_core import to_json
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table

CHECKPOINT = (
    "Which weights: final (after the last epoch), best (lowest validation loss) or average (training.weight_average). By default the "
    "run's answer: average if there is one, otherwise final, unless training.answer says otherwise."
)
"""Help of the option of several commands."""
FOLDED = 12
"""A column of words is not made narrower."""


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
    """A table on standard output; columns are (heading, "left", "right" or "whole").

    On a narrow screen left ones are folded, the others never. Where that is not enough, lines are longer than the screen is wide: numbers
    and labels are not cut.
    """
    table = Table(title=title, title_justify="left", header_style="bold")
    least = 1
    for place, (heading, side) in enumerate(columns):
        longest = max(cell_len(line) for text in (heading, *(row[place] for row in rows)) for line in text.split("\n"))
        narrowest = min(longest, FOLDED) if side == "left" else longest
        table.add_column(
            heading, justify="right" if side == "right" else "left", overflow="fold", no_wrap=side != "left", min_width=narrowest
        )
        least += narrowest + 3  # a space on either side, and the frame
    for row in rows:
        table.add_row(*row)
    if least > console.width:
        table.width = least
    console.print(table, crop=False)


class Ongoing:
    """Something that goes on: drawn anew on a terminal, a line from time to time elsewhere.

    Args:
        pause: Without a terminal, a line at most every so many seconds.
    """

    def __init__(self, pause: float) -> None:
        self._pause, self._told, self._said = pause, "", 0.0
        terminal = messages.is_terminal and sys.stderr.isatty()
        self._live = Live(console=messages, auto_refresh=False, transient=True) if terminal else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def note(self, sentence: str) -> None:
        """Say it at once."""
        say(sentence)

    def draw(self, picture: Callable[[], RenderableType], line: str, news: str, *, over: bool) -> None:
        """How it stands.

        Args:
            picture: What a terminal shows.
            line: What is said elsewhere.
            news: The line is said again where this has changed.
            over: Whether it is the last one, which is always said.
        """
        if self._live:
            self._live.start()
            self._live.update(picture(), refresh=True)
            return
        now = time.monotonic()
        if news != self._told and (over or now - self._said > self._pause):
            self._told, self._said = news, now
            say(line)


def say(line: str) -> None:
    """Something on standard error."""
    try:
        messages.print(line, soft_wrap=True)
    except BrokenPipeError:  # whoever closed the pipe did not want to end what goes on
        return


def usual_workers() -> int:
    """As many as there are cores for this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def this_command() -> str:
    """What was typed, so that it can be typed again; a password in an address is left out."""
    from highwaynet.search.address import masked

    return shlex.join(["highway", *(masked(word) if "://" in word else word for word in sys.argv[1:])])
