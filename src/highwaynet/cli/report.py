"""`highway report`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from highwaynet.analysis.questions import DELETIONS, DEPTH, FLOW, GATES, LESIONS, MISTAKES, PAIRS, REFINEMENT, ROUTING, Question
from highwaynet.base.errors import HighwayError, InputError
from highwaynet.base.files import write_atomically
from highwaynet.base.text import loss_text
from highwaynet.cli.asking import progress_bar
from highwaynet.cli.data import DATA_ROOT, use_data_root
from highwaynet.cli.evaluate import held_out
from highwaynet.cli.output import CHECKPOINT, console, print_json, print_table
from highwaynet.cli.threads import use_free_threads
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.names import Kept

if TYPE_CHECKING:
    from highwaynet.analysis.collect import Study
    from highwaynet.figures.cards import Found
    from highwaynet.figures.report import ReportedRun

ORDER: tuple[Question[Any], ...] = (MISTAKES, GATES, ROUTING, LESIONS, PAIRS, DELETIONS, DEPTH, FLOW, REFINEMENT)
"""The questions in the order of the report."""
SLOW: dict[Question[Any], str] = {
    PAIRS: "pairs and spans of layers",
    DELETIONS: "random deletions and shuffles",
    DEPTH: "removal one by one",
}
"""The questions that --quick leaves out, in words."""
MOST_FOR_PAIRS = 60
"""With more layers than this, pairs are omitted, because their number grows with the square."""

MOST_FOR_DEPTH = 120
"""The same for removing layers one by one, whose time grows with the cube."""


def report_command(
    runs: Annotated[list[Path], typer.Argument(help="One or more run directories.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    note: Annotated[str | None, typer.Option(help="A note for the top of the page, for instance how the settings were found.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what takes longest: pairs, deletions and depth.")] = False,
    checkpoint: Annotated[Kept | None, typer.Option(help=CHECKPOINT)] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is not a report.")] = False,
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Compare runs and look inside: one HTML file without external resources.

    Example: highway report runs/a runs/b --out report.html
    """
    for path in runs:  # before torch and matplotlib are imported, so that a wrong path is reported at once
        RunDirectory.open(path)
    try:
        from highwaynet.figures.report import is_own_report, render_report
    except ModuleNotFoundError as error:
        raise HighwayError(f"the report needs {error.name}: install it with `pip install 'highwaynet[figures]'`") from error

    if out.is_dir():
        raise InputError(f"--out {out}: this is a folder; name the HTML file to write")
    if out.exists() and not overwrite and not is_own_report(out):
        raise InputError(f"--out {out}: the file exists and is not a report; name another file, or replace it with --overwrite")
    if out.exists() and not out.is_file():
        raise InputError(f"--out {out}: this is not a regular file; name another file")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: the folder {out.parent} does not exist; create it, or name another")
    if not os.access(out.parent, os.W_OK):  # before anything is computed
        raise InputError(f"cannot write {out}: permission denied")
    use_data_root(data_root)
    use_free_threads()
    reported = [read_run(path, quick=quick, checkpoint=checkpoint) for path in runs]
    with progress_bar("drawing the figures", "runs"):
        page = render_report(reported, note, _explore_pages(runs, out), checkpoint)
    write_atomically(out, page)
    _print_results(reported, out, as_json=as_json)


def _explore_pages(runs: list[Path], out: Path) -> list[tuple[str, str]]:
    """Return names and relative addresses of the explore pages that show these networks as they are now."""
    from highwaynet.web.explore import pages_about

    found = dict.fromkeys(page for path in runs for page in pages_about(RunDirectory.open(path), runs))
    return [(page.name, quote(Path(os.path.relpath(page, out.resolve().parent)).as_posix())) for page in found]


def read_run(path: Path, *, quick: bool = False, checkpoint: Kept | None = None) -> "ReportedRun":
    """Collect what a report shows about a run; with `quick`, without the questions that take longest. `checkpoint` chooses the weights."""
    from highwaynet.analysis.collect import Study
    from highwaynet.figures.report import ReportedRun

    run = RunDirectory.open(path)
    history, seconds, environment = run.read_history(), run.read_seconds(), run.read_environment()
    study = Study(run, checkpoint)
    held_out(study)
    with progress_bar(f"evaluation of {path}", "done"):
        evaluation = study.evaluation()
    asked = _questions(study)
    left_out = [text for question, text in SLOW.items() if quick and question in asked]
    return ReportedRun(
        path=str(path),
        label=study.title,
        spec=study.spec,
        data=run.load_preparation().record,
        history=history,
        seconds=seconds,
        environment=environment,
        evaluation=evaluation,
        inside=_look_inside(study, [question for question in asked if not (quick and question in SLOW)]),
        left_out=tuple(left_out),
    )


def _questions(study: "Study") -> list[Question[Any]]:
    """Return the questions that apply to the network."""
    closable = study.closable
    enough = {
        "pairs": 1 < closable <= MOST_FOR_PAIRS,
        "deletions": closable > 1,
        "depth": 1 < closable <= MOST_FOR_DEPTH,
        "refinement": closable > 1,
    }
    return [question for question in ORDER if enough.get(question.name, True) and not study.reason_against(question.name)]


def _look_inside(study: "Study", questions: list[Question[Any]]) -> "Found":
    """Answer these questions."""
    found = {}
    for question in questions:
        unit = "samples" if question.command == "inspect" else "evaluations"
        parts = dict.fromkeys(map(study.there, question.reported))
        with progress_bar(f"{question.name} of {study.run.path}", unit) as progress:
            found[question.name] = [study.ask(question, part, progress=progress) for part in parts]
    return found


def _as_json(run: "ReportedRun") -> dict[str, Any]:
    inside = {name: records if len(records) > 1 else records[0] for name, records in run.inside.items()}
    return {
        "run": run.path,
        **run.evaluation.model_dump(exclude_none=True),
        "seconds": run.seconds,
        "left_out": run.left_out,
        "inside": inside,
    }


def _print_results(runs: list["ReportedRun"], out: Path, *, as_json: bool) -> None:
    from highwaynet.figures.report import distinct_labels

    if as_json:
        rows = [_as_json(run) for run in runs]
        print_json({"report": str(out), "runs": rows})
        return
    part = runs[0].held_out[0] if len({run.held_out[0] for run in runs}) == 1 else "held out"
    headings = ["network", "parameters", "train loss", f"{part} loss", part, "seconds"]
    print_table(
        [(heading, "left" if heading == "network" else "right") for heading in headings],
        [
            [
                label,
                f"{run.evaluation.parameters:,}",
                loss_text(run.evaluation.train.loss),
                loss_text(run.held_out[1].loss),
                run.held_out[1].headline,
                f"{run.seconds:.1f}",
            ]
            for label, run in zip(distinct_labels(runs), runs, strict=True)
        ],
    )
    console.print(f"report: {out.resolve()}", soft_wrap=True)
