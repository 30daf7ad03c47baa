"""TrainingSpec: the settings of the training. Does not import torch."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from highwaynet.base.specs import Mark, Spec
from highwaynet.base.text import either
from highwaynet.runs.interval import Interval
from highwaynet.runs.names import Kept
from highwaynet.runs.optimisers import TEXTS, USUAL_RATE, OptimiserName, users

Factor = Annotated[float, Field(ge=0, le=1000)]


class TrainingSpec(Spec):
    """Optimiser, schedule, weight decay, augmentation and budget; fields that are left out get the recipe's values."""

    _section: ClassVar[str] = "training."

    recipe: str | None = None
    """A named way to train: paper, released, quick (warm-up and one cycle, for few epochs) or table (AdamW and one cycle, for tables).
    `highway networks NAME` says which fit a network. By default quick for convolutional networks, table for `highway train` on a table
    or an array of features, and the settings below for other dense networks."""

    epochs: Annotated[int, Field(ge=0, le=1_000_000), Mark.VARIES] = 30
    """Passes over the training data. A recipe keeps its shape if you choose fewer. 0 keeps the weights that the run starts with."""

    batch_size: Annotated[int, Field(ge=1), Mark.VARIES] = 32
    """Samples per step. The default is reduced if there are fewer training samples. The last batch of an epoch may be smaller."""

    optimiser: Annotated[OptimiserName, Field(description=TEXTS["optimiser"]), Mark.VARIES] = "sgd"

    learning_rate: Annotated[float, Field(gt=0, le=1e6, description=TEXTS["learning_rate"]), Mark.VARIES] = USUAL_RATE

    momentum: Annotated[float, Field(ge=0, lt=1, description=TEXTS["momentum"]), Mark.VARIES] = 0.9

    nesterov: Annotated[bool, Field(description=TEXTS["nesterov"])] = False

    smoothing: Annotated[Annotated[float, Field(gt=0, lt=1)] | None, Field(description=TEXTS["smoothing"])] = None

    weight_decay: Annotated[float, Field(ge=0, le=10, description=TEXTS["weight_decay"])] = 0.0

    bias_rate: Factor = 1.0
    """Learning rate of biases (and of batch norm) as a multiple of that of the weights."""

    bias_decay: Factor = 1.0
    """Weight decay of biases (and of batch norm) as a multiple of that of the weights."""

    head_rate: Factor = 1.0
    """Learning rate of the last layer's weights as a multiple of that of the others."""

    head_decay: Factor = 1.0
    """Weight decay of the last layer's weights as a multiple of that of the others."""

    conv_rate: Factor = 1.0
    """Learning rate of convolutions, weights and biases, as a multiple of that of the other layers."""

    max_kernel_norm: Annotated[float, Field(gt=0)] | None = None
    """Largest norm of a convolution's kernel (of one map, over all channels); after each step a longer one is scaled down to it."""

    max_unit_norm: Annotated[float, Field(gt=0)] | None = None
    """Largest norm of the weights into one unit of a dense layer, in the same way."""

    schedule: Annotated[Literal["exponential", "multi-step", "one-cycle"], Mark.VARIES] = "exponential"
    """How the learning rate falls: exponential, multi-step (at the milestones), or one-cycle (a half cosine down to 0)."""

    decay: Annotated[float, Field(gt=0, le=1), Mark.VARIES] = 0.1
    """exponential: ratio of the last to the first learning rate, 1 keeps it constant; multi-step: factor at each milestone; one-cycle
    does not use it."""

    milestones: Annotated[tuple[Annotated[float, Field(gt=0, strict=False)], ...], Field(strict=False)] | None = None
    """multi-step: when the learning rate falls. Numbers below 1 are shares of the run, others are counted in `schedule_in`."""

    schedule_in: Literal["steps", "epochs"] = "steps"
    """Whether the learning rate changes every step or every epoch, and the unit of the milestones."""

    warm_up: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the run in which the learning rate first rises linearly from near 0."""

    clip_norm: Annotated[float, Field(gt=0)] | None = None
    """Largest norm of the gradient over all parameters; a longer gradient is scaled down to it."""

    clip_value: Annotated[float, Field(gt=0)] | None = None
    """Largest absolute value in a gradient; larger values are clipped to it."""

    on_divergence: Literal["stop", "rewind", "ignore"] = "stop"
    """What to do if the loss is no longer finite: stop; rewind, which returns to the last checkpoint and halves the learning rate; or
    ignore."""

    max_rewinds: Annotated[int, Field(ge=1, le=100)] = 5
    """on_divergence = rewind: maximal number of rewinds; then the run stops."""

    patience: Annotated[int, Field(ge=1)] | None = None
    """Early stopping: end the run after this many epochs without a lower validation loss (or training loss, without validation
    data)."""

    objective: str | None = None
    """Name of the objective that was passed in Python (`objective=`). By default cross-entropy, or squared error for a regression."""

    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Classification: share of each target that is spread evenly over all classes. Losses in the history are without it."""

    class_weight: Literal["balanced"] | Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(strict=False)] | None = None
    """Classification: balanced weights the loss of each sample by n / (classes · n_class), counted over the training samples, so that all
    classes count alike; numbers are the weights of the classes, in order. Losses in the history are without it; the best epoch is
    chosen by the validation loss with it."""

    weight_average: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Keep an exponential moving average of the weights, updated after every step: this share of the average stays, for instance 0.999.
    Validation and the best weights then use the average."""

    answer: Kept | None = None
    """Which weights later commands use: final (after the last epoch), best (lowest validation loss) or average. By default best if there
    are validation data; otherwise average if there is one, or final."""

    layer_drop: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Highway and residual layers: probability that a layer is closed during a step, so that it copies its input. A network that is
    trained with it keeps more of its accuracy when layers are removed later."""

    layer_drop_shape: Literal["linear", "constant"] = "linear"
    """linear: the probability rises from layer to layer, up to layer_drop for the last (stochastic depth, Huang et al. 2016);
    constant: it is the same for all."""

    companion_weight: Annotated[float, Field(ge=0, le=100)] = 0.3
    """Networks with deep supervision: weight of each companion's loss at the start; it falls linearly to 0."""

    crop: Annotated[int, Field(ge=0, le=1024)] = 0
    """Augmentation of images: pad with this many zeros on each side and cut out the original size at a random place."""

    mirror: bool = False
    """Augmentation of images: flip left and right with probability 1/2."""

    rotate: Annotated[float, Field(ge=0, le=180)] = 0.0
    """Augmentation of images: rotate by a random angle of at most this many degrees."""

    threads: Annotated[Annotated[int, Field(ge=1, le=1024)] | None, Mark.HOW, Mark.INDIFFERENT] = None
    """Number of threads; by default all cores, but `highway train` leaves out those that other programs use. spec.toml records how many.
    Bit-for-bit equal results need the same number."""

    device: Annotated[str | None, Mark.HOW, Mark.INDIFFERENT] = None
    """Device: cpu, cuda, cuda:1, mps. By default a GPU that CUDA finds, otherwise the CPU."""

    precision: Annotated[Literal["float32", "float64", "bfloat16", "float16"], Mark.HOW] = "float32"
    """Number format. bfloat16 and float16 are mixed precision: weights and validation stay in float32."""

    compile: Annotated[bool, Mark.HOW, Mark.INDIFFERENT] = False
    """Compile the network with torch.compile before the first step; this takes a while and pays off on a GPU."""

    recompute: Annotated[bool, Mark.HOW, Mark.INDIFFERENT] = False
    """For extreme depth: keep the activations of a few layers only, and recompute the others in the backward pass. Memory then grows with
    the square root of the depth, and a step takes about a third longer. The results are the same."""

    checkpoint: Annotated[str | None, Mark.HOW, Mark.INDIFFERENT] = None
    """How often the run's state is saved for resuming: a number of steps, epochs or minutes, for instance "500 steps". By default every
    minute; with on_divergence = rewind every epoch, so that the place it returns to does not depend on the clock."""

    keep: Annotated[int, Field(ge=1, le=1000), Mark.HOW, Mark.INDIFFERENT] = 2
    """How many saved states are kept, in addition to the weights with the lowest validation loss."""

    tensorboard: Annotated[bool, Mark.HOW, Mark.INDIFFERENT] = False
    """Also write losses, learning rate and speed as TensorBoard events; needs the extra tensorboard."""

    @property
    def interval(self) -> Interval:
        """How often the run's state is saved."""
        return Interval.parse(self.checkpoint or ("1 epoch" if self.on_divergence == "rewind" else "1 minute"))

    @model_validator(mode="after")
    def _check(self) -> "TrainingSpec":
        if self.answer == "average" and self.weight_average is None:
            raise ValueError("training.answer = 'average': needs training.weight_average, for instance 0.999")
        chosen = f"{self.optimiser} with momentum {self.momentum:g}"
        if self.label_smoothing and self.objective:
            raise ValueError(
                f"training.label_smoothing = {self.label_smoothing}: the objective {self.objective} is your own; smooth the targets there"
            )
        if self.class_weight and self.objective:
            raise ValueError(
                f"training.class_weight = {self.class_weight!r}: the objective {self.objective} is your own; weight the classes there"
            )
        if self.layer_drop and self.compile:
            raise ValueError(
                f"training.layer_drop = {self.layer_drop}: compiled networks cannot change at every step; omit training.compile"
            )
        if self.nesterov and (self.optimiser not in users("nesterov") or self.momentum == 0):
            raise ValueError(f"training.nesterov = true: needs {either(users('nesterov'))} with momentum, not {chosen}")
        if self.smoothing is not None and self.optimiser not in users("smoothing"):
            way = f"leave it out, or choose {either(users('smoothing'))}"
            raise ValueError(f"training.smoothing = {self.smoothing}: {self.optimiser} does not use it; {way}")
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
            raise ValueError(f"training.milestones = {list(self.milestones)}: must be in ascending order")
        return self
