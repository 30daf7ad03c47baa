"""Types and specs that several tests use."""

import subprocess
from collections.abc import Callable

from highwaynet import NetworkSpec, RunSpec, TrainingSpec

Highway = Callable[..., subprocess.CompletedProcess[str]]


def small_spec(name: str = "fc-highway", **values: object) -> RunSpec:
    """A run of a second."""
    return RunSpec(
        network=NetworkSpec(name=name, depth=6, width=12, **values), training=TrainingSpec(epochs=2, batch_size=64, learning_rate=0.1)
    )
