"""The command `highway` and its exit codes: 0 success, 2 wrong input, 130 or 143 interrupted, 1 any other error."""

import io
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from highwaynet import __version__
from highwaynet.base.errors import HighwayError
from highwaynet.base.files import cannot
from highwaynet.base.launch import launched, launched_rank
from highwaynet.base.text import shortened, visible
from highwaynet.cli.bench import bench_command
from highwaynet.cli.commands import Commands
from highwaynet.cli.data import data_app
from highwaynet.cli.evaluate import evaluate_command
from highwaynet.cli.explore import explore_command
from highwaynet.cli.export import export_command
from highwaynet.cli.inspect import inspect_command
from highwaynet.cli.lesion import lesion_command
from highwaynet.cli.networks import networks_command
from highwaynet.cli.output import console, messages
from highwaynet.cli.predict import predict_command
from highwaynet.cli.report import report_command
from highwaynet.cli.reproduce import reproduce_command
from highwaynet.cli.runs import runs_command
from highwaynet.cli.search import search_app
from highwaynet.cli.shrink import shrink_command
from highwaynet.cli.train import train_command
from highwaynet.cli.verify import verify_command
from highwaynet.kernels.native import active_kernel

GRACE = 3.0
"""Seconds that other processes wait, so that the first can report the error; torchrun ends all when one has ended."""

LONGEST = 1200
"""Characters of an error; a damaged file can have names and values of any length."""

app = typer.Typer(
    name="highway",
    cls=Commands,
    help="Train very deep gated networks, analyse and compare them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("train")(train_command)
app.command("evaluate")(evaluate_command)
app.command("predict")(predict_command)
app.command("export")(export_command)
app.command("networks")(networks_command)
app.add_typer(data_app)
app.command("inspect")(inspect_command)
app.command("lesion")(lesion_command)
app.command("shrink")(shrink_command)
app.command("report")(report_command)
app.command("explore")(explore_command)
app.command("runs")(runs_command)
app.command("verify")(verify_command)
app.add_typer(search_app)
app.command("reproduce")(reproduce_command)
app.command("bench")(bench_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"highwaynet {__version__} (kernel: {active_kernel()})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; no traceback reaches the user unless HIGHWAYNET_DEBUG is set."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # characters that the encoding lacks must not raise an error
    try:
        code = app(standalone_mode=False) or 0
        if code == 130:  # the code that typer returns after Ctrl-C
            _end("interrupted", code)
    except (KeyboardInterrupt, typer.Abort):
        code = _end("interrupted", 130)
    except HighwayError as error:
        sentence = f"process {launched_rank()}: {error}" if error.own else str(error)
        code = error.exit_code if error.told else _end(sentence, error.exit_code, own=error.own)
    except BrokenPipeError:  # the reader of the pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:  # a path that cannot be used
        code = _end(str(cannot("use", Path(str(error.filename or "a file")), error)), 2)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            console.print(str(error), soft_wrap=True)
            code = 0
        elif hasattr(error, "format_message"):  # an error of typer about a wrong option
            code = _end(error.format_message(), 2)
        elif os.environ.get("HIGHWAYNET_DEBUG"):
            raise
        else:
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            code = _end(f"an error in highwaynet itself: {what} (set HIGHWAYNET_DEBUG=1 for a traceback, and please report it)", 1)
    _leave(code)


def _leave(code: int) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C must not interrupt Python's shutdown
    if launched():  # threads of gloo may still run, and abort the process during Python's shutdown
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _end(sentence: str, code: int, *, own: bool = False) -> int:
    """Print why the program ends. Of several processes only the first does, unless the error is another process's own."""
    if launched_rank() and not own:
        time.sleep(GRACE)
        return code
    try:
        messages.print(f"highway: {shortened(visible(sentence), LONGEST)}", soft_wrap=True)
    except OSError:  # stderr is closed; write nothing more when the program ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    return code
