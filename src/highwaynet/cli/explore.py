"""`highway explore`."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from highwaynet.base.errors import InputError
from highwaynet.cli.asking import progress_bar
from highwaynet.cli.data import DATA_ROOT, use_data_root
from highwaynet.cli.output import CHECKPOINT, console, print_json
from highwaynet.cli.threads import use_free_threads
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.names import Kept


def explore_command(
    runs: Annotated[list[Path], typer.Argument(help="A run directory, or two on the same data to compare them.", metavar="RUN [RUN]")],
    out: Annotated[Path | None, typer.Option(help="The HTML file to write; by default RUN-explore.html, next to the run.")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    samples: Annotated[
        int | None, typer.Option(help="How many samples of the test data the page holds; by default up to 200.", min=1, max=5000)
    ] = None,
    checkpoint: Annotated[Kept | None, typer.Option(help=CHECKPOINT)] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is not a page of highwaynet.")] = False,
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print path and size of the page as JSON.")] = False,
) -> None:
    """Write a page in which the network can be tried: draw an input, watch the gates, close layers. One HTML file, works offline.

    Example: highway explore runs/fc-highway-50-mnist-seed0 --open

    Example: highway explore runs/demo-plain runs/demo-highway --out compare.html
    """
    if len(runs) > 2:
        raise InputError(f"{len(runs)} runs: a page shows one run or two; write several pages")
    if len(runs) == 2 and runs[0].resolve() == runs[1].resolve():
        raise InputError(f"{runs[1]}: this is the same run twice; name two different runs, or one")
    for path in runs:  # before torch is imported, so that a wrong path is reported at once
        RunDirectory.open(path)
    use_data_root(data_root)
    from highwaynet.web.explore import explore

    use_free_threads()
    with progress_bar(f"page of {' and '.join(map(str, runs))}", "done"):
        page = explore(runs[0], runs[1] if len(runs) > 1 else None, out=out, samples=samples, checkpoint=checkpoint, overwrite=overwrite)
    size = page.stat().st_size
    if as_json:
        print_json({"page": str(page), "bytes": size, "runs": [str(path) for path in runs]})
    else:
        console.print(f"page: {page.resolve()} ({size / 1e6:.1f} MB, works offline)", soft_wrap=True)
    if show:
        webbrowser.open(page.resolve().as_uri())
