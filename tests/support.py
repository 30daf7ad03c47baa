"""Types and specs that several tests use."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from highwaynet import NetworkSpec, RunSpec, TrainingSpec
from highwaynet.data.record import DataRecord
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.network import Network
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import start_network
from highwaynet.training.watcher import Watcher

Highway = Callable[..., subprocess.CompletedProcess[str]]
Runs = Callable[[str], RunDirectory]


def small_spec(name: str = "fc-highway", **values: object) -> RunSpec:
    """A run of a second."""
    return RunSpec(
        network=NetworkSpec(name=name, depth=6, width=12, **values), training=TrainingSpec(epochs=2, batch_size=64, learning_rate=0.1)
    )


def fresh_network(spec: RunSpec, data: DataRecord) -> Network:
    """The network of a run before its first step."""
    return start_network(spec, plan_of(spec.network, data.input_shape, data.outputs))


class Notes(Watcher):
    """Collects what the user is told."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def note(self, sentence: str) -> None:
        self.all.append(sentence)


MARK = "this run was there before\n"


def mark_logs(folder: Path) -> None:
    """Mark the logs of all runs in a folder, so that new runs in their places can be told from them."""
    for log in folder.glob("*/events.log"):
        log.write_text(log.read_text() + MARK)


def unmarked_logs(folder: Path) -> list[str]:
    """Return the names of the runs in a folder whose logs are not marked."""
    return sorted(log.parent.name for log in folder.glob("*/events.log") if MARK not in log.read_text())
