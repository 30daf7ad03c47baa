"""The command `highway`, and how every command ends: 0 fine, 2 wrong input, 130 or 143 interrupted, 1 anything else."""

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
from highwaynet.cli.bench import bench_command
from highwaynet.cli.data import data_app
from highwaynet.cli.evaluate import evaluate_command
from highwaynet.cli.inspect import inspect_command
from highwaynet.cli.lesion import lesion_command
from highwaynet.cli.networks import networks_command
from highwaynet.cli.output import console, messages
from highwaynet.cli.predict import predict_command
from highwaynet.cli.report import report_command
from highwaynet.cli.reproduce import reproduce_command
from highwaynet.cli.runs import runs_command
from highwaynet.cli.search import search_app
from highwaynet.cli.train import train_command
from highwaynet.kernels.native import active_kernel

GRACE = 3.0
"""Seconds in which the first process can say why it ends; torchrun ends all of them when one has ended."""

app = typer.Typer(
    name="highway",
    help="Very deep gated networks: train them, look inside, compare.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("train")(train_command)
app.command("evaluate")(evaluate_command)
app.command("predict")(predict_command)
app.command("networks")(networks_command)
app.add_typer(data_app)
app.command("inspect")(inspect_command)
app.command("lesion")(lesion_command)
app.command("report")(report_command)
app.command("runs")(runs_command)
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
            stream.reconfigure(errors="backslashreplace")  # a narrow encoding is no reason to stop
    try:
        code = app(standalone_mode=False) or 0
        if code == 130:  # what the command-line library makes of Ctrl-C
            _end("interrupted", code)
    except (KeyboardInterrupt, typer.Abort):
        code = _end("interrupted", 130)
    except HighwayError as error:
        sentence = f"process {launched_rank()}: {error}" if error.own else str(error)
        code = error.exit_code if error.told else _end(sentence, error.exit_code, own=error.own)
    except BrokenPipeError:  # the reader of a pipe left; nothing to say, and nobody to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:  # a path that cannot be used, wherever it was tried
        code = _end(str(cannot("use", Path(str(error.filename or "a file")), error)), 2)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            console.print(str(error), soft_wrap=True)
            code = 0
        elif hasattr(error, "format_message"):  # how the command-line library reports a wrong option
            code = _end(error.format_message(), 2)
        elif os.environ.get("HIGHWAYNET_DEBUG"):
            raise
        else:
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            code = _end(f"an error in highwaynet itself: {what} (set HIGHWAYNET_DEBUG=1 to see where, and please report it)", 1)
    _leave(code)


def _leave(code: int) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an impatient Ctrl-C shall not interrupt what Python does at its end
    if launched():  # gloo's threads may live on, and abort the process when they meet a Python that is being taken down
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _end(sentence: str, code: int, *, own: bool = False) -> int:
    """Say why the program ends; of several processes the first one does, unless another met an error of its own."""
    if launched_rank() and not own:
        time.sleep(GRACE)
        return code
    try:
        messages.print(f"highway: {sentence}", soft_wrap=True)
    except OSError:  # nobody listens; nor shall anything be written when the program ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    return code
