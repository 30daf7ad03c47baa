"""`highway predict`."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from highwaynet.base.errors import InputError
from highwaynet.base.text import percent
from highwaynet.cli.output import CHECKPOINT, note, plain_lines, print_table
from highwaynet.cli.predictions import FORMS, Answered, FileForm, is_own_output, rows_of, writer_for
from highwaynet.exporting.places import check_place, check_replaced
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.names import Kept

if TYPE_CHECKING:
    from highwaynet.runs.model import TrainedModel

SHOWN = 40
"""Largest number of rows of the table; --out, --csv and --json give all."""
TARGETS = 8
"""Largest number of targets in the table."""
NAMED = 20
"""Largest number of skipped samples that are named; all are counted."""


def predict_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    inputs: Annotated[
        list[Path], typer.Argument(help="Images or folders of images, .npy or .npz arrays, tables, or lists (.txt) of such files.")
    ],
    checkpoint: Annotated[Kept | None, typer.Option(help=CHECKPOINT)] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Columns of a table to carry over to the output, for instance id,name.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all predictions to a file: .csv, .json, .jsonl (one per line) or .parquet."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is not an earlier output of predict.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out rows and images that cannot be read, and name them, instead of stopping.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all predictions as JSON, with all probabilities.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all predictions as CSV, with all probabilities.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="In CSV for programs: no apostrophe before texts that a spreadsheet takes for formulas.")
    ] = False,
) -> None:
    """Predict classes or numbers for new files with a trained network. Files may be larger than memory.

    Example: highway predict runs/flowers new/*.jpg --csv > answers.csv

    Example: highway predict runs/prices new.csv --keep id --out answers.parquet --skip-bad
    """
    form = _form(out, as_json=as_json, as_csv=as_csv)
    if raw and form != "csv":
        raise InputError("--raw: only texts in CSV are changed; leave it out, or add --csv")
    if overwrite and out is None:
        raise InputError("--overwrite: there is no file to replace; leave it out, or add --out")
    for path in inputs:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
        if out is not None and out.exists() and out.samefile(path):
            raise InputError(f"--out {out}: this is also the input; name another file")
    opened = RunDirectory.open(run)  # before torch is imported, so that a wrong path is reported at once
    if out is not None:
        check_replaced(out, "an output of predict", is_own_output, data=opened.read_spec().data.own_path, overwrite=overwrite)
    columns = list(dict.fromkeys(name.strip() for name in keep.split(","))) if keep is not None else []
    from highwaynet.runs.model import load

    model = load(run, checkpoint)
    targets = model.data.several_targets
    done, skipped, first = 0, 0, list[Answered]()
    with ExitStack() as stack:
        about: dict[str, Any] = {"run": str(run), "task": model.data.task, "target": model.data.target_name}
        about |= {"targets": targets} if targets else {}
        write = stack.enter_context(writer_for(form, out, about, raw=raw)) if form is not None else None
        for piece in model.stream(inputs, keep=columns, skip_bad=skip_bad):
            rows = rows_of(piece, model.data.class_names, targets)
            if write is not None:
                write(rows)
            elif len(first) < SHOWN:
                first += rows[: SHOWN - len(first)]
            done += len(rows)
            _tell_skipped(piece.skipped, skipped)
            skipped += piece.skipped_count
            plain_lines.tell(f"{done:,} samples predicted")
        if not done:
            raise InputError(f"none of the {skipped:,} samples could be read: nothing was predicted")
    _conclude(model, first, done, skipped, out)


def _form(out: Path | None, *, as_json: bool, as_csv: bool) -> FileForm | None:
    """Return the form of the output; None for a table of the first answers on the screen."""
    chosen = [name for name, given in (("--json", as_json), ("--csv", as_csv), ("--out", out is not None)) if given]
    if len(chosen) > 1:
        raise InputError(f"{chosen[0]} and {chosen[1]}: choose one of them")
    if out is None:
        return "json" if as_json else "csv" if as_csv else None
    if out.suffix.lower() not in FORMS:
        raise InputError(f"--out {out}: the name should end in {', '.join(FORMS)}")
    check_place(out)
    return FORMS[out.suffix.lower()]


def _tell_skipped(sentences: list[str], before: int) -> None:
    for sentence in sentences[: max(0, NAMED - before)]:
        note(f"skipped: {sentence}")
    if before <= NAMED < before + len(sentences):
        note("skipped: and more, which are counted only")


def _conclude(model: "TrainedModel", first: list[Answered], done: int, skipped: int, out: Path | None) -> None:
    """Show the first answers, unless they went elsewhere, and say what was done."""
    if first:
        _print_answers(first, done, model.data.target_name)
    if out is not None:
        note(f"{out}: {done:,} predictions")
    if skipped:
        note(f"skipped {skipped:,} of {done + skipped:,} samples, which cannot be read")


def _print_answers(answers: list[Answered], done: int, target: str) -> None:
    kept = list(answers[0].kept)
    columns = [("input", "left"), *((name, "left") for name in kept)]
    rows = [[answer.name, *(answer.kept[name] or "" for name in kept)] for answer in answers]
    more = f"the first {SHOWN} of {done:,}; --out, --csv or --json gives all" if done > SHOWN else None
    if answers[0].shares is not None:
        columns += [("class", "left"), ("probability", "right")]
        found = [[str(answer.best), percent(answer.own_cells()["probability"])] for answer in answers]
    else:
        numbers = [answer.value if isinstance(answer.value, dict) else {target: answer.value} for answer in answers]
        shown = list(numbers[0])[:TARGETS]
        columns += [(name, "right") for name in shown]
        found = [[f"{own[name]:.6g}" for name in shown] for own in numbers]
        if len(numbers[0]) > TARGETS:
            more = f"the first {TARGETS} of {len(numbers[0]):,} targets; --out, --csv or --json gives all"
    print_table(columns, [before + after for before, after in zip(rows, found, strict=True)], title=more)
