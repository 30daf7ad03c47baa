"""`highway export`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from highwaynet.cli.output import CHECKPOINT, console, print_json
from highwaynet.exporting.names import Target
from highwaynet.exporting.places import check_place, check_replaced, default_place, form_of, is_export
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.names import Kept

SHOWN = 12
"""Largest number of inputs that are listed; --json lists all."""


def export_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    to: Annotated[
        Target | None,
        typer.Option(
            help="onnx (for ONNX Runtime), torch (a torch.export program), or safetensors (weights, and the plan as JSON); "
            "by default what FILE ends in (.onnx, .pt2, .safetensors), or else onnx."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The file; by default next to the run and named after it.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is not an earlier export.")] = False,
    checkpoint: Annotated[Kept | None, typer.Option(help=CHECKPOINT)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Export a trained network with its preprocessing as one file: raw samples in, answers out.

    The file's answers are compared with those of the network first; a file that differs is not written. An earlier export is replaced.

    Example: highway export runs/flowers --to onnx --out flowers.onnx
    """
    opened = RunDirectory.open(run)  # before torch is imported, so that a wrong path is reported at once
    if out is not None:
        check_place(out)
    to = form_of(out, to)
    place = check_place(out or default_place(run, to))
    data = opened.read_spec().data.own_path
    check_replaced(place, f"an earlier export to {to}", partial(is_export, to=to), data=data, overwrite=overwrite)
    from highwaynet.exporting.export import export

    exported = export(run, out, to, checkpoint=checkpoint)
    if as_json:
        print_json({"path": str(exported.path), "to": to, "bytes": exported.size, "difference": exported.difference} | exported.about)
        return
    console.print(f"{exported.path}: {exported.size / 1e6:.2f} MB, {to}", soft_wrap=True)
    inputs = list(exported.about.get("inputs", {}).items())
    for name, what in inputs[:SHOWN]:
        console.print(f"  input {name}: {what}", soft_wrap=True)
    if len(inputs) > SHOWN:
        console.print(f"  and {len(inputs) - SHOWN} inputs more (--json lists all)")
    for name, what in exported.about.get("outputs", {}).items():
        console.print(f"  output {name}: {what}", soft_wrap=True)
    console.print(f"checked: its answers differ from those of the network by at most {exported.difference:.1g}", soft_wrap=True)
