"""Checks that spec, network and data fit together, and adjustments for few samples."""

from math import prod

from highwaynet.base.errors import InputError
from highwaynet.base.share import Share
from highwaynet.data.dataset import Dataset
from highwaynet.data.load import load_dataset
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.description import describe_plan
from highwaynet.networks.plan import Plan
from highwaynet.runs.recipes import find_recipe
from highwaynet.runs.spec import RunSpec, with_training
from highwaynet.runs.suited import TABLE
from highwaynet.runs.training_spec import TrainingSpec

STEPS = 20
"""An epoch of a recipe should have at least about this many steps."""


def for_few_samples(spec: RunSpec, samples: int) -> RunSpec:
    """Reduce batch size and learning rate for small data sets, unless the user has set them.

    Recipes are made for tens of thousands of samples; with theirs, an epoch of a hundred images would be one step.
    """
    training = spec.training
    if training.recipe is None:
        return with_training(spec, batch_size=samples) if samples < training.batch_size == TrainingSpec().batch_size else spec
    if training.recipe == TABLE:
        return with_training(spec, batch_size=min(samples, training.batch_size))
    usual = find_recipe(training.recipe, spec.network.name, spec.network.variant).training
    if training.batch_size != usual["batch_size"] or samples >= STEPS * training.batch_size:
        return spec
    batch = min(samples, max(8, samples // STEPS))
    rate = training.learning_rate
    if rate == usual["learning_rate"] and training.optimiser == usual.get("optimiser", "sgd"):
        rate *= batch / training.batch_size
    return with_training(spec, batch_size=batch, learning_rate=rate)


class SpecChecks:
    """Checks many specs against their data; each data set is loaded once."""

    def __init__(self) -> None:
        self.loaded: dict[str, Dataset] = {}
        """Data sets loaded so far, by their spec as JSON."""

    def data(self, spec: RunSpec) -> Dataset:
        """Return the data of a spec; raises InputError if they cannot be loaded."""
        key = spec.data.model_dump_json()
        if key not in self.loaded:
            self.loaded[key] = load_dataset(spec.data)
        return self.loaded[key]

    def check(self, spec: RunSpec) -> None:
        """Raise InputError if a spec and its data do not fit together."""
        data = self.data(spec)
        record = data.preparation.record
        check_fit(for_few_samples(spec, len(data.train)), plan_of(spec.network, record.network_shape, record.outputs), data)


def check_fit(spec: RunSpec, plan: Plan, data: Dataset, processes: int = 1) -> None:
    """Raise InputError if spec, network and data do not fit together."""
    training, record = spec.training, data.preparation.record
    if (plan.input_shape, plan.outputs) != (record.network_shape, record.outputs):
        takes, gives = "×".join(map(str, plan.input_shape)), "×".join(map(str, record.network_shape))
        raise InputError(
            f"the network takes samples of {takes} values and gives {plan.outputs} outputs; {data.name} has samples of {gives} values "
            f"and needs {record.outputs}: use data of the same form, or another network"
        )
    table = describe_plan(plan)
    batches = {training.batch_size, len(data.train) % training.batch_size} - {0}
    smallest = min(share.stop - share.start for total in batches for share in (Share.of(total, n, processes) for n in range(processes)))
    if smallest == 1 and any(row.norm and prod(row.shape[1:]) == 1 for row in table.rows):
        raise InputError(
            f"training.batch_size = {training.batch_size}: with {len(data.train)} training samples a batch of one sample is left"
            f"{f' to one of {processes} processes' if processes > 1 else ''}, for which "
            f"the batch norm of {spec.network.name} is undefined on such small images; choose another batch size"
        )
    if training.batch_size > len(data.train):
        raise InputError(
            f"training.batch_size = {training.batch_size}: {data.name} has {len(data.train)} training samples; choose at most this many"
        )
    if training.batch_size < processes:
        raise InputError(f"training.batch_size = {training.batch_size}: {processes} processes share a batch; choose at least {processes}")
    if training.label_smoothing and record.task != "classification":
        raise InputError(f"training.label_smoothing = {training.label_smoothing}: {data.name} has numbers to predict, not classes")
    if training.class_weight and record.task != "classification":
        raise InputError(f"training.class_weight = {training.class_weight!r}: {data.name} has numbers to predict, not classes; omit it")
    if isinstance(training.class_weight, tuple) and len(training.class_weight) != record.outputs:
        given = len(training.class_weight)
        raise InputError(f"training.class_weight has {given} numbers: {data.name} has {record.outputs} classes; give one for each")
    if training.class_weight and spec.teacher is not None and processes > 1:
        raise InputError(
            f"training.class_weight = {training.class_weight!r}: with a teacher, this needs a single process; omit one of them"
        )
    if training.layer_drop and not plan.closable:
        raise InputError(f"training.layer_drop = {training.layer_drop}: {plan.name} has no highway or residual layers; omit it")
    if training.answer == "best" and not data.validation:
        raise InputError("training.answer = 'best': there are no validation data; set data.validation, for instance 0.1")
    for field in ("crop", "mirror", "rotate"):
        if getattr(training, field) and record.kind != "images":
            raise InputError(f"training.{field} = {getattr(training, field)}: augmentation needs images, and {data.name} has none; omit it")
