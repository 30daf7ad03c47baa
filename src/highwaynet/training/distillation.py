"""Distillation: a network learns from the outputs of another one (Hinton et al. 2015, https://arxiv.org/abs/1503.02531)."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.base.text import shortened
from highwaynet.data.preparation import Preparation
from highwaynet.networks.network import Network
from highwaynet.runs.checkpoints import checksum
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network
from highwaynet.runs.spec import SPEC, RunSpec
from highwaynet.runs.stages import check_outputs
from highwaynet.runs.teacher_spec import DistanceForm, TeacherSpec
from highwaynet.training.objective import Batch, BatchLoss, Companions, Objective, has_members, means_of_members, members_as_samples
from highwaynet.training.teacher_answers import TeacherAnswers

MUST_AGREE = {
    "input_shape": "shape of samples",
    "task": "task",
    "class_names": "list of classes",
    "target_mean": "mean of targets",
    "target_std": "scale of targets",
    "target_means": "means of targets",
    "target_stds": "scales of targets",
}
"""Fields of the data's record in which a run and its teacher must agree, and their names in messages."""


class Distillation(Objective):
    """The loss of another objective, plus the weighted distance of the outputs to those of a teacher.

    For numbers the distance is the squared difference. For classes it depends on `form`, where p and q are the softmaxes of the logits of
    teacher and student, divided by the temperature T:

    - hinton: T² times the Kullback-Leibler divergence, T² · Σ p·log(p / q);
    - fitnets: the cross-entropy −Σ p·log q, as in the released files. Its gradient is that of hinton divided by T².

    The loss in the history is that of the other objective.

    Args:
        main: The objective for the targets of the data.
        teacher: A trained network with the same inputs and outputs. It is not trained.
        temperature: Divides the logits of both networks.
        weight: Weight λ of the distance.
        final_weight: The value to which the weight changes linearly; None keeps it.
        span: Shares of the run after which the weight begins to change and has changed.
        form: hinton or fitnets.
    """

    def __init__(
        self,
        main: Objective,
        teacher: Network,
        *,
        temperature: float = 3.0,
        weight: float = 1.0,
        final_weight: float | None = None,
        span: tuple[float, float] = (0.0, 1.0),
        form: DistanceForm = "hinton",
    ) -> None:
        super().__init__()
        self.main, self.temperature, self.form = main, temperature, form
        self.weight, self.final_weight, self.span = weight, weight if final_weight is None else final_weight, span
        # No module: it is neither trained nor saved with the run.
        self._answers = TeacherAnswers(teacher, lambda network, inputs: network(inputs))

    @property
    def is_squared_error(self) -> bool:
        """Whether the loss that is recorded is the mean squared error of the standardised target."""
        return self.main.is_squared_error

    def foresee(self, inputs: Iterator[Tensor], count: int) -> None:
        """Ask the teacher about all training samples, once."""
        if self.weight or self.final_weight:
            self._answers.keep(inputs, count)

    def weight_at(self, progress: float) -> float:
        """The weight of the distance after this share of the run."""
        start, end = self.span
        done = min(max((progress - start) / (end - start), 0.0), 1.0) if end > start else float(progress >= end)
        return self.weight + (self.final_weight - self.weight) * done

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of the main objective."""
        return self.main.loss(outputs, targets)

    def forward(self, network: Callable[..., Any], batch: Batch) -> BatchLoss:
        """Return outputs, their loss, and the minimised value, which includes the distance to the teacher."""
        weight = self.weight_at(batch.progress)
        if weight == 0:
            alone: BatchLoss = self.main(network, batch)
            return alone
        members = has_members(network)
        each = members_as_samples(network, batch) if members else batch
        # A fused cross-entropy gives outputs without gradients; a plain function does not offer it.
        plain = (lambda x: x) if members else partial(network)
        found: BatchLoss = self.main(network if isinstance(self.main, Companions) else plain, each)
        outputs = found.outputs
        if outputs is None:
            raise TypeError("the main objective of a distillation has to return outputs")
        wanted = self._answers(batch)
        if members:
            wanted = wanted.repeat_interleave(len(outputs) // len(wanted), dim=0)
        found = found._replace(minimised=found.minimised + weight * self.distance(outputs, wanted, each.targets))
        return means_of_members(found, len(batch.targets)) if members else found

    def distance(self, outputs: Tensor, wanted: Tensor, targets: Tensor) -> Tensor:
        """Return the mean distance of outputs to those of the teacher, both (samples, outputs)."""
        if targets.is_floating_point():
            return F.mse_loss(outputs, wanted)
        softened, aims = ((as_precise(logits) / self.temperature).log_softmax(1) for logits in (outputs, wanted))
        if self.form == "fitnets":
            return -(aims.exp() * softened).sum(1).mean()
        return F.kl_div(softened, aims, reduction="batchmean", log_target=True) * self.temperature**2


def as_precise(values: Tensor) -> Tensor:
    """Return values in float32 if their format is less precise, otherwise as they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def with_teacher(spec: RunSpec, preparation: Preparation) -> tuple[RunSpec, Network | None]:
    """Load the teacher of a run, if it has one; returns the spec, to which the checksum of its weights is added, and the teacher.

    Raises:
        InputError: If there is no such run, it has not finished, its weights are not those that the spec names, or it does not fit the
            data.
    """
    if spec.teacher is None:
        return spec, None
    network, teacher = _load(spec.teacher, preparation)
    return spec.model_copy(update={"teacher": teacher}), network


def distilled(objective: Objective, spec: RunSpec, teacher: Network | None) -> Objective:
    """Return the objective that also imitates the teacher, if there is one."""
    known = spec.teacher
    if teacher is None or known is None:
        return objective
    span = known.span(spec.training.epochs)
    return Distillation(
        objective,
        teacher,
        temperature=known.temperature,
        weight=known.weight,
        final_weight=known.final_weight,
        span=span,
        form=known.form,
    )


def _load(spec: TeacherSpec, preparation: Preparation) -> tuple[Network, TeacherSpec]:
    where, run = f"teacher.run = {spec.run!r}", RunDirectory(Path(spec.run))
    if not (run.path / SPEC).is_file():
        raise InputError(f"{where}: there is no run directory; name the folder of a finished run")
    try:
        if not run.finished and spec.checkpoint is None:
            run.resolve("final")  # raises an error that says how the run ended, and how to continue it
        check_outputs(run.read_spec(), run.path)
        network, known = load_network(run, spec.checkpoint), run.load_preparation()
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    found = checksum(network.state_dict())
    if spec.weights not in {None, found}:
        raise InputError(
            f"{where}: its weights are not those that the run started with; restore them, or omit teacher.weights in a new run"
        )
    mine, theirs = preparation.record, known.record
    for field, what in MUST_AGREE.items():
        if getattr(mine, field) != getattr(theirs, field):
            both = f"{_short(getattr(theirs, field))}, here {_short(getattr(mine, field))}"
            raise InputError(
                f"{where}: it was trained with another {what} ({both}); choose a teacher that was trained on the same kind of data"
            )
    if theirs.preprocessing != mine.preprocessing:
        steps, here = list(theirs.preprocessing), list(mine.preprocessing)
        way = f'to prepare them as for the teacher: --set "data.preprocessing={steps}"'
        raise InputError(f"{where}: its inputs are prepared in another way ({steps}, here {here}); {way}")
    if not _prepared_alike(preparation, known):
        raise InputError(
            f"{where}: its inputs are prepared in another way, because it was trained on other samples; train both on the same ones"
        )
    return network, spec.model_copy(update={"weights": found})


def _short(value: object) -> str:
    return shortened(str(list(value) if isinstance(value, tuple) else value), 60)


def _prepared_alike(one: Preparation, two: Preparation) -> bool:
    """Whether the same raw sample becomes the same input."""
    if one.record.encoder != two.record.encoder:
        return False
    mine, theirs = one.preprocessing.state, two.preprocessing.state
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)
