"""The record of a run's data. Does not import torch."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from highwaynet.base.specs import Spec
from highwaynet.data.names import Kind, LabelKind, Step, Task

Axis = Annotated[int, Field(ge=0, le=2**40)]
"""An axis of a sample."""


class DataRecord(Spec):
    """The form of a run's data and what was learned from them, stored as data.json."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    found: str
    """Description of the data in one sentence."""
    kind: Kind
    """images, features or table."""
    task: Task
    """classification or regression."""
    fingerprint: str = ""
    """Checksum of the targets and of some inputs, which detects data that were changed or reordered after the run."""
    input_shape: tuple[Axis, ...]
    """Shape of one sample after encoding, before preprocessing."""
    prepared_shape: tuple[Axis, ...] | None = None
    """Shape of one sample after preprocessing, if that changes it."""
    class_names: tuple[str, ...] = ()
    """Names of the classes, in the order of their numbers; empty for regression."""
    label_kind: LabelKind = "text"
    """Type of the class labels in the data; predictions have the same type."""
    target_name: str = "target"
    """Name of the column or quantity to predict."""
    target_names: tuple[str, ...] = ()
    """Regression with several targets: their names, if they have names."""
    target_mean: float = 0.0
    """Regression: mean of the training targets; the network predicts (target − mean) / std."""
    target_std: float = 1.0
    """Regression: standard deviation of the training targets."""
    target_means: tuple[float, ...] = ()
    """Regression with several targets: their means; target_mean and target_std are not used then."""
    target_stds: tuple[float, ...] = ()
    """Regression with several targets: their standard deviations."""
    full_scale: float = 1.0
    """The raw input value that `scale` maps to 1."""
    pixels: Literal["uint8", "float32"] | None = None
    """How the pixels of images are stored; None for other data."""
    exact: bool = False
    """Whether raw features are float64: they are preprocessed in that precision, so that a large offset does no harm."""
    preprocessing: tuple[Step, ...] = ()
    """The steps, in order; data.safetensors has their statistics."""
    encoder: dict[str, Any] | None = None
    """How the columns of a table become features."""
    column_names: tuple[str, ...] = ()
    """Names of all columns of a table without a header, in order; new tables are read by position then."""
    notes: tuple[str, ...] = ()
    """What the rules made of the columns of a table, a line for each."""
    train: int
    """Number of training samples."""
    validation: int
    """Number of validation samples."""
    test: int
    """Number of test samples."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind == "images" and len(self.input_shape) != 3:
            raise ValueError(f"input_shape has {len(self.input_shape)} axes, images have 3")
        return self

    @property
    def outputs(self) -> int:
        """Number of outputs of the network for a sample."""
        if self.task == "classification":
            return len(self.class_names)
        return len(self.target_means) or 1

    @property
    def several_targets(self) -> tuple[str, ...]:
        """What the targets of a regression with several of them are called; empty for one target."""
        count = len(self.target_means)
        if count < 2:
            return ()
        return (
            self.target_names
            if len(self.target_names) == count
            else tuple(f"{self.target_name} {number}" for number in range(1, count + 1))
        )

    @property
    def target_scale(self) -> tuple[Any, Any]:
        """Mean and standard deviation of the target; tuples for several targets."""
        return (self.target_means, self.target_stds) if self.target_means else (self.target_mean, self.target_std)

    @property
    def network_shape(self) -> tuple[int, ...]:
        """Shape of one sample as the network gets it."""
        return self.prepared_shape or self.input_shape
