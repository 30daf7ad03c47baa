"""The lines and sidecars of a run directory, as validated records."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from highwaynet.base.files import sha256
from highwaynet.base.specs import Spec
from highwaynet.base.text import loss_text, percent, quantity_text
from highwaynet.data.record import DataRecord

Count = Annotated[int, Field(ge=0)]
Measured = Annotated[float, Field(strict=False)]
"""A number that may be infinite or NaN, which JSON files contain as strings."""


class Metrics(Spec):
    """Metrics of a network. If it diverged, the loss may be infinite or NaN."""

    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="strings")

    loss: Measured
    """Classification: mean cross-entropy. Regression: mean squared error of the standardised target; 1 is no better than the mean."""
    accuracy: Measured | None = None
    """Classification: share of correct predictions, 0 to 1."""
    rmse: Measured | None = None
    """Regression: root mean squared error, in the unit of the target."""
    r2: Measured | None = None
    """Regression: share of the target's variance that is explained, R²."""

    @property
    def headline(self) -> str:
        """The main metric as text: accuracy, or RMSE and R²; empty if there is only a loss."""
        if self.accuracy is not None:
            return percent(self.accuracy)
        if self.rmse is None:  # of a run whose loss is not one of its outputs
            return ""
        return f"RMSE {quantity_text(self.rmse or 0)}, R² {self.r2 or 0:.3f}"

    @property
    def percent(self) -> float:
        """Accuracy, or in a regression R², in percent."""
        return 100 * (self.accuracy if self.accuracy is not None else self.r2 or 0.0)

    def __str__(self) -> str:
        metric = f"{'accuracy ' if self.accuracy is not None else ''}{self.headline}"
        return f"loss {loss_text(self.loss)}{f', {metric}' if metric else ''}"


class Score(Metrics):
    """Metrics of a network on a number of samples."""

    samples: Count
    """Number of samples."""


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
    """Mean loss over the epoch's samples, each with the weights of the step in which it was used."""
    train_accuracy: Measured | None = None
    """Share of correct predictions over the same samples."""
    train_rmse: Measured | None = None
    """Regression: root mean squared error over the same samples."""
    train_r2: Measured | None = None
    """Regression: R² over the same samples."""
    validation_loss: Measured | None = None
    """Mean loss over the validation data at the end of the epoch."""
    validation_accuracy: Measured | None = None
    """Share of correct predictions on the validation data."""
    validation_rmse: Measured | None = None
    """Regression: root mean squared error on the validation data."""
    validation_r2: Measured | None = None
    """Regression: R² on the validation data."""

    @classmethod
    def of(cls, train: Metrics, validation: Metrics | None, *, epoch: int, step: int, learning_rate: float) -> "EpochRecord":
        """Make the record of an epoch from its metrics."""
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
        """The metrics of the validation data, if there are any."""
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
    """Its validation loss, or its training loss if there are no validation data."""


class RunProgress(Spec):
    """What is needed besides tensors to resume a run. Random numbers follow from seed, epoch and step, and are not stored."""

    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="strings")  # with on_divergence = ignore

    batch: Count
    """Number of finished batches of the current epoch."""
    tally: tuple[tuple[Measured, ...], ...]
    """Sums over the current epoch, for each process."""
    seconds: float
    """Time spent on the current epoch."""
    history_bytes: Count
    """Length of history.jsonl in bytes."""
    timing_bytes: Count
    """Length of timing.jsonl in bytes."""
    best: Best | None
    """The best epoch so far."""
    rewinds: Count
    """Number of rewinds because the loss was not finite; each halved the learning rate."""
    went_back_to: Count | None
    """The step of the last rewind."""
    scaler: dict[str, float]
    """precision = float16: the state of the loss scaling."""


class CheckpointRecord(Spec):
    """The JSON sidecar of a checkpoint."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    epoch: Count
    """Number of finished epochs."""
    step: Count
    """Number of steps taken."""
    sha256: str
    """Checksum of the safetensors file."""
    spec_sha256: str
    """Checksum of the spec.toml that it belongs to."""
    data_sha256: str
    """Checksum of the data.json that it belongs to."""
    plan_sha256: str = ""
    """Checksum of the plan.json that it belongs to; empty in older runs, which have no plan.json."""
    progress: RunProgress | None = None
    """The state of the run, in checkpoints from which it can be resumed."""
    best_step: Count | None = None
    """In the final checkpoint: the step of the best one, if there is one; without this, losing the best one would not be noticed."""
    own_sha256: str = ""
    """Checksum of this record as JSON, without this field."""

    def sealed(self) -> "CheckpointRecord":
        """Return the record with its own checksum."""
        return self.model_copy(update={"own_sha256": self._digest()})

    def is_intact(self) -> bool:
        """Whether its own checksum is right or absent, as in the first version."""
        return self.own_sha256 in {"", self._digest()}

    def _digest(self) -> str:
        absent = {name for name, value in (("plan_sha256", self.plan_sha256 or None), ("best_step", self.best_step)) if value is None}
        return sha256(self.model_dump_json(exclude={"own_sha256"} | absent).encode())


class StoredData(Spec):
    """The content of data.json: the record of the data, and the checksum of data.safetensors."""

    record: DataRecord
    """The record of the data."""
    sha256: str
    """Checksum of data.safetensors."""
