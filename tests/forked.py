"""The real command in processes that start at once.

A fresh Python takes seconds to import torch. Here a server (`fork_server.py`, one for each process that runs tests) imports it once, and
forks for each command: the new process gets arguments, folder, environment and streams of its own, and runs and ends as a fresh one does.
It computes with one thread, unless told otherwise. It does not see what Python or torch read when they start, such as PYTHONPATH.
"""

import atexit
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
        server: The address of the server.
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
        server: bytes,
        module: str,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
        session: bool = False,
    ) -> None:
        request = {"module": module, "arguments": arguments, "cwd": str(cwd), "environment": dict(environment), "session": session}
        self.returncode: int | None = None
        self._answers = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._answers.connect(server)
        socket.send_fds(self._answers, [json.dumps(request).encode()], streams)
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
def _server() -> bytes:
    """The address of this process's server, which ends when its standard input does: with this process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind("")  # Linux gives it a name that no file has
        listener.listen()
        command = [sys.executable, "-W", "error", str(SERVER), str(listener.fileno())]
        variables = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, pass_fds=[listener.fileno()], stdin=subprocess.PIPE, env=variables)
        atexit.register(process.communicate)  # closes its input and waits
        return bytes(listener.getsockname())


def start(*arguments: object, module: str = "highwaynet", cwd: Path | None = None, stderr: int | None = None, **environment: str) -> Forked:
    """Start `highway` with these arguments, or another module; what it writes is kept, except for errors that go elsewhere."""
    outputs = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(2)]  # noqa: SIM115 (closed with the process)
    with Path(os.devnull).open("rb") as nothing:
        streams = (nothing.fileno(), outputs[0].fileno(), outputs[1].fileno() if stderr is None else stderr)
        variables = os.environ | {"COLUMNS": "120"} | environment
        process = Forked(_server(), module, [*map(str, arguments)], cwd or Path.cwd(), variables, streams)
    process.stdout, process.stderr = outputs
    return process


def start_worker(module: str, stdout: int, stderr: IO[bytes], server: bytes | None = None) -> Forked:
    """Does what `start_worker` in `training/workers.py` does; the server starts the worker."""
    reading, writing = os.pipe()
    output = os.pipe() if stdout == subprocess.PIPE else (None, os.open(os.devnull, os.O_WRONLY))
    streams = (reading, output[1], stderr.fileno())
    worker = Forked(server or _server(), module, [], Path.cwd(), os.environ | {"OMP_NUM_THREADS": "1"}, streams, session=True)
    worker.stdin, worker.stdout = os.fdopen(writing, "wb"), None if output[0] is None else os.fdopen(output[0], "rb")
    os.close(reading)
    os.close(output[1])
    return worker
