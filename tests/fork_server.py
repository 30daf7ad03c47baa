"""The server of `forked.py`: imports what commands need, without computing anything, and forks a process for each request.

python -W error fork_server.py SOCKET. A request is a JSON document with four file descriptors: a socket for the answers, and the process's
standard streams. The answers are its process id and, when it has ended, its exit code.
"""

import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import highwaynet
import holding
from forked import Forked

LATER = ("matplotlib.backends.backend_agg", "optuna", "rich.live", "sqlalchemy.orm", "torch._dynamo", "typer")
"""What commands import when they need it; torch's optimisers import torch._dynamo."""


def preload() -> None:
    """Import everything but the commands, which look at their environment when they are imported."""
    for module in pkgutil.walk_packages(highwaynet.__path__, "highwaynet."):
        if not module.name.startswith(("highwaynet.cli", "highwaynet.__main__")):
            importlib.import_module(module.name)
    for name in LATER:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def serve(server: socket.socket) -> str:
    """Fork for each request, until nobody can ask any more; in each new process, returns the module that it is to run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(server, 1 << 20, 4)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not message:
            os._exit(0)
        if os.fork() == 0:
            return attend(server, json.loads(message), *files)
        for file in files:
            os.close(file)


def attend(server: socket.socket, request: dict[str, Any], answers: int, *streams: int) -> str:
    """Fork once more, and tell who asked how that process fares."""
    if (pid := os.fork()) == 0:
        os.close(answers)
        return become(server, request, streams)
    for stream in streams:
        os.close(stream)
    os.write(answers, str(pid).encode())
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        os.write(answers, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def become(server: socket.socket, request: dict[str, Any], streams: tuple[int, ...]) -> str:
    """Turn this process into what was asked for."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if holding.FOLDER in os.environ:
        holding.install()
    for name in ("highwaynet.search.parent", "highwaynet.experiments.runner"):
        vars(sys.modules[name])["start_worker"] = functools.partial(start_worker, server)
    sys.argv[1:] = request["arguments"]
    sys.path[0] = request["cwd"]
    module: str = request["module"]
    sys.modules.pop(module if module != "highwaynet" else "", None)
    return module


def start_worker(server: socket.socket, module: str, stdout: int, stderr: IO[bytes]) -> Forked:
    """Does what `start_worker` in `training/workers.py` does; the worker comes from the server, too."""
    reading, writing = os.pipe()
    output = os.pipe() if stdout == subprocess.PIPE else (None, os.open(os.devnull, os.O_WRONLY))
    worker = Forked(server, module, [], Path.cwd(), os.environ, (reading, output[1], stderr.fileno()), session=True)
    worker.stdin, worker.stdout = os.fdopen(writing, "wb"), None if output[0] is None else os.fdopen(output[0], "rb")
    os.close(reading)
    os.close(output[1])
    return worker


if __name__ == "__main__":
    connection = socket.socket(fileno=int(sys.argv[1]))
    preload()
    runpy.run_module(serve(connection), run_name="__main__", alter_sys=True)
