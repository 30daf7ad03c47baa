"""Output of commands: results to standard output, everything else to standard error."""

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

from highwaynet.base.text import visible

CHECKPOINT = (
    "Which weights: final (after the last epoch), best (lowest validation loss) or average (training.weight_average). By default the "
    "run's answer: best if it has validation data, unless training.answer says otherwise."
)
"""Help text of --checkpoint, shared by several commands."""
FOLDED = 12
"""Minimum width of a column whose text is folded."""


class _Console(Console):
    """A console that raises BrokenPipeError (rich's would end the program), and prints control characters in texts as their codes."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts and other things."""
        super().print(*(visible(one) if isinstance(one, str) else one for one in objects), **options)

    def on_broken_pipe(self) -> None:
        """Raise the error that is being handled again."""
        raise  # noqa: PLE0704


# Paths and names are printed literally: no markup, no emoji codes.
console = _Console(highlight=False, markup=False, emoji=False)
messages = _Console(stderr=True, highlight=False, markup=False, emoji=False)


def note(text: str) -> None:
    """Print a sentence for the user on standard error."""
    messages.print(text, soft_wrap=True)


def print_json(answer: Any) -> None:
    """Print one JSON document on standard output."""
    print(to_json(answer, indent=2, inf_nan_mode="null").decode())


def print_table(columns: list[tuple[str, str]], rows: list[list[str]], title: str | None = None) -> None:
    """Print a table on standard output; columns are (heading, "left", "right" or "whole").

    On a narrow screen only "left" columns are folded. If that is not enough, lines are longer than the screen: numbers and labels are
    never cut.
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
        table.add_row(*map(visible, row))
    if least > console.width:
        table.width = least
    console.print(table, crop=False)


class Ongoing:
    """Shows progress: redrawn on a terminal, as occasional lines elsewhere.

    Args:
        pause: Without a terminal, minimum seconds between two lines.
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
        """Print a sentence immediately."""
        say(sentence)

    def draw(self, picture: Callable[[], RenderableType], line: str, news: str, *, over: bool) -> None:
        """Show the current state.

        Args:
            picture: Returns what a terminal shows.
            line: The line that is printed without a terminal.
            news: The line is printed only if this has changed.
            over: Whether it is the last one, which is printed without waiting for `pause`.
        """
        if self._live:
            self._live.start()
            self._live.update(picture(), refresh=True)
            return
        now = time.monotonic()
        if news != self._told and (over or now - self._said > self._pause):
            self._told, self._said = news, now
            say(line)


class PlainLines:
    """Progress of a command without a terminal: a line on standard error every few seconds, whatever it computes."""

    pause = 5.0
    """Seconds between two lines, and before the first, so that short commands print none."""

    def __init__(self) -> None:
        self._said: float | None = None  # or when it was first called

    def tell(self, line: str) -> None:
        """Print the line if it is time for one."""
        now = time.monotonic()
        if self._said is None:
            self._said = now
        if now - self._said >= self.pause:
            self._said = now
            say(line)


plain_lines = PlainLines()


def say(line: str) -> None:
    """Print a line on standard error."""
    try:
        messages.print(line, soft_wrap=True)
    except BrokenPipeError:  # a closed pipe must not end the work in progress
        return


def usual_workers() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def this_command() -> str:
    """Return the command line for repeating the command, with passwords in addresses masked."""
    from highwaynet.search.address import masked

    return shlex.join(["highway", *(masked(word) if "://" in word else word for word in sys.argv[1:])])
