"""TeacherSpec: the trained network that a run imitates (distillation). Does not import torch."""

from typing import Annotated, ClassVar

from pydantic import Field

from highwaynet.base.specs import Spec
from highwaynet.runs.names import Kept


class TeacherSpec(Spec):
    """Distillation: the outputs of the network of another run are targets, in addition to those of the data."""

    _section: ClassVar[str] = "teacher."

    run: str
    """The run whose network is the teacher. It must have the same classes, and inputs that are prepared in the same way."""

    checkpoint: Kept | None = None
    """Which of the teacher's weights; by default those that are its answer."""

    temperature: Annotated[float, Field(gt=0, le=100)] = 3.0
    """Classification: both networks' logits are divided by it before the softmax."""

    weight: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Weight of the distance to the teacher in what is minimised: the Kullback-Leibler divergence times the squared temperature
    (Hinton et al. 2015), or for numbers the squared difference."""

    weights: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Checksum of the teacher's weights. Filled in when the run starts; a repetition needs the same ones."""
