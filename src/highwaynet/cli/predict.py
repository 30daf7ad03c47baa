"""`highway predict`."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from highwaynet.base.errors import InputError
from highwaynet.base.text import percent
from highwaynet.cli.output import CHECKPOINT, print_json, print_table
from highwaynet.runs.records import Kept

SHOWN = 40
"""Rows of the table on a terminal."""


def predict_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    inputs: Annotated[list[Path], typer.Argument(help="Images or folders of images, .npy or .npz arrays, or tables.")],
    checkpoint: Annotated[Kept | None, typer.Option(help=CHECKPOINT)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all answers as JSON, with all probabilities.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all answers as CSV, with all probabilities.")] = False,
) -> None:
    """Ask a trained network about new files.

    Example: highway predict runs/flowers new/*.jpg --csv > answers.csv
    """
    if as_json and as_csv:
        raise InputError("--json and --csv: choose one of them")
    for path in inputs:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
    from highwaynet.data.formats import read_new_inputs
    from highwaynet.runs.model import load

    model = load(run, checkpoint)
    answers: list[dict[str, Any]] = []
    for names, raw in read_new_inputs(inputs, model.data):
        if model.data.task == "regression":
            answers += [{"input": name, "prediction": value} for name, value in zip(names, model.predict(raw).tolist(), strict=True)]
            continue
        for name, shares in zip(names, model.predict_proba(raw).tolist(), strict=True):
            best = max(range(len(shares)), key=shares.__getitem__)
            by_class = dict(zip(model.data.class_names, shares, strict=True))
            answers.append({"input": name, "class": model.data.class_names[best], "probability": shares[best], "probabilities": by_class})
    if as_json:
        print_json({"run": str(run), "task": model.data.task, "target": model.data.target_name, "predictions": answers})
    elif as_csv:
        _print_csv(answers)
    else:
        _print_answers(answers, model.data.target_name)


def _print_csv(answers: list[dict[str, Any]]) -> None:
    rows = []
    for answer in answers:
        shares = answer.pop("probabilities", {})
        rows.append(answer | {f"probability of {name}": share for name, share in shares.items()})
    writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _print_answers(answers: list[dict[str, Any]], target: str) -> None:
    if "class" in answers[0]:
        columns = [("input", "left"), ("class", "left"), ("probability", "right")]
        rows = [[answer["input"], answer["class"], percent(answer["probability"])] for answer in answers[:SHOWN]]
    else:
        columns = [("input", "left"), (target, "right")]
        rows = [[answer["input"], f"{answer['prediction']:.6g}"] for answer in answers[:SHOWN]]
    more = f"the first {SHOWN} of {len(answers):,}; --csv or --json prints all" if len(answers) > SHOWN else None
    print_table(columns, rows, title=more)
