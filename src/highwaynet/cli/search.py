"""`highway search`."""

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live
from rich.table import Table
from typer.core import TyperGroup

from highwaynet.base.errors import HighwayError, InputError, unknown
from highwaynet.base.files import cannot, write_atomically
from highwaynet.base.text import loss_text, percent
from highwaynet.cli.data import DATA_ROOT, use_data_root
from highwaynet.cli.output import console, messages, print_json, print_table

if TYPE_CHECKING:
    from highwaynet.search.results import StudyResult, TrialResult
    from highwaynet.search.spec import StudySpec
    from highwaynet.search.status import Standing
    from highwaynet.search.study import Place

STORAGE: Any = typer.Option(
    envvar="HIGHWAYNET_STORAGE", help="A PostgreSQL server that several machines share: postgresql://USER:PASSWORD@HOST/DATABASE."
)
JSON: Any = typer.Option("--json", help="Print the answer as JSON.")
STUDY: Any = typer.Argument(help="A study's folder or file, or its name and --storage.", show_default=False)
PLAIN_LINES = 10.0
"""Without a terminal, a line at most every so many seconds."""


class _RunByDefault(TyperGroup):
    """`highway search STUDY.toml` means `highway search run STUDY.toml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, "-h", "--help"}:
            args = ["run", *args]
        return super().parse_args(ctx, args)


search_app = typer.Typer(
    name="search",
    cls=_RunByDefault,
    help="""Find good settings: many runs, on all cores or on many machines.

    Examples:
    highway search examples/studies/tiny-digits.toml;
    highway search --join STUDY --storage URL;
    highway search show STUDY;
    highway search best STUDY > run.toml;
    highway search finals STUDY --epochs 40 > finals.toml""",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@search_app.command("run")
def run_command(
    study: Annotated[str, typer.Argument(help="The study's TOML file; with --join also its name.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="The study's folder on this machine; by default studies/NAME.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, max=1024, help="Processes, with one thread each; by default the cores.")] = None,
    storage: Annotated[str | None, STORAGE] = None,
    join: Annotated[bool, typer.Option("--join", help="Work on a study that is in the storage already.")] = False,
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Run a study, or go on with it; the word run can be left out.

    Every trial is a run directory in STUDY/runs. After Ctrl-C, a crash or a reboot the same command goes on. Settings and values do not
    depend on the number of workers, unless the sampler is tpe or trials are pruned.

    Example: highway search examples/studies/tiny-digits.toml --workers 2
    """
    from highwaynet.search.study import locate

    use_data_root(data_root)
    place = locate(study, storage, out)
    if place.storage.file is None and not join and place.spec is None:
        raise InputError(f"{study}: no such file; to work on a study of this name in the storage, say --join")

    from highwaynet.search.storage import need_optuna

    need_optuna()
    from highwaynet.search.parent import run_study
    from highwaynet.search.study import open_stored, prepare
    from highwaynet.training.interruption import InterruptedRunError

    spec, attributes = prepare(place, join=join)
    count = workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))
    with _Display(spec) as display:
        display.note(_opening(spec, count, place.storage.shown))
        try:
            standings = run_study(spec, place.storage, place.folder, attributes, count, display)
        except InterruptedRunError as error:
            raise error.with_way("the same command") from error
    _show(_collected(*open_stored(place)), place, as_json=as_json)
    failures = [(one.label, index, reason) for one in standings for index, reason in one.failures.items()]
    if failures:
        label, index, reason = failures[0]
        raise HighwayError(f"{len(failures)} of the trials failed again and again, the first is {label} {index}: {reason}")


@search_app.command("show")
def show_command(
    study: Annotated[str, STUDY],
    storage: Annotated[str | None, STORAGE] = None,
    figures: Annotated[Path | None, typer.Option(help="A folder for figures: curves of the ten best, parallel coordinates.")] = None,
    formats: Annotated[str, typer.Option("--format", help="Formats of the figures, with commas: png, svg, pdf.", metavar="NAMES")] = "png",
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Say what a study came to, also while it runs: a table, the best settings, and how much each setting matters.

    Example: highway search show studies/tiny-digits --figures figures
    """
    from highwaynet.search.study import locate, open_stored

    place = locate(study, storage, None)
    if figures is not None:
        from highwaynet.cli.inside import FORMATS, names_in, need_figures

        need_figures()
        chosen = names_in("--format", formats, FORMATS)
        if figures.exists() and not figures.is_dir():
            raise InputError(f"--figures {figures}: this is a file; name a folder")
    result = _collected(*open_stored(place))
    files = _draw(result, figures, chosen) if figures is not None else []
    _show(result, place, as_json=as_json, files=files)


@search_app.command("best")
def best_command(
    study: Annotated[str, STUDY],
    storage: Annotated[str | None, STORAGE] = None,
    configuration: Annotated[str | None, typer.Option(metavar="LABEL", help="One configuration; by default the best of all.")] = None,
    top: Annotated[int | None, typer.Option(min=1, max=10, help="With --to: so many of each configuration.")] = None,
    to: Annotated[Path | None, typer.Option(help="A folder for a run file of the best of each configuration.")] = None,
) -> None:
    """Print the best trial as a run file, which repeats it to the bit.

    Example: highway search best studies/tiny-digits > run.toml && highway train run.toml
    """
    from highwaynet.search.study import locate, open_stored

    spec, store = open_stored(locate(study, storage, None))
    result = _collected(spec, store)
    known = {one.label: one for one in result.configurations}
    if configuration is not None and configuration not in known:
        raise unknown("configuration", configuration, known)

    from highwaynet.search.results import run_file

    chosen = known[configuration] if configuration else result.best()
    if chosen is None or chosen.best is None:
        raise InputError(f"{configuration or study}: no trial is done yet; run the study first")
    if to is None:
        if top is not None:
            raise InputError(f"--top {top}: also name a folder for the files with --to")
        print(run_file(spec, chosen, chosen.best), end="")
        return
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot("create", to, error) from error
    for one in [chosen] if configuration else result.configurations:
        for rank, trial in enumerate(one.top[: top or 1], start=1):
            path = to / (f"{one.label}-{rank:02}.toml" if top else f"{one.label}.toml")
            write_atomically(path, run_file(spec, one, trial))
            console.print(f"run file: {path}", soft_wrap=True)


@search_app.command("finals")
def finals_command(
    study: Annotated[str, STUDY],
    storage: Annotated[str | None, STORAGE] = None,
    top: Annotated[int, typer.Option(min=1, help="So many settings of each configuration.")] = 10,
    epochs: Annotated[int | None, typer.Option(min=1, help="Run each so long; by default as long as before.")] = None,
    name: Annotated[str | None, typer.Option(help="The new study's name; by default NAME-finals.")] = None,
) -> None:
    """Print a study of the best settings of each configuration, to be run longer: what looks good early need not end well.

    Example: highway search finals studies/tiny-digits --top 5 --epochs 20 > finals.toml && highway search finals.toml
    """
    from highwaynet.search.study import locate, open_stored

    spec, store = open_stored(locate(study, storage, None))
    result = _collected(spec, store)

    from highwaynet.search.finals import finals

    chosen = finals(spec, result, top, epochs, name)
    longer = f", {epochs} epochs each" if epochs else ""
    print(f"# The {top} best settings of each configuration of the study {spec.name}{longer}, the best first.\n{chosen.to_toml()}", end="")


def _opening(spec: "StudySpec", workers: int, where: str) -> str:
    from highwaynet.search.configurations import configurations

    count = len(configurations(spec))
    what = f"{count} configuration{'s' if count > 1 else ''} of {spec.trials} trials"
    order = f"; with {_order(spec)} results depend on the order in which trials end" if spec.depends_on_order else ""
    return f"study {spec.name}: {what}, {workers} worker{'s' if workers > 1 else ''}, storage {where}{order}"


def _order(spec: "StudySpec | StudyResult") -> str:
    words = ["sampler tpe"] if spec.sampler == "tpe" else []
    return " and ".join(words + ([f"pruner {spec.pruner}"] if spec.pruner != "none" else []))


class _Display:
    """A table that is drawn anew on a terminal, a line from time to time elsewhere."""

    def __init__(self, spec: "StudySpec") -> None:
        self._spec, self._told, self._said = spec, "", 0.0
        terminal = messages.is_terminal and sys.stderr.isatty()
        self._live = Live(console=messages, auto_refresh=False, transient=True) if terminal else None

    def __enter__(self) -> "_Display":
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def note(self, sentence: str) -> None:
        """Say it at once."""
        _say(sentence)

    def show(self, standings: list["Standing"], workers: int) -> None:
        """How it stands."""
        from highwaynet.search.status import seconds_left

        left = seconds_left(standings, workers)
        if self._live:
            self._live.start()
            self._live.update(self._table(standings, left), refresh=True)
            return
        line = self._line(standings, left)
        now, over = time.monotonic(), all(one.is_over for one in standings)
        if line.partition(";")[0] != self._told and (over or now - self._said > PLAIN_LINES):
            self._told, self._said = line.partition(";")[0], now
            _say(line)

    def _line(self, standings: list["Standing"], left: float | None) -> str:
        total = {name: sum(getattr(one, name) for one in standings) for name in ("done", "running", "pruned", "failed", "trials")}
        counts = (
            f"{total['done']} of {total['trials']} done, {total['running']} running, {total['pruned']} pruned, {total['failed']} failed"
        )
        sign = -1 if self._spec.maximises else 1
        best = min((one for one in standings if one.best is not None), key=lambda one: sign * (one.best or 0.0), default=None)
        found = f"; best {self._spec.objective} {loss_text(best.best or 0.0)} ({best.label} {best.best_index})" if best else ""
        return counts + found + (f"; {_duration(left)} left" if left else "")

    def _table(self, standings: list["Standing"], left: float | None) -> Table:
        table = Table(title=f"{self._line(standings, left)}", title_justify="left", header_style="bold")
        table.add_column("configuration", no_wrap=True)
        for heading in ("done", "running", "pruned", "failed", "best"):
            table.add_column(heading, justify="right", no_wrap=True)
        for one in standings:
            best = "" if one.best is None else f"{loss_text(one.best)} ({one.best_index})"
            table.add_row(one.label, f"{one.done}/{one.trials}", f"{one.running}", f"{one.pruned}", f"{one.failed}", best)
        return table


def _say(line: str) -> None:
    try:
        messages.print(line, soft_wrap=True)
    except BrokenPipeError:  # whoever closed the pipe did not want to end the study
        return


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _collected(spec: "StudySpec", storage: Any) -> "StudyResult":
    from highwaynet.search.results import collect

    try:
        return collect(spec, storage)
    finally:
        storage.engine.dispose()


def _show(result: "StudyResult", place: "Place", *, as_json: bool, files: "list[Path] | None" = None) -> None:
    if as_json:
        print_json(result.model_dump(mode="json") | {"figures": [str(path) for path in files or []]})
        return
    _print_configurations(result)
    rule = f"the share of settings whose lowest training loss is below {result.trained_below}"
    console.print(f"best: {_objective(result)}; trained: {rule}", soft_wrap=True)
    for one in result.configurations:
        if one.best is not None:
            console.print(f"{one.label}: trial {one.best.index}, {_settings(one.best)}", soft_wrap=True)
        if one.importance:
            shares = ", ".join(f"{field.partition('.')[2]} {percent(share)}" for field, share in one.importance.items())
            console.print(f"  what the best tenth depends on (PED-ANOVA): {shares}", soft_wrap=True)
        for index, reason in one.failed.items():
            console.print(f"  trial {index} failed: {reason}", soft_wrap=True)
    if order := _order(result):
        console.print(f"with {order} settings and values depend on the order in which trials ended", soft_wrap=True)
    for path in files or []:
        console.print(f"figure: {path}", soft_wrap=True)
    where = shlex.quote(str(place.folder)) if place.storage.file else f"{place.name} --storage {shlex.quote(place.storage.shown)}"
    console.print(f"next: highway search best {where} > run.toml", soft_wrap=True)


def _objective(result: "StudyResult") -> str:
    return {
        "train-loss": "the lowest training loss over the epochs",
        "validation-loss": "the lowest validation loss over the epochs",
        "validation-accuracy": "the highest validation accuracy over the epochs",
    }[result.objective]


def _print_configurations(result: "StudyResult") -> None:
    """A row for each; what happened nowhere has no column."""
    from highwaynet.search.results import TOP

    known = result.configurations
    counts = {
        "pruned": [one.pruned for one in known],
        "diverged": [one.diverged for one in known],
        "failed": [len(one.failed) for one in known],
    }
    columns = {
        "configuration": [one.label for one in known],
        "done": [f"{one.done}/{one.trials}" for one in known],
        **{name: [f"{number}" for number in numbers] for name, numbers in counts.items() if any(numbers)},
        "trained": ["" if one.trained_share is None else f"{100 * one.trained_share:.0f}\u00a0%" for one in known],
        "best": ["" if one.best is None else loss_text(one.best.value or 0.0) for one in known],
        f"{TOP} best, mean ± std": [
            "" if one.top_mean is None else f"{loss_text(one.top_mean)} ± {loss_text(one.top_std or 0.0)}" for one in known
        ],
    }
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    print_table([(heading, "whole" if heading == "configuration" else "right") for heading in columns], rows)


def _settings(trial: "TrialResult") -> str:
    return ", ".join(f"{field} {value:.4g}" if isinstance(value, float) else f"{field} {value}" for field, value in trial.settings.items())


def _draw(result: "StudyResult", folder: Path, formats: list[str]) -> list[Path]:
    from highwaynet.figures.captions import save_figure
    from highwaynet.figures.search_plot import draw_study

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot("create", folder, error) from error
    files = []
    for name, (figure, caption) in draw_study(result).items():
        for form in formats:
            path = folder / f"{name}.{form}"
            save_figure(figure, path, caption)
            files.append(path)
    return files
