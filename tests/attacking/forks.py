"""Runs commands, or functions, in forks of this process, with limits on time and memory, and measures both.

This process imports torch once. A fork of it starts within milliseconds, and what it does to itself ends with it.
"""

import functools
import gc
import importlib
import os
import pkgutil
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LONGEST = 20.0
"""Seconds of computing after which a process hangs."""
PATIENCE = 6 * LONGEST
"""Seconds after which a process hangs whatever it does, also on a busy machine."""
MOST_MEMORY = 2**30
"""Bytes that a damaged input may need beyond what the undamaged one needs."""
LATER = (
    "highwaynet.cli.main",
    "matplotlib.backends.backend_agg",
    "optuna",
    "PIL.BmpImagePlugin",
    "PIL.JpegImagePlugin",
    "PIL.PngImagePlugin",
    "PIL.WebPImagePlugin",
    "pyarrow.parquet",
    "rich.live",
    "safetensors.torch",
    "sklearn.datasets",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.orm",
    "torch._dynamo",
)
"""What commands import when they need it."""

Job = Callable[[], None]


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    """Its exit code; −N if signal N ended it."""
    out: str
    err: str
    seconds: float
    """Seconds of computing."""
    waited: float
    """Seconds until it ended."""
    peak: int
    """Largest number of bytes that it had in memory."""

    @property
    def hung(self) -> bool:
        return self.seconds >= LONGEST or self.waited >= PATIENCE


def preload() -> None:
    """Import everything that commands may need, so that forks find it."""
    import highwaynet

    for module in pkgutil.walk_packages(highwaynet.__path__, "highwaynet."):
        if not module.name.endswith(("__main__", ".worker")):
            importlib.import_module(module.name)
    for name in LATER:
        importlib.import_module(name)
    import torch
    import typer.main

    typer.main.get_command = functools.cache(typer.main.get_command)  # builds the commands once, and not in each fork
    typer.main.get_command(importlib.import_module("highwaynet.cli.main").app)
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


def command(*arguments: object) -> Job:
    """The command `highway`, with these arguments."""

    def run() -> None:
        from highwaynet.cli.main import main

        sys.argv[1:] = [*map(str, arguments)]
        main()

    return run


def function(call: Callable[[], object]) -> Job:
    """A function that no command calls alone; its errors are told as the command tells them."""

    def run() -> None:
        from highwaynet.base.errors import HighwayError
        from highwaynet.cli.main import _end

        try:
            print(call())
        except HighwayError as error:
            sys.exit(_end(str(error), error.exit_code))

    return run


def run(job: Job, folder: Path, longest: float = PATIENCE) -> Ended:
    """Run a job in a fork of this process, in a folder."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        began = time.monotonic()
        if (pid := os.fork()) == 0:
            _become(job, folder, out.fileno(), err.fileno())
        descriptor = os.pidfd_open(pid)
        try:
            if not select.select([descriptor], [], [], longest)[0]:
                os.kill(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
        finally:
            os.close(descriptor)
        waited = time.monotonic() - began
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read(10**7).decode("utf-8", "replace"))
    seconds = usage.ru_utime + usage.ru_stime
    return Ended(os.waitstatus_to_exitcode(status), *texts, seconds, waited, usage.ru_maxrss * 1024)


def run_here(job: Job, folder: Path) -> Ended:
    """Run a job in this process, which has to be a fork that `enter` has prepared; does not survive what hangs or crashes."""
    environment = dict(os.environ)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        Path("/proc/self/clear_refs").write_text("5")  # forget the largest memory so far
        began, computed = time.monotonic(), time.process_time()
        code = _call(job, folder, out.fileno(), err.fileno())
        waited, seconds = time.monotonic() - began, time.process_time() - computed
        os.environ.clear()
        os.environ.update(environment)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read(10**7).decode("utf-8", "replace"))
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return Ended(code, *texts, seconds, waited, peak)


def enter() -> None:
    """In a new fork: nothing to read, a session of its own, limited memory."""
    os.setsid()
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.environ.update({"COLUMNS": "120", "HIGHWAYNET_DEBUG": "1"})
    # More address space than memory is allowed: what is only reserved does no harm.
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + 3 * MOST_MEMORY,) * 2)


def _become(job: Job, folder: Path, out: int, err: int) -> None:
    """In the fork: run the job and end."""
    code = 70
    try:
        enter()
        code = _call(job, folder, out, err)
    finally:
        os._exit(code)


def _call(job: Job, folder: Path, out: int, err: int) -> int:
    """Call a job with these streams; returns the exit code."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    # Python's own streams remember what they were: a file, a pipe, a terminal.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # type: ignore[misc]
    os.chdir(folder)
    try:
        job()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code
