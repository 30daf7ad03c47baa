"""A real PostgreSQL server for tests: started by hand from Debian's or anybody's binaries, in a folder of its own."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

PASSWORD = "s3cret-w0rd"


def find_binary(name: str) -> str | None:
    """A program of PostgreSQL: on the path, or where Debian puts it."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return shutil.which(name) or (str(places[0]) if places else None)


class Server:
    """A server on a free port of this machine; as root it is run by the user postgres."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._as = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql://tester:{PASSWORD}@127.0.0.1:{self.port}/postgres"
        folder.mkdir(parents=True)
        (folder / "password").write_text(PASSWORD)
        if self._as:
            shutil.chown(folder, "postgres")
            shutil.chown(folder / "password", "postgres")
        arguments = ["--username=tester", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--no-sync", "--encoding=UTF8"]
        self._run("initdb", "-D", str(folder / "data"), *arguments)

    def start(self) -> None:
        options = f"-p {self.port} -k {self._folder} -h 127.0.0.1 -c fsync=off"
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-o", options, "-l", str(self._folder / "log"), "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", mode, "-w", "stop")

    def _run(self, name: str, *arguments: str) -> None:
        program = find_binary(name)
        assert program is not None
        # Not captured through pipes: the server would inherit them and keep them open.
        with (self._folder / "output").open("ab") as output:
            subprocess.run([*self._as, program, *arguments], check=True, stdout=output, stderr=output, cwd="/", timeout=120)
