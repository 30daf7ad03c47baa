"""The server of `forked.py`: imports what commands need, without computing anything, and forks a process for each request.

python -W error fork_server.py SOCKET, on which it listens. A request is a JSON document with the standard streams of the new process. The
answers are its process id and, when it has ended, its exit code.
"""

import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import highwaynet
import holding
from forked import start_worker

LATER = ("matplotlib.backends.backend_agg", "optuna", "rich.live", "sqlalchemy.orm", "torch._dynamo", "typer")
"""What commands import when they need it; torch's optimisers import torch._dynamo."""


def preload() -> None:
    """Import everything but the commands, which look at their environment when they are imported."""
    for module in pkgutil.walk_packages(highwaynet.__path__, "highwaynet."):
        if not module.name.startswith(("highwaynet.cli", "highwaynet.__main__")):
            importlib.import_module(module.name)
    commands = ("highwaynet.cli.main",) if "ATTACK_CONTROL" in os.environ else ()  # all commands of an attack have one environment
    for name in (*LATER, *commands):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def serve(listener: socket.socket) -> str:
    """Fork for each request, until standard input ends; in each new process, returns the module that it is to run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        with connection, suppress(ChildProcessError):
            if os.fork() == 0:
                return attend(connection, listener)
            while os.waitpid(-1, os.WNOHANG)[0]:  # those that have ended
                pass
    os._exit(0)


def attend(connection: socket.socket, listener: socket.socket) -> str:
    """Fork once more, and tell who asked how that process fares."""
    message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    if (pid := os.fork()) == 0:
        connection.close()
        return become(json.loads(message), streams, listener)
    for stream in streams:
        os.close(stream)
    connection.send(str(pid).encode())
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def become(request: dict[str, Any], streams: list[int], listener: socket.socket) -> str:
    """Turn this process into what was asked for."""
    server = listener.getsockname()
    listener.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Python's own streams remember what they were: a file, a pipe, a terminal.
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if holding.FOLDER in os.environ:
        holding.install()
    for name in ("highwaynet.search.parent", "highwaynet.experiments.runner"):
        vars(sys.modules[name])["start_worker"] = functools.partial(start_worker, server=server)
    sys.argv[1:] = request["arguments"]
    module: str = request["module"]
    if module != "highwaynet":  # `python -m` has not imported it before either
        sys.modules.pop(module, None)
    return module


if __name__ == "__main__":
    preload()
    runpy.run_module(serve(socket.socket(fileno=int(sys.argv[1]))), run_name="__main__", alter_sys=True)
