"""What is known about the data of a run. Free of torch."""

from typing import Any, Literal

from highwaynet.base.specs import Spec
from highwaynet.data.names import Kind, LabelKind, Step, Task


class DataRecord(Spec):
    """What is known about the data of a run; data.json in its directory."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    found: str
    """What the data are, in a sentence."""
    kind: Kind
    """What a sample is."""
    task: Task
    """What is asked of the network."""
    fingerprint: str = ""
    """Of the targets and of some inputs: data that were changed or reordered after the run are noticed."""
    input_shape: tuple[int, ...]
    """Shape of one sample as the network sees it."""
    class_names: tuple[str, ...] = ()
    """Names of the classes, in the order of their numbers; empty for regression."""
    label_kind: LabelKind = "text"
    """What the labels of the classes were in the data: predictions are of the same kind."""
    target_name: str = "target"
    """What is predicted."""
    target_mean: float = 0.0
    """Regression: mean of the training targets; the network predicts (target − mean) / std."""
    target_std: float = 1.0
    """Regression: standard deviation of the training targets."""
    full_scale: float = 1.0
    """The raw input value that `scale` makes 1."""
    preprocessing: tuple[Step, ...] = ()
    """The steps, in order; their statistics are the tensors beside this record."""
    encoder: dict[str, Any] | None = None
    """How the columns of a table become features."""
    train: int
    """Number of training samples."""
    validation: int
    """Number of validation samples."""
    test: int
    """Number of test samples."""

    @property
    def outputs(self) -> int:
        """How many numbers the network gives for a sample."""
        return len(self.class_names) if self.task == "classification" else 1
