"""Whether a spec and data fit together, and what changes where samples are few."""

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
from highwaynet.runs.training_spec import TrainingSpec

STEPS = 20
"""A recipe's epoch has at least about so many steps."""


def for_few_samples(spec: RunSpec, samples: int) -> RunSpec:
    """A recipe made for tens of thousands of samples, for few: smaller batches and learning rate, if they were left alone.

    Otherwise a folder of a hundred images would be one step an epoch.
    """
    training = spec.training
    if training.recipe is None:
        return with_training(spec, batch_size=samples) if samples < training.batch_size == TrainingSpec().batch_size else spec
    usual = find_recipe(training.recipe, spec.network.name, spec.network.variant).training
    if training.batch_size != usual["batch_size"] or samples >= STEPS * training.batch_size:
        return spec
    batch = min(samples, max(8, samples // STEPS))
    rate = training.learning_rate
    if rate == usual["learning_rate"] and training.optimiser == usual.get("optimiser", "sgd"):
        rate *= batch / training.batch_size
    return with_training(spec, batch_size=batch, learning_rate=rate)


class SpecChecks:
    """Checks many specs against their data, of which each is loaded once."""

    def __init__(self) -> None:
        self.loaded: dict[str, Dataset] = {}
        """The data so far, by their spec."""

    def data(self, spec: RunSpec) -> Dataset:
        """The data of a spec; raises InputError where there are none."""
        key = spec.data.model_dump_json()
        if key not in self.loaded:
            self.loaded[key] = load_dataset(spec.data)
        return self.loaded[key]

    def check(self, spec: RunSpec) -> None:
        """Raise InputError where a spec and its data do not fit together."""
        data = self.data(spec)
        record = data.preparation.record
        check_fit(for_few_samples(spec, len(data.train)), plan_of(spec.network, record.input_shape, record.outputs), data)


def check_fit(spec: RunSpec, plan: Plan, data: Dataset, processes: int = 1) -> None:
    """Raise InputError where spec, network and data do not fit together."""
    training, record = spec.training, data.preparation.record
    if (plan.input_shape, plan.outputs) != (record.input_shape, record.outputs):
        takes, gives = "×".join(map(str, plan.input_shape)), "×".join(map(str, record.input_shape))
        raise InputError(
            f"the network takes samples of {takes} values and gives {plan.outputs} outputs; {data.name} has samples of {gives} values "
            f"and needs {record.outputs}: take data of the same form, or another network"
        )
    table = describe_plan(plan)
    batches = {training.batch_size, len(data.train) % training.batch_size} - {0}
    smallest = min(share.stop - share.start for total in batches for share in (Share.of(total, n, processes) for n in range(processes)))
    if smallest == 1 and any(row.norm and prod(row.shape[1:]) == 1 for row in table.rows):
        raise InputError(
            f"training.batch_size = {training.batch_size}: with {len(data.train)} training samples a batch of one is left"
            f"{f' to one of {processes} processes' if processes > 1 else ''}, for which "
            f"{spec.network.name} has no batch norm on such small images; choose another"
        )
    if training.batch_size > len(data.train):
        raise InputError(
            f"training.batch_size = {training.batch_size}: {data.name} has {len(data.train)} training samples; choose at most that"
        )
    if training.batch_size < processes:
        raise InputError(f"training.batch_size = {training.batch_size}: {processes} processes share a batch; choose at least that")
    if training.label_smoothing and record.task != "classification":
        raise InputError(f"training.label_smoothing = {training.label_smoothing}: {data.name} has numbers to predict, not classes")
    if training.answer == "best" and not data.validation:
        raise InputError("training.answer = 'best': there are no validation data; set data.validation, for instance 0.1")
    for field in ("crop", "mirror", "rotate"):
        if getattr(training, field) and record.kind != "images":
            raise InputError(f"training.{field} = {getattr(training, field)}: augmentation is for images; {data.name} has none")
