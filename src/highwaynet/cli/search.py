"""`highway search`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from highwaynet.base.errors import HighwayError, InputError, closest, unknown
from highwaynet.base.files import cannot, write_atomically
from highwaynet.cli.data import DATA_ROOT, use_data_root
from highwaynet.cli.output import console, say, this_command, usual_workers
from highwaynet.cli.search_output import StudyDisplay, opening, show_study

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

    from highwaynet.search.results import StudyResult
    from highwaynet.search.spec import StudySpec
    from highwaynet.search.study import Place

STORAGE: Any = typer.Option(
    envvar="HIGHWAYNET_STORAGE", help="A PostgreSQL server that several machines share: postgresql://USER:PASSWORD@HOST/DATABASE."
)
JSON: Any = typer.Option("--json", help="Print the result as JSON.")
STUDY: Any = typer.Argument(help="A study's folder or file, or its name with --storage.", show_default=False)


class _RunByDefault(TyperGroup):
    """`highway search STUDY.toml` means `highway search run STUDY.toml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, "-h", "--help"}:
            if not Path(args[0]).exists() and len(args) > 1 and closest(args[0], self.commands):
                raise unknown("command", args[0], self.commands)
            args = ["run", *args]
        return super().parse_args(ctx, args)


search_app = typer.Typer(
    name="search",
    cls=_RunByDefault,
    help="""Find good settings with many runs, on all cores or on many machines. docs/SEARCH.md describes the file of a study.

    Examples:
    highway search tiny-digits;
    highway search --join STUDY --storage URL;
    highway search show STUDY;
    highway search best STUDY > run.toml;
    highway search finals STUDY --epochs 40 > finals.toml""",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@search_app.command("run")
def run_command(
    study: Annotated[
        str, typer.Argument(help="A study's TOML file, or the name of a built-in study; with --join its name.", show_default=False)
    ],
    out: Annotated[Path | None, typer.Option(help="The study's folder on this machine; by default studies/NAME.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes, with one thread each; by default one for each core.")
    ] = None,
    storage: Annotated[str | None, STORAGE] = None,
    join: Annotated[bool, typer.Option("--join", help="Join a study that is already in the storage.")] = False,
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Start or continue a study; the word run is optional.

    Every trial is a run directory in STUDY/runs. After Ctrl-C, a crash or a reboot, the same command continues. If the file now has more
    trials, it adds them; failed trials are tried again. Results do not depend on the number of workers, unless the sampler is tpe or trials
    are pruned. Built-in studies: tiny-digits (a minute), paper-mnist (that of the paper, hours).

    Example: highway search tiny-digits --workers 2
    """
    from highwaynet.search.study import locate

    use_data_root(data_root)
    place = locate(study, storage, out)
    if place.spec is None and not join:
        place = _begun_or_ready(place)

    from highwaynet.search.storage import need_optuna

    need_optuna()
    from highwaynet.search.parent import run_study
    from highwaynet.search.study import open_stored, prepare
    from highwaynet.training.interruption import InterruptedRunError

    spec, attributes = prepare(place, join=join)
    count = workers or usual_workers()
    with StudyDisplay(spec) as display:
        display.note(opening(spec, count, place.storage.shown))
        display.note(f"starting {count} worker{'s' if count > 1 else ''}; Ctrl-C stops, and the same command continues")
        try:
            standings = run_study(spec, place.storage, place.folder, attributes, count, display)
        except InterruptedRunError as error:
            raise error.with_way(this_command()) from error
    show_study(_collected(place, *open_stored(place)), place, as_json=as_json)
    failures = [(one.label, index, reason) for one in standings for index, reason in one.failures.items()]
    if failures:
        label, index, reason = failures[0]
        told = f"{len(failures)} of the trials failed repeatedly, the first is {label} {index}: {reason}"
        raise HighwayError(f"{told}; the same command tries them again")


@search_app.command("show")
def show_command(
    study: Annotated[str, STUDY],
    storage: Annotated[str | None, STORAGE] = None,
    figures: Annotated[Path | None, typer.Option(help="Folder for figures: curves of the ten best, parallel coordinates.")] = None,
    formats: Annotated[
        str | None,
        typer.Option("--format", help="Formats of the figures, separated by commas: png (the default), svg, pdf.", metavar="NAMES"),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Show the results of a study, also while it runs: a table, the best settings, and the importance of each setting.

    Example: highway search show studies/tiny-digits --figures figures
    """
    from highwaynet.search.study import locate

    place = locate(study, storage, None)
    if figures is None and formats is not None:
        raise InputError(f"--format {formats}: also name a folder for the figures with --figures")
    if figures is not None:
        from highwaynet.cli.asking import FORMATS, names_in, need_figures

        need_figures()
        chosen = names_in("--format", formats or "png", FORMATS)
        if figures.exists() and not figures.is_dir():
            raise InputError(f"--figures {figures}: this is a file; name a folder")
    result = _collected(place, *_stored(place))
    files = _draw(result, figures, chosen) if figures is not None else []
    show_study(result, place, as_json=as_json, files=files)


@search_app.command("best")
def best_command(
    study: Annotated[str, STUDY],
    storage: Annotated[str | None, STORAGE] = None,
    configuration: Annotated[
        str | None, typer.Option(metavar="LABEL", help="A configuration; by default the one with the best trial.")
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, max=10, help="With --to, number of run files for each configuration.")] = None,
    to: Annotated[Path | None, typer.Option(help="Folder for run files of the best trials of each configuration.")] = None,
) -> None:
    """Print the best trial as a run file, which repeats it bit for bit.

    Example: highway search best studies/tiny-digits > run.toml && highway train run.toml
    """
    from highwaynet.search.study import locate

    place = locate(study, storage, None)
    spec, store = _stored(place)
    result = _collected(place, spec, store)
    _note_unfinished(result)
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
    top: Annotated[int, typer.Option(min=1, help="Number of settings of each configuration.")] = 10,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs of each run; by default as many as before.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the new study; by default NAME-finals.")] = None,
) -> None:
    """Print a study of the best settings of each configuration, usually to run them for more epochs.

    Example: highway search finals studies/tiny-digits --top 5 --epochs 20 > finals.toml && highway search finals.toml
    """
    from highwaynet.search.study import locate

    place = locate(study, storage, None)
    spec, store = _stored(place)
    result = _collected(place, spec, store)
    _note_unfinished(result)

    from highwaynet.search.finals import finals

    chosen = finals(spec, result, top, epochs, name)
    longer = f", {epochs} epochs each" if epochs else ""
    print(f"# The {top} best settings of each configuration of the study {spec.name}{longer}, the best first.\n{chosen.to_toml()}", end="")


def _begun_or_ready(place: "Place") -> "Place":
    """Find a study by its name only: one that was started here, or one that comes with the package."""
    from highwaynet.search.ready import ready_names, ready_study

    if place.source in ready_names():
        return replace(place, spec=ready_study(place.source))
    if place.storage.file is None:
        raise InputError(f"{place.source}: no such file; to join a study with this name in the storage, add --join")
    if not place.storage.file.is_file():
        raise InputError(f"{place.source}: no such file, and no built-in study with this name ({', '.join(ready_names())})")
    return place


def _stored(place: "Place") -> "tuple[StudySpec, RDBStorage]":
    """Open an existing study for reading; print a note if its file has changed."""
    from highwaynet.search.study import open_stored

    spec, storage = open_stored(place)
    if place.spec is not None and place.spec.checksum != spec.checksum:
        say(f"note: {place.source} was changed after the study was made; this shows the study as it was made")
    return spec, storage


def _note_unfinished(result: "StudyResult") -> None:
    done, trials = sum(one.done for one in result.configurations), sum(one.trials for one in result.configurations)
    if done and not all(one.is_over for one in result.configurations):
        say(f"note: the study is not finished, {done} of {trials} trials are done")


def _collected(place: "Place", spec: "StudySpec", storage: Any) -> "StudyResult":
    from highwaynet.search.results import collect
    from highwaynet.search.storage import reading

    try:
        with reading(place.storage):
            return collect(spec, storage)
    finally:
        storage.engine.dispose()


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
