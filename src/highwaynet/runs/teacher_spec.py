"""TeacherSpec: the trained network that a run imitates (distillation, hints). Does not import torch."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from highwaynet.base.specs import Spec
from highwaynet.runs.names import Kept

DistanceForm = Literal["hinton", "fitnets"]
Stage = Literal["hints", "distillation"]
FIRST_STAGE = ("epochs", "label_smoothing", "class_weight", "layer_drop")
"""Training settings of a first stage with hints that say nothing about a second one."""
FIRST_OPTIMISER = ("optimiser", "learning_rate", "momentum", "nesterov", "smoothing")
"""The same, if the first stage has the optimiser that replaces sgd in it."""

WITH_HINTS = ("hint_epochs", "hint_rate", "regressor_range")
"""Settings that have no effect without hints."""

Epoch = Annotated[float, Field(ge=0, le=1_000_000, strict=False)]


class TeacherSpec(Spec):
    """Distillation: the outputs of the network of another run are targets, in addition to those of the data.

    With hints, a first stage trains the lower layers to predict a hidden layer of the teacher (Romero et al. 2014).
    """

    _section: ClassVar[str] = "teacher."

    run: str
    """The run whose network is the teacher. It must have the same classes, and inputs that are prepared in the same way."""

    checkpoint: Kept | None = None
    """Which of the teacher's weights; by default those that are its answer."""

    temperature: Annotated[float, Field(gt=0, le=10_000)] = 3.0
    """Classification: both networks' logits are divided by it before the softmax."""

    form: DistanceForm = "hinton"
    """Classification: the distance to the teacher's softened outputs. hinton: the Kullback-Leibler divergence times the squared
    temperature (Hinton et al. 2015); fitnets: the cross-entropy, without that factor (the FitNets' released files)."""

    weight: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Weight λ of the distance to the teacher in what is minimised; for numbers, the distance is the squared difference."""

    final_weight: Annotated[float, Field(ge=0, le=1000)] | None = None
    """The value to which λ changes linearly; by default it stays constant."""

    weight_epochs: Annotated[tuple[Epoch, Epoch], Field(strict=False)] | None = None
    """The epochs after which λ begins to change and has changed, for instance [5, 400]. Numbers below 1 are shares of the run. By default
    it changes over the whole run."""

    hints: Annotated[str, Field(pattern=r"^[1-9]\d{0,5}:[1-9]\d{0,5}$")] | None = None
    """Train in two stages with a hint. The first stage is a run of its own, in a folder next to that of the second one, which starts with
    its weights. How to write it: two layers, counted from 1 as `highway networks NAME` numbers them, STUDENT:TEACHER, for instance 6:2."""

    hint_epochs: Annotated[float, Field(gt=0, le=1_000_000, strict=False)] | None = None
    """Epochs of the first stage, or below 1 a share of those of the second; by default as many as of the second."""

    hint_rate: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Learning rate of the first stage. By default that of the second, or the default of adamw, with which the first stage is trained if
    the second uses sgd: the distance to a hint is a sum, whose size depends on the teacher."""

    regressor_range: Annotated[float, Field(gt=0, le=10)] | None = None
    """The initial weights of the regressor, from the student's layer to the hint, are uniform between ± this number; by default they are
    initialised by Glorot's or He's rule."""

    stage: Stage | None = None
    """Which of the two stages with hints a run is. Filled in; set it to hints to train only the first stage."""

    weights: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Checksum of the teacher's weights. Filled in when the run starts; a repetition needs the same ones."""

    @property
    def layers(self) -> tuple[int, int]:
        """The layers of student and teacher that `hints` names."""
        student, _, teacher = (self.hints or "0:0").partition(":")
        return int(student), int(teacher)

    @property
    def in_two_stages(self) -> bool:
        """Whether a run with this section stands for both stages."""
        return self.hints is not None and self.stage is None

    def span(self, epochs: int) -> tuple[float, float]:
        """The shares of a run of this many epochs after which λ begins to change and has changed.

        >>> TeacherSpec(run="runs/wise", final_weight=1.0, weight_epochs=(5, 0.8)).span(500)
        (0.01, 0.8)
        """
        start, end = (number if number < 1 else number / max(epochs, 1) for number in self.weight_epochs or (0.0, float(epochs)))
        return start, end

    @model_validator(mode="after")
    def _check(self) -> "TeacherSpec":
        if self.weight_epochs is not None and self.final_weight is None:
            raise ValueError(f"teacher.weight_epochs = {list(self.weight_epochs)}: needs teacher.final_weight, to which the weight changes")
        if self.hints is None and self.stage is not None:
            raise ValueError(f"teacher.stage = {self.stage!r}: needs teacher.hints, for instance 6:2")
        return self
