"""TrainingSpec: how the weights change. Free of torch."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from highwaynet.base.specs import Spec
from highwaynet.runs.interval import Interval

COMPUTING = ("threads", "device", "precision", "compile", "recompute", "checkpoint", "keep", "tensorboard")
"""Fields that say how a run is computed and kept, not what is learned: they stay when another recipe is chosen."""

Factor = Annotated[float, Field(ge=0, le=1000)]


class TrainingSpec(Spec):
    """Optimiser, schedule, weight decay, augmentation and budget; a recipe fills in what is left out."""

    _section: ClassVar[str] = "training."

    recipe: str | None = None
    """A named way to train: paper, released or quick (warm-up and one cycle, for few epochs). `highway networks NAME` says which fit a
    network. By default quick for convolutional networks, and the settings below for dense ones."""

    epochs: Annotated[int, Field(ge=0, le=1_000_000)] = 30
    """Passes over the training data. A recipe keeps its shape when they are fewer. 0 keeps the weights that the run starts with."""

    batch_size: Annotated[int, Field(ge=1)] = 32
    """Samples per step; left alone, all training samples where there are fewer. The last batch of an epoch may be smaller."""

    optimiser: Literal["sgd", "rmsprop", "adamw"] = "sgd"
    """sgd, rmsprop or adamw."""

    learning_rate: Annotated[float, Field(gt=0, le=1e6)] = 0.2
    """Learning rate at its highest. By default the recipe's; without one 0.2 for dense highway networks, 0.003 for dense plain and
    residual ones."""

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Momentum; 0 is plain SGD. For adamw the first of its two averages."""

    nesterov: bool = False
    """Nesterov's momentum instead of the classical one; sgd alone."""

    smoothing: Annotated[float, Field(gt=0, lt=1)] | None = None
    """How slowly the mean square of the gradients changes: rmsprop (default 0.99), adamw (default 0.999)."""

    weight_decay: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Weight decay: sgd and rmsprop add this share of each weight to its gradient, adamw takes it off directly."""

    bias_rate: Factor = 1.0
    """Learning rate of biases (and of batch norm) as a multiple of that of the weights."""

    bias_decay: Factor = 1.0
    """Weight decay of biases (and of batch norm) as a multiple of that of the weights."""

    head_rate: Factor = 1.0
    """Learning rate of the last layer's weights as a multiple of that of the others."""

    head_decay: Factor = 1.0
    """Weight decay of the last layer's weights as a multiple of that of the others."""

    schedule: Literal["exponential", "multi-step", "one-cycle"] = "exponential"
    """How the learning rate falls: exponential, multi-step (at the milestones), or one-cycle (a half cosine down to 0)."""

    decay: Annotated[float, Field(gt=0, le=1)] = 0.1
    """exponential: ratio of the last to the first learning rate, 1 keeps it constant; multi-step: factor at each milestone; one-cycle
    does not use it."""

    milestones: Annotated[tuple[Annotated[float, Field(gt=0, strict=False)], ...], Field(strict=False)] | None = None
    """multi-step: when the learning rate falls. Numbers below 1 are shares of the run, others are counted in `schedule_in`."""

    schedule_in: Literal["steps", "epochs"] = "steps"
    """Whether the learning rate changes from step to step or from epoch to epoch, and what milestones count."""

    warm_up: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the run in which the learning rate first rises, in a line, from near 0."""

    clip_norm: Annotated[float, Field(gt=0)] | None = None
    """Longest gradient, over all parameters together: longer ones are shortened to it."""

    clip_value: Annotated[float, Field(gt=0)] | None = None
    """Largest number in a gradient: larger ones are cut to it, of either sign."""

    on_divergence: Literal["stop", "rewind", "ignore"] = "stop"
    """What happens when the loss is no longer finite: stop; rewind, which goes back to the last checkpoint and halves the learning rate; or
    ignore."""

    max_rewinds: Annotated[int, Field(ge=1, le=100)] = 5
    """on_divergence = rewind: how often, before the run stops all the same."""

    patience: Annotated[int, Field(ge=1)] | None = None
    """Early stopping: end the run after so many epochs without a lower validation loss (training loss where nothing is kept for
    validation)."""

    objective: str | None = None
    """The name of an objective of your own, which was given in Python (`objective=`); by default cross-entropy, or squared error."""

    companion_weight: Annotated[float, Field(ge=0, le=100)] = 0.3
    """Networks with deep supervision: weight of each companion's loss at the start; it falls in a line to 0."""

    crop: Annotated[int, Field(ge=0, le=1024)] = 0
    """Augmentation of images: pad with this many zeros on each side and cut out the original size at a random place."""

    mirror: bool = False
    """Augmentation of images: flip left and right with probability 1/2."""

    rotate: Annotated[float, Field(ge=0, le=180)] = 0.0
    """Augmentation of images: turn by a random angle of at most so many degrees."""

    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Threads to compute with; by default all cores, and the run's spec says how many. Equal numbers to the bit need equally many."""

    device: str | None = None
    """What computes: cpu, cuda, cuda:1, mps. By default a GPU that CUDA finds, else the processor."""

    precision: Literal["float32", "float64", "bfloat16", "float16"] = "float32"
    """Numbers to compute with. bfloat16 and float16 are mixed: weights and validation stay in float32."""

    compile: bool = False
    """Compile the network with torch.compile before the first step; that takes a while and pays on a GPU."""

    recompute: bool = False
    """For extreme depth: keep activations at a few layers alone and compute the others again in the backward pass. Memory then grows with
    the square root of depth, and a step takes about a third longer; the numbers stay the same."""

    checkpoint: str | None = None
    """How often the run's state is saved, so that it can be resumed: a number of steps, epochs or minutes, for instance "500 steps". By
    default every minute; with on_divergence = rewind every epoch, so that where it goes back to does not depend on the clock."""

    keep: Annotated[int, Field(ge=1, le=1000)] = 2
    """How many saved states are kept; the weights with the lowest validation loss are kept besides."""

    tensorboard: bool = False
    """Also write losses, learning rate and speed as TensorBoard events; needs the extra tensorboard."""

    @property
    def interval(self) -> Interval:
        """How often the run's state is saved."""
        return Interval.parse(self.checkpoint or ("1 epoch" if self.on_divergence == "rewind" else "1 minute"))

    @model_validator(mode="after")
    def _check(self) -> "TrainingSpec":
        if self.nesterov and (self.optimiser != "sgd" or self.momentum == 0):
            raise ValueError(f"training.nesterov = true: needs sgd with momentum, not {self.optimiser} with momentum {self.momentum:g}")
        if self.smoothing is not None and self.optimiser == "sgd":
            raise ValueError(f"training.smoothing = {self.smoothing}: sgd has none; leave it out, or choose rmsprop or adamw")
        if (self.schedule == "multi-step") != bool(self.milestones):
            way = (
                "needs training.milestones" if self.schedule == "multi-step" else "has no milestones; leave them out, or choose multi-step"
            )
            raise ValueError(f"training.schedule = {self.schedule!r}: {way}")
        if self.device is not None and not re.fullmatch(r"cpu|mps|(cuda|xpu)(:\d+)?", self.device):
            raise ValueError(f"training.device = {self.device!r}: should be cpu, cuda, cuda:N, xpu, xpu:N or mps")
        if self.checkpoint is not None:
            try:
                Interval.parse(self.checkpoint)
            except ValueError as error:
                raise ValueError(f"training.checkpoint = {self.checkpoint!r}: {error}") from error
        if self.milestones and list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"training.milestones = {list(self.milestones)}: must rise")
        return self
