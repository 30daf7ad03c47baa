"""The lines and sidecars of a run directory, as validated records."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from highwaynet.base.specs import Spec

Count = Annotated[int, Field(ge=0)]


class EpochRecord(Spec):
    """A line of history.jsonl. Nothing in it depends on the clock, so equal runs have equal histories."""

    epoch: Annotated[int, Field(ge=1)]
    """Number of the epoch, from 1."""
    step: Count
    """Steps taken since the start."""
    learning_rate: float
    """Learning rate of the epoch's last step."""
    train_loss: float
    """Mean cross-entropy over the epoch's samples, each at the moment when it was trained on."""
    train_accuracy: float
    """Share of correct answers over the same samples."""
    validation_loss: float | None = None
    """Mean cross-entropy over the validation data at the end of the epoch."""
    validation_accuracy: float | None = None
    """Share of correct answers there."""


class Score(Spec):
    """How well a network does on some samples. The loss of a network that diverged may be infinite or no number."""

    model_config = ConfigDict(allow_inf_nan=True)

    loss: float
    """Mean cross-entropy."""
    accuracy: float
    """Share of correct answers, 0 to 1."""
    samples: Count
    """How many samples that is."""


class TimingRecord(Spec):
    """A line of timing.jsonl."""

    epoch: Annotated[int, Field(ge=1)]
    """Number of the epoch, from 1."""
    seconds: float
    """Wall-clock time of the epoch, validation included."""
    samples_per_second: float
    """Trained samples per second."""


class CheckpointRecord(Spec):
    """The JSON sidecar of a checkpoint."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    epoch: Count
    """Epochs that had been finished."""
    step: Count
    """Steps that had been taken."""
    sha256: str
    """Checksum of the safetensors file."""
