"""What several tests use: the real command, and small finished runs."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from forked import start
from highwaynet.runs.directory import RunDirectory
from highwaynet.training.loop import train
from holding import PATIENCE
from support import Highway, small_spec

KERNELS = Path(__file__).parents[1] / "src" / "highwaynet" / "kernels"
_VERSION = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(KERNELS.glob("*.*")) if path.suffix in {".py", ".cpp", ".h"}))
# torch keeps compiled graphs, in which the sizes of our operators are fixed: those of another version would fail.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{tempfile.gettempdir()}/highwaynet-compiled-{_VERSION.hexdigest()[:16]}")


@pytest.fixture(scope="session", autouse=True)
def _few_threads() -> None:
    beside_others = "PYTEST_XDIST_WORKER" in os.environ
    torch.set_num_threads(1 if beside_others else min(2, torch.get_num_threads()))


@pytest.fixture
def highway(tmp_path: Path) -> Highway:
    """Run the real command in a process of its own, in a folder of its own.

    The process is forked from one that has imported torch. A fresh one is started where a test wants it: for variables that Python itself
    reads, and after a `prefix`, which is another program that runs the command.
    """

    def run(
        *arguments: object, cwd: Path = tmp_path, fresh: bool = False, prefix: tuple[str, ...] = (), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        if fresh or prefix:
            command = [*prefix, sys.executable, "-W", "error", "-m", "highwaynet", *map(str, arguments)]
            variables = os.environ | {"COLUMNS": "120", "OMP_NUM_THREADS": "1"} | environment
            return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False, env=variables)
        process = start(*arguments, cwd=cwd, **environment)
        return subprocess.CompletedProcess(arguments, process.wait(PATIENCE), *process.communicate())

    return run


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunDirectory]:
    """A finished run of each network, trained once; each call gives a copy that nobody has looked into yet."""
    made: dict[str, RunDirectory] = {}

    def run(name: str = "fc-highway") -> RunDirectory:
        if name not in made:
            made[name] = train(small_spec(name), tmp_path_factory.mktemp("runs") / name)
        return RunDirectory(shutil.copytree(made[name].path, tmp_path_factory.mktemp("copies") / name))

    return run
