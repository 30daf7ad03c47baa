"""What `highway inspect` and `highway lesion` share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.cli.output import console, messages, note, plain_lines, print_json
from highwaynet.cli.threads import use_free_threads
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.names import Kept

if TYPE_CHECKING:
    from highwaynet.analysis.analysis_records import AnalysisRecord
    from highwaynet.analysis.collect import Study

FORMATS = ("png", "svg", "pdf")
MOST = 100_000
"""Largest layer number that is accepted if the number of layers is unknown."""
RUN = typer.Argument(help="A run directory.")
OUT = typer.Option(help="Folder for the figures; by default RUN-figures, next to the run.")
FORMAT = typer.Option("--format", help="Formats of the figures, separated by commas: png, svg, pdf.", metavar="NAMES")
Told = Callable[[int, int], None]


class Findings:
    """Collects records, findings and figures of one run, and prints them at the end."""

    def __init__(self, run: Path, out: Path | None, formats: str, checkpoint: Kept | None) -> None:
        self.formats = names_in("--format", formats, FORMATS)
        self.run = run
        self.out = out or run.with_name(f"{run.resolve().name}-figures" + (f"-{checkpoint}" if checkpoint else ""))
        if self.out.exists() and not self.out.is_dir():
            raise InputError(f"--out {self.out}: this is a file; name a folder for the figures")
        self.study = _study(run, checkpoint)
        self._records: dict[str, AnalysisRecord] = {}
        self._findings: list[str] = []
        self._files: list[Path] = []

    def add(self, name: str, record: "AnalysisRecord", ending: str = "", **options: dict[str, Any]) -> None:
        """Add a record and save its figures; `ending` is appended to file names, `options` are arguments by figure."""
        from highwaynet.figures.captions import caption, save_figure
        from highwaynet.figures.drawings import VIEWS

        view = VIEWS[type(record)]
        figures = {title: drawing.draw(record, **options.get(title, {})) for title, drawing in view.drawn(record).items()}
        self._records[name] = record
        self._findings.append(view.finding(record))
        self.out.mkdir(parents=True, exist_ok=True)
        for title, figure in figures.items():
            for suffix in self.formats:
                path = self.out / f"{title}{ending}.{suffix}"
                save_figure(figure, path, caption(record))
                self._files.append(path)

    def show(self, *, as_json: bool, **more: Any) -> None:
        """Print findings and file names, or everything as JSON."""
        if self.study.spec.teacher is not None and self.study.spec.is_first_stage:
            guided, _ = self.study.spec.teacher.layers
            note(f"{self.run} is the first stage of a training with hints: the layers after layer {guided} have their initial weights")
        if as_json:
            records = {name: record.model_dump(mode="json") for name, record in self._records.items()}
            print_json({"run": str(self.run), "findings": self._findings, "figures": [str(path) for path in self._files], **more} | records)
            return
        for finding in self._findings:
            console.print(finding)
        for path in self._files:
            console.print(f"figure: {path}", soft_wrap=True)


def names_in(option: str, text: str, allowed: tuple[str, ...]) -> list[str]:
    """Parse names separated by commas; return each once, in the order of `allowed`."""
    given = [part.strip() for part in text.split(",") if part.strip()]
    if wrong := [name for name in given if name not in allowed]:
        raise InputError(f"{option} {wrong[0]}: choose from {', '.join(allowed)}, separated by commas")
    if not given:
        raise InputError(f"{option} is empty: choose from {', '.join(allowed)}, separated by commas")
    return [name for name in allowed if name in given]


def numbers_in(option: str, text: str, count: int | None, what: str) -> list[int]:
    """Parse a list like 3,5-9; return each number once. Raises InputError for numbers outside 1 … `count`, if that is known."""
    found: set[int] = set()
    for part in (part.strip() for part in text.split(",") if part.strip()):
        first, dash, last = part.partition("-")
        if not first.strip().isdecimal() or (dash and not last.strip().isdecimal()):
            raise InputError(f"{option} {part}: give numbers and ranges, separated by commas, for instance 3,5-9")
        ends = int(first), int(last or first)
        if ends[0] > ends[1]:
            raise InputError(f"{option} {part}: a range goes from the smaller number to the larger, {ends[1]}-{ends[0]}")
        if not 1 <= ends[0] <= ends[1] <= (count or MOST):
            raise InputError(f"{option} {part}: {f'there are {count} {what},' if count else what} numbered from 1")
        found |= set(range(ends[0], ends[1] + 1))
    if not found:
        raise InputError(f"{option} is empty: give numbers and ranges, separated by commas, for instance 3,5-9")
    return sorted(found)


def _study(run: Path, checkpoint: Kept | None) -> "Study":
    RunDirectory.open(run)  # before torch is imported, so that a wrong path is reported at once
    from highwaynet.facade import inspect

    use_free_threads()
    return inspect(run, checkpoint=checkpoint)


@contextmanager
def progress_bar(title: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Context manager: show progress on standard error; yields a function to call with (done, total).

    It is a bar on a terminal. Elsewhere it is a line every few seconds.
    """
    if not messages.is_terminal:
        plain_lines.tell(title)
        yield lambda done, total: plain_lines.tell(f"{title}: {done:,}/{total:,} {unit}")
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed}}/{{task.total}} {unit}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=messages, transient=True) as bar:
        task = bar.add_task(escape(title), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def need_figures() -> None:
    """Raise HighwayError if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise HighwayError(f"figures need {error.name}: install it with `pip install 'highwaynet[figures]'`") from error
