"""`highway predict`."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from highwaynet.base.errors import InputError
from highwaynet.base.text import percent
from highwaynet.cli.output import CHECKPOINT, print_json, print_table
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.names import Kept

SHOWN = 40
"""Largest number of rows of the table; --csv and --json print all."""


def predict_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    inputs: Annotated[list[Path], typer.Argument(help="Images or folders of images, .npy or .npz arrays, or tables.")],
    checkpoint: Annotated[Kept | None, typer.Option(help=CHECKPOINT)] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Columns of a table to carry over to the output, for instance id,name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all predictions as JSON, with all probabilities.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all predictions as CSV, with all probabilities.")] = False,
) -> None:
    """Predict classes or numbers for new files with a trained network.

    Example: highway predict runs/flowers new/*.jpg --csv > answers.csv

    Example: highway predict runs/prices new.csv --keep id
    """
    if as_json and as_csv:
        raise InputError("--json and --csv: choose one of them")
    for path in inputs:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
    RunDirectory.open(run)  # before torch is imported, so that a wrong path is reported at once
    from highwaynet.data.formats import read_new_inputs
    from highwaynet.runs.model import load

    model = load(run, checkpoint)
    answers: list[dict[str, Any]] = []
    for names, raw in read_new_inputs(inputs, model.data):
        rows = [{"input": name} | kept for name, kept in zip(names, _kept(keep, raw, len(names)), strict=True)]
        if model.data.task == "regression":
            answers += [row | {"prediction": value} for row, value in zip(rows, model.predict(raw).tolist(), strict=True)]
            continue
        for row, shares in zip(rows, model.predict_proba(raw).tolist(), strict=True):
            best = max(range(len(shares)), key=shares.__getitem__)
            by_class = dict(zip(model.data.class_names, shares, strict=True))
            answers.append(row | {"class": model.data.class_names[best], "probability": shares[best], "probabilities": by_class})
    if as_json:
        print_json({"run": str(run), "task": model.data.task, "target": model.data.target_name, "predictions": answers})
    elif as_csv:
        _print_csv(answers)
    else:
        _print_answers(answers, model.data.target_name)


def _kept(keep: str | None, raw: Any, count: int) -> list[dict[str, Any]]:
    """Return for each sample the cells to carry over, as texts by column; None for gaps."""
    if keep is None:
        return [{}] * count
    from highwaynet.data.table_files import Table

    if not isinstance(raw, Table):
        raise InputError(f"--keep {keep}: only tables have columns; leave it out")
    names = list(dict.fromkeys(name.strip() for name in keep.split(",")))
    columns = [raw.column(name).written() for name in names]
    return [{"kept": dict(zip(names, cells, strict=True))} for cells in zip(*columns, strict=True)]


def _print_csv(answers: list[dict[str, Any]]) -> None:
    rows = []
    for answer in answers:
        shares, kept = answer.pop("probabilities", {}), answer.pop("kept", {})
        own = answer | {f"probability of {name}": share for name, share in shares.items()}
        if same := set(kept) & set(own):
            raise InputError(f"--keep {min(same)}: the CSV has a column of this name; rename yours, or print --json")
        rows.append({"input": own.pop("input")} | kept | own)
    writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _print_answers(answers: list[dict[str, Any]], target: str) -> None:
    kept = list(answers[0].get("kept", ()))
    columns = [("input", "left"), *((name, "left") for name in kept)]
    rows = [[answer["input"], *(answer["kept"][name] or "" for name in kept)] for answer in answers[:SHOWN]]
    if "class" in answers[0]:
        columns += [("class", "left"), ("probability", "right")]
        found = [[answer["class"], percent(answer["probability"])] for answer in answers[:SHOWN]]
    else:
        columns += [(target, "right")]
        found = [[f"{answer['prediction']:.6g}"] for answer in answers[:SHOWN]]
    more = f"the first {SHOWN} of {len(answers):,}; --csv or --json prints all" if len(answers) > SHOWN else None
    print_table(columns, [before + after for before, after in zip(rows, found, strict=True)], title=more)
