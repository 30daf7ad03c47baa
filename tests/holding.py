"""Gates at which runs in other processes are held, so that a test finds them in the middle of their work, however fast or slow they are.

A process with a gate's environment, and each that it starts, stops where it has written the epoch at which the gate stands. It goes on once
the gate is moved or opened, or once it is asked to stop: a test that asks finds it in the same epoch, one that kills it as well.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 300
"""Seconds until a test gives up on what should have come; twice as long until a run that nobody lets go gives up."""
FOLDER, RUNS = "HOLDING_FOLDER", "HOLDING_RUNS"


class Gate:
    """A gate for the runs of some processes.

    Args:
        folder: Where it is kept; it is made.
        epoch: Where it stands at first.
        runs: Which run directories are held, as `Path.match` has it.
    """

    def __init__(self, folder: Path, epoch: int = 1, runs: str = "*") -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        (folder / "sitecustomize.py").write_text("import holding\n\nholding.install()\n")  # what Python imports when it starts
        path = [str(folder), str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {"PYTHONPATH": os.pathsep.join(path), FOLDER: str(folder), RUNS: runs}
        """For the processes that it is to hold."""
        self.move(epoch)

    def move(self, epoch: int) -> None:
        """Let runs go on to a later epoch."""
        (self._folder / "moved").write_text(str(epoch))
        (self._folder / "moved").replace(self._folder / "epoch")

    def open(self) -> None:
        """Let all go on to their end."""
        (self._folder / "epoch").unlink(missing_ok=True)

    def wait(self, process: "subprocess.Popen[str]", epoch: int = 1) -> None:
        """Until a run is held in this epoch, while a process lives."""
        wait_for(lambda: list(self._folder.glob(f"held-{epoch}-*")), process)


def wait_for(condition: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    """Until this is so, while a process lives."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def install() -> None:
    """Hold the runs of this process, as its environment says."""
    from highwaynet.runs.directory import RunDirectory
    from highwaynet.runs.run_records import EpochRecord, TimingRecord
    from highwaynet.training.interruption import Interruption

    requests: list[Interruption] = []
    begin, add_epoch = Interruption.__init__, RunDirectory.add_epoch

    def begin_and_note(self: Interruption) -> None:
        begin(self)
        requests.append(self)

    def add_epoch_and_wait(self: RunDirectory, record: EpochRecord, timing: TimingRecord) -> None:
        add_epoch(self, record, timing)
        if self.path.match(os.environ[RUNS]):
            _wait(Path(os.environ[FOLDER]), record.epoch, requests)

    Interruption.__init__, RunDirectory.add_epoch = begin_and_note, add_epoch_and_wait  # type: ignore[method-assign]


def _wait(folder: Path, epoch: int, requests: list[object]) -> None:
    deadline = time.monotonic() + 2 * PATIENCE
    while epoch >= _place(folder) and not any(one.requested for one in requests):  # type: ignore[attr-defined]
        (folder / f"held-{epoch}-{os.getpid()}").touch()
        assert time.monotonic() < deadline, f"held in epoch {epoch}, and never let go"
        time.sleep(0.02)


def _place(folder: Path) -> float:
    """The epoch at which the gate stands."""
    try:
        return int((folder / "epoch").read_text())
    except FileNotFoundError:
        return float("inf")
