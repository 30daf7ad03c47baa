"""What analyses return: plain records that can be saved, loaded and drawn without torch."""

from typing import Literal

from highwaynet.base.specs import Spec
from highwaynet.data.names import Part
from highwaynet.runs.records import Score


class Record(Spec):
    """What every record says about its origin."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    fingerprint: str
    """That of the run when it was asked; a record with another one is out of date."""


class EvaluationRecord(Record):
    """How well the trained network does."""

    parameters: int
    """Number of trained values."""
    train: Score
    """On the training data."""
    validation: Score | None
    """On the validation data, if any were kept."""
    test: Score
    """On the test data, which training never saw."""


class GatesRecord(Record):
    """The transform gates of all highway layers; tables have a row per layer and a column per block, or per map of a convolution."""

    part: Part
    """The data over which means are taken."""
    samples: int
    """How many samples that is."""
    convolutional: bool = False
    """Whether columns are maps, whose gates are averaged over their pixels too."""
    start_bias: float
    """b_T before training."""
    bias: list[list[float]]
    """b_T after training."""
    mean: list[list[float]]
    """Mean transform gate output."""


class LesionsRecord(Record):
    """What happens when single layers are closed, so that they copy their input."""

    part: Part
    """The data on which that is measured."""
    intact: Score
    """All layers open."""
    closed: list[Score]
    """Entry i: layer i + 1 closed, all others open."""
