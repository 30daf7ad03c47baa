"""The lines and sidecars of a run directory, as validated records."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from highwaynet.base.files import sha256
from highwaynet.base.specs import Spec
from highwaynet.base.text import loss_text, percent
from highwaynet.data.record import DataRecord

Count = Annotated[int, Field(ge=0)]
Measured = Annotated[float, Field(strict=False)]
"""A number that may be infinite or none, which JSON writes as a text."""


class Metrics(Spec):
    """How well a network does. The loss of a network that diverged may be infinite or no number."""

    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="strings")

    loss: Measured
    """Classification: mean cross-entropy. Regression: mean squared error of the standardised target; 1 is no better than the mean."""
    accuracy: Measured | None = None
    """Classification: share of correct answers, 0 to 1."""
    rmse: Measured | None = None
    """Regression: root of the mean squared error, in the target's own unit."""
    r2: Measured | None = None
    """Regression: share of the target's variance that is explained, R²."""

    @property
    def headline(self) -> str:
        """The number that people ask for first: accuracy, or RMSE and R²."""
        if self.accuracy is not None:
            return percent(self.accuracy)
        return f"RMSE {self.rmse or 0:.4g}, R² {self.r2 or 0:.3f}"

    def __str__(self) -> str:
        return f"loss {loss_text(self.loss)}, {'accuracy ' if self.accuracy is not None else ''}{self.headline}"


class Score(Metrics):
    """How well a network does on some samples."""

    samples: Count
    """How many samples that is."""


class EpochRecord(Spec):
    """A line of history.jsonl. Nothing in it depends on the clock, so equal runs have equal histories."""

    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="strings")  # with on_divergence = ignore

    epoch: Annotated[int, Field(ge=1)]
    """Number of the epoch, from 1."""
    step: Count
    """Steps taken since the start."""
    learning_rate: float
    """Learning rate of the epoch's last step."""
    train_loss: Measured
    """Mean loss over the epoch's samples, each at the moment when it was trained on."""
    train_accuracy: Measured | None = None
    """Share of correct answers over the same samples."""
    train_rmse: Measured | None = None
    """Regression: root mean squared error over the same samples."""
    train_r2: Measured | None = None
    """Regression: R² over the same samples."""
    validation_loss: Measured | None = None
    """Mean loss over the validation data at the end of the epoch."""
    validation_accuracy: Measured | None = None
    """Share of correct answers there."""
    validation_rmse: Measured | None = None
    """Regression: root mean squared error there."""
    validation_r2: Measured | None = None
    """Regression: R² there."""

    @classmethod
    def of(cls, train: Metrics, validation: Metrics | None, *, epoch: int, step: int, learning_rate: float) -> "EpochRecord":
        """The line of an epoch that ended with these metrics."""
        parts = {"train": train, "validation": validation}
        values = {
            f"{part}_{name}": value
            for part, metrics in parts.items()
            if metrics is not None
            for name, value in metrics.model_dump(exclude={"samples"}, exclude_none=True).items()
        }
        return cls(epoch=epoch, step=step, learning_rate=learning_rate, **values)

    @property
    def train(self) -> Metrics:
        """The metrics of the training data."""
        return Metrics(loss=self.train_loss, accuracy=self.train_accuracy, rmse=self.train_rmse, r2=self.train_r2)

    @property
    def validation(self) -> Metrics | None:
        """The metrics of the validation data, if any were kept."""
        if self.validation_loss is None:
            return None
        return Metrics(loss=self.validation_loss, accuracy=self.validation_accuracy, rmse=self.validation_rmse, r2=self.validation_r2)


class TimingRecord(Spec):
    """A line of timing.jsonl."""

    epoch: Annotated[int, Field(ge=1)]
    """Number of the epoch, from 1."""
    seconds: float
    """Wall-clock time of the epoch, validation included."""
    samples_per_second: float
    """Trained samples per second."""


class Best(Spec):
    """The best epoch so far."""

    epoch: Annotated[int, Field(ge=1)]
    """Its number."""
    step: Count
    """Steps that had been taken at its end."""
    loss: float
    """Its validation loss, or training loss where there is no validation."""


class RunProgress(Spec):
    """What has to be known besides tensors to go on with a run. Random numbers follow from seed, epoch and step; none is stored."""

    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="strings")  # with on_divergence = ignore

    batch: Count
    """Batches of the epoch in progress that had been trained on."""
    tally: tuple[tuple[Measured, ...], ...]
    """Sums over the epoch in progress, of each process."""
    seconds: float
    """Time spent on the epoch in progress."""
    history_bytes: Count
    """Length of history.jsonl then."""
    timing_bytes: Count
    """Length of timing.jsonl then."""
    best: Best | None
    """The best epoch so far."""
    rewinds: Count
    """How often the run had gone back because the loss was not finite; each time the learning rate was halved."""
    went_back_to: Count | None
    """The step to which the run last went back."""
    scaler: dict[str, float]
    """precision = float16: the state of the loss scaling."""


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
    spec_sha256: str
    """Checksum of the spec.toml that it belongs to."""
    data_sha256: str
    """Checksum of the data.json that it belongs to."""
    plan_sha256: str = ""
    """Checksum of the plan.json that it belongs to; empty in runs that were made before there were plans."""
    progress: RunProgress | None = None
    """Checkpoints from which a run can go on: where it was."""
    own_sha256: str = ""
    """Checksum of this record as JSON, without this field."""

    def sealed(self) -> "CheckpointRecord":
        """The same with its own checksum."""
        return self.model_copy(update={"own_sha256": self._digest()})

    def is_intact(self) -> bool:
        """Whether its own checksum is right; the first version had none."""
        return self.own_sha256 in {"", self._digest()}

    def _digest(self) -> str:
        absent = set() if self.plan_sha256 else {"plan_sha256"}
        return sha256(self.model_dump_json(exclude={"own_sha256"} | absent).encode())


class StoredData(Spec):
    """data.json: what the data of a run are, with the checksum of data.safetensors beside it."""

    record: DataRecord
    """What is known about the data."""
    sha256: str
    """Checksum of the statistics."""
