"""The real command in processes that start at once.

A fresh Python takes seconds to import torch. Here a server (`fork_server.py`, one for each process that runs tests) imports it once, and
forks for each command: the new process gets arguments, folder, environment and streams of its own, and runs and ends as a fresh one does.
It computes with one thread, unless told otherwise. It does not see what Python or torch read when they start, such as PYTHONPATH.
"""

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

SERVER = Path(__file__).with_name("fork_server.py")


class Forked:
    """A process that the server forked, with the methods of `subprocess.Popen`.

    Args:
        server: The connection to the server.
        module: What it runs, as `python -m` does.
        arguments: The command line after that.
        streams: Its standard input, output and errors.
        session: Whether it is in a session of its own.
    """

    stdin: IO[bytes] | None = None
    stdout: IO[Any] | None = None
    stderr: IO[Any] | None = None

    def __init__(
        self,
        server: socket.socket,
        module: str,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
        session: bool = False,
    ) -> None:
        request = {"module": module, "arguments": arguments, "cwd": str(cwd), "environment": dict(environment), "session": session}
        self.returncode: int | None = None
        self._answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(server, [json.dumps(request).encode()], [theirs.fileno(), *streams])
        self.pid = int(self._answers.recv(100))

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._answers.settimeout(timeout)
            try:
                self.returncode = int(self._answers.recv(100))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0) from None
            self._answers.close()
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it wrote, once it has ended."""
        self.wait(timeout)
        return _content(self.stdout), _content(self.stderr)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _content(stream: IO[Any] | None) -> str:
    if stream is None:
        return ""
    with stream:
        stream.seek(0)
        return str(stream.read())


@functools.cache
def _server() -> socket.socket:
    """The server of this process; it ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-W", "error", str(SERVER), str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
    process.returncode = 0  # nobody waits for it
    return ours


def start(*arguments: object, cwd: Path | None = None, stderr: int | None = None, **environment: str) -> Forked:
    """Start `highway` with these arguments; what it writes is kept, except for errors that go elsewhere."""
    outputs = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(2)]  # noqa: SIM115 (closed with the process)
    with Path(os.devnull).open("rb") as nothing:
        streams = (nothing.fileno(), outputs[0].fileno(), outputs[1].fileno() if stderr is None else stderr)
        process = Forked(
            _server(), "highwaynet", [*map(str, arguments)], cwd or Path.cwd(), os.environ | {"COLUMNS": "120"} | environment, streams
        )
    process.stdout, process.stderr = outputs
    return process
