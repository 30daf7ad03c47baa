"""`highway data`."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from highwaynet.base.errors import HighwayError, unknown
from highwaynet.base.text import quantity_text
from highwaynet.cli.commands import Commands
from highwaynet.cli.flags import texts_of, with_flags
from highwaynet.cli.output import console, messages, print_json, print_table
from highwaynet.data.catalogue import CATALOGUE

if TYPE_CHECKING:
    from highwaynet.data.column_report import ColumnReport

data_app = typer.Typer(name="data", cls=Commands, help="The data sets.", no_args_is_help=True, rich_markup_mode=None)

DATA_ROOT: Any = typer.Option(help="Folder of the built-in data sets; by default $HIGHWAYNET_DATA, else the user's cache folder.")
JSON: Any = typer.Option("--json", help="Print the result as JSON.")
DATA_FLAGS = ("data.target", "data.task", "data.header", "data.ignore", "data.use", "data.resize", "data.colour", "data.skip_bad")
"""Fields about user data; several commands have flags for them."""


def use_data_root(root: Path | None) -> None:
    """Set the folder of the built-in data sets for this process."""
    if root is not None:
        os.environ["HIGHWAYNET_DATA"] = str(root)


@data_app.command("list")
def list_command(as_json: Annotated[bool, JSON] = False) -> None:
    """List the built-in data sets.

    Example: highway data list
    """
    if as_json:
        sets = [
            {
                "name": name,
                "summary": known.summary,
                "input_shape": list(known.input_shape),
                "classes": known.classes,
                "train": known.train,
                "test": known.test,
            }
            for name, known in CATALOGUE.items()
        ]
        print_json({"data": sets})
        return
    columns = [("name", "left"), ("input", "left"), ("classes", "right"), ("train", "right"), ("test", "right"), ("what", "left")]
    rows = [
        [name, "×".join(map(str, known.input_shape)), f"{known.classes}", f"{known.train:,}", f"{known.test:,}", known.summary]
        for name, known in CATALOGUE.items()
    ]
    print_table(columns, rows)


@data_app.command("fetch")
def fetch_command(
    name: Annotated[str, typer.Argument(help="A built-in data set.")],
    data_root: Annotated[Path | None, DATA_ROOT] = None,
) -> None:
    """Download a built-in data set, check it, and unpack it.

    Example: highway data fetch mnist

    An interrupted download continues where it stopped.
    """
    from highwaynet.data.fetch import data_root as find_root
    from highwaynet.data.fetch import fetch

    _check_name(name)
    root = find_root(data_root)
    if name == "digits":
        console.print("digits comes with the package: there is nothing to fetch")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=messages, disable=not messages.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def show(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
            bar.update(tasks[file], completed=done, total=total)

        files = fetch(name, root, show)
    for file in files:
        console.print(f"{file}", soft_wrap=True)


@data_app.command("verify")
def verify_command(
    name: Annotated[str, typer.Argument(help="A built-in data set.")],
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Check the files of a built-in data set against their checksums.

    Example: highway data verify cifar-10
    """
    from highwaynet.data.fetch import data_root as find_root
    from highwaynet.data.fetch import verify

    _check_name(name)
    root = find_root(data_root)
    states = [] if name == "digits" else verify(name, root)
    if as_json:
        print_json({"name": name, "root": str(root), "files": dict(states)})
    elif states:
        print_table([("file", "left"), ("state", "left")], [[file, state] for file, state in states], title=f"{name} in {root}")
    else:
        console.print("digits comes with the package: there is nothing to verify")
    if bad := [file for file, state in states if state != "ok"]:
        raise HighwayError(
            f"{name}: {len(bad)} of {len(states)} files in {root} are missing or damaged; get them with `highway data fetch {name}`"
        )


@data_app.command("describe")
@with_flags(*DATA_FLAGS)
def describe_command(
    name: Annotated[str, typer.Argument(help="A built-in data set, or the path of your own data.")],
    *,
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Set any field of [data], for instance resize=[32,32].")
    ] = None,
    as_json: Annotated[bool, JSON] = False,
    **flags: Any,
) -> None:
    """Describe data: samples, classes, the columns of a table, preprocessing, and how a run would divide them.

    Example: highway data describe flowers/

    Example: highway data describe prices.csv --target price
    """
    use_data_root(data_root)
    from highwaynet.cli.overrides import gather_spec
    from highwaynet.data.reading import describe_data

    spec = gather_spec(None, {"data.name": name} | texts_of(flags), [f"data.{text}" for text in settings or []]).data
    record, counts, table = describe_data(spec)
    if as_json:
        columns_there = {"columns": [asdict(column) for column in table]} if table else {}
        print_json(record.model_dump(exclude={"encoder", "column_names"}) | {"classes": counts} | columns_there)
        return
    console.print(f"found {record.found}", soft_wrap=True)
    console.print(f"a sample is {'×'.join(map(str, record.input_shape))}; preprocessing: {', '.join(record.preprocessing) or 'none'}")
    console.print(f"{record.train:,} samples to train on, {record.validation:,} for validation, {record.test:,} for testing")
    for line in record.notes:
        console.print(line, soft_wrap=True)
    if table:
        _print_columns(table)
    if counts:
        columns = [("class", "left"), *((part, "right") for part in counts)]
        print_table(columns, [[name, *(f"{counts[part][name]:,}" for part in counts)] for name in record.class_names])
    else:
        console.print(
            f"target {record.target_name!r}: mean {quantity_text(record.target_mean)}, "
            f"standard deviation {quantity_text(record.target_std)} (training samples)"
        )


def _print_columns(columns: list["ColumnReport"]) -> None:
    headings = [("column", "left"), ("kind", "left"), ("gaps", "right"), ("distinct", "right"), ("becomes", "left")]
    print_table(headings, [[found.name, found.kind, f"{found.gaps:,}", f"{found.distinct:,}", found.becomes] for found in columns])


def _check_name(name: str) -> None:
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
