"""RunSpec: network + data + training settings, from a TOML file, flags, or both."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import Field, model_validator

from highwaynet.base.errors import InputError
from highwaynet.base.files import read_text
from highwaynet.base.specs import Spec, validated
from highwaynet.data.spec import DataSpec
from highwaynet.networks.presets import PRESETS
from highwaynet.networks.spec import NetworkSpec

SPEC = "spec.toml"
"""The spec's file in a run directory."""


class TrainingSpec(Spec):
    """How the weights change: stochastic gradient descent with momentum and an exponentially decaying learning rate."""

    epochs: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    """Passes over the training data."""

    batch_size: Annotated[int, Field(ge=1)] = 32
    """Samples per step; left at 32, all training samples where there are fewer. The last batch of an epoch may be smaller."""

    learning_rate: Annotated[float, Field(gt=0, le=1e6)] = 0.2
    """Learning rate of the first step. By default 0.2 for highway networks, 0.003 for plain and residual ones."""

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Momentum; 0 is plain SGD."""

    decay: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Ratio of the last to the first learning rate, which falls exponentially step by step; 1 keeps it constant."""

    crop: Annotated[int, Field(ge=0, le=1024)] = 0
    """Augmentation of images: pad with this many zeros on each side and cut out the original size at a random place."""

    mirror: bool = False
    """Augmentation of images: flip left and right with probability 1/2."""

    rotate: Annotated[float, Field(ge=0, le=180)] = 0.0
    """Augmentation of images: turn by a random angle of at most so many degrees."""

    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Threads to compute with; by default all cores, and the run's spec says how many. Equal numbers to the bit need equally many."""


class RunSpec(Spec):
    """Everything that a run depends on: the same spec gives the same history, bit for bit."""

    schema_version: Literal[1] = 1
    """Version of this format."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of the start weights and of the order of the samples."""

    network: NetworkSpec = NetworkSpec()
    """What is trained."""

    data: DataSpec = DataSpec()
    """What it is trained on."""

    training: TrainingSpec = TrainingSpec()
    """How it is trained."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        """The learning rate follows the network where it is left out."""
        if not isinstance(values, dict):
            return values
        network, training = values.get("network", {}), values.get("training", {})
        name = network.get("name", "fc-highway") if isinstance(network, dict) else getattr(network, "name", None)
        if isinstance(name, str) and name in PRESETS and isinstance(training, dict) and training.get("learning_rate") is None:
            return values | {"training": training | {"learning_rate": PRESETS[name].learning_rate}}
        return values

    def to_toml(self) -> str:
        """The spec as TOML, with every setting written out."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def parse_toml(text: str, source: Path) -> dict[str, Any]:
    """The values in a TOML text; `source` is named in the error if it is broken."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # some editors begin files with a mark
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{source} is not valid TOML: {error}") from error


def read_spec_values(path: Path) -> dict[str, Any]:
    """The values of a spec file, not yet validated, so that flags can change them."""
    return parse_toml(read_text(path), path)


def spec_from_values(values: dict[str, Any], source: Path | None = None) -> RunSpec:
    """A validated RunSpec; the error names the file if there is one."""
    try:
        return validated(RunSpec, values)
    except InputError as error:
        raise InputError(f"{source}: {error}" if source else str(error)) from error
