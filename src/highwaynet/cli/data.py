"""`highway data`."""

from typing import Annotated

import typer

from highwaynet.cli.output import print_json, print_table
from highwaynet.data.catalogue import CATALOGUE

data_app = typer.Typer(name="data", help="The data sets.", no_args_is_help=True, rich_markup_mode=None)


@data_app.callback()
def _data() -> None:
    """Keep `list` a command of its own while it is the only one."""


@data_app.command("list")
def list_command(as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False) -> None:
    """List the data sets.

    Example: highway data list
    """
    if as_json:
        sets = [
            {
                "name": name,
                "summary": known.summary,
                "task": known.task,
                "input_shape": list(known.input_shape),
                "classes": len(known.class_names),
                "train": known.train,
                "test": known.test,
            }
            for name, known in CATALOGUE.items()
        ]
        print_json({"data": sets})
        return
    columns = [
        ("name", "left"),
        ("input", "left"),
        ("classes", "right"),
        ("train", "right"),
        ("test", "right"),
        ("what", "left"),
    ]
    print_table(
        columns,
        [
            [
                name,
                "×".join(map(str, known.input_shape)),
                str(len(known.class_names)),
                f"{known.train:,}",
                f"{known.test:,}",
                known.summary,
            ]
            for name, known in CATALOGUE.items()
        ],
    )
