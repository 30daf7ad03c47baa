"""Hints: the lower layers of a network learn to predict a hidden layer of a teacher (Romero et al. 2014, https://arxiv.org/abs/1412.6550)."""

from collections.abc import Callable, Iterator
from math import prod, sqrt
from typing import Any

import torch
from torch import Generator, Tensor, nn

from highwaynet.base.errors import InputError
from highwaynet.base.randomness import generator_for
from highwaynet.data.record import DataRecord
from highwaynet.layers.conv_plain import ConvPlain
from highwaynet.layers.dense_plain import DensePlain
from highwaynet.layers.maxout import ConvMaxout, DenseMaxout
from highwaynet.layers.names import Activation
from highwaynet.networks.hidden import HiddenLayer, above, find_hidden, hidden_state
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Conv, Dense, DenseStack, HighwayConv, Plan, PlanPart, ResidualBlock
from highwaynet.runs.spec import RunSpec
from highwaynet.training.distillation import as_precise
from highwaynet.training.objective import Batch, BatchLoss, Objective
from highwaynet.training.teacher_answers import TeacherAnswers


class Hints(Objective):
    """Half the squared distance between a hidden layer of a teacher (the hint) and what a regressor makes of a layer of the student.

    The distance is summed over the values of the hint, and its mean over the samples is minimised. Only the student's layers up to the
    guided one are trained, and the regressor, which is not part of the network.

    Args:
        teacher: A trained network with the same inputs. It is not trained.
        hint: The layer of the teacher.
        guided: The layer of the student.
        regressor: Maps the output of the guided layer to the form of the hint.
    """

    def __init__(self, teacher: Network, hint: HiddenLayer, guided: HiddenLayer, regressor: nn.Module) -> None:
        super().__init__()
        self.hint, self.guided, self.regressor = hint, guided, regressor
        # No module: it is neither trained nor saved with the run.
        self._answers = TeacherAnswers(teacher, lambda network, inputs: hidden_state(network, inputs, hint))
        self._kept: list[tuple[nn.Parameter, int, Tensor]] = []

    @property
    def judges_outputs(self) -> bool:
        """False: the outputs of the network are not computed."""
        return False

    def prepare(self, network: Network, data: DataRecord) -> None:
        """Exclude the layers above the guided one from training."""
        self._kept = []
        for parameter, first in above(network, self.guided):
            if first:  # a stack that is trained in part
                self._kept.append((parameter, first, parameter.detach()[first:].clone()))
            else:
                parameter.requires_grad_(False)

    @torch.no_grad()
    def after_step(self, network: Network) -> None:
        """Restore the upper layers of a stack, which weight decay may have changed."""
        for parameter, first, before in self._kept:
            parameter[first:] = before

    def foresee(self, inputs: Iterator[Tensor], count: int) -> None:
        """Ask the teacher about all training samples, once."""
        self._answers.keep(inputs, count)

    def distance(self, network: Network, batch: Batch) -> Tensor:
        """Return the mean over the samples of half the squared distance to the hint."""
        wanted = self._answers(batch)
        guess = self.regressor(hidden_state(network, batch.inputs, self.guided))
        difference = as_precise(guess).flatten(1) - as_precise(wanted).flatten(1)
        return 0.5 * difference.square().sum(1).mean()

    def forward(self, network: Callable[..., Any], batch: Batch) -> BatchLoss:
        """Return the distance as loss and minimised value; there are no outputs."""
        distance = self.distance(network, batch)  # type: ignore[arg-type]  # a plain function has no layers
        return BatchLoss(None, distance, distance)

    def assess(self, network: Callable[..., Any], batch: Batch) -> BatchLoss:
        """Return the distance as loss."""
        return self.forward(network, batch)


def hints_for(spec: RunSpec, plan: Plan, teacher: Network) -> Hints:
    """Return the objective of the first stage.

    Raises:
        InputError: If a layer that the spec names does not exist, or the layers do not fit.
    """
    known = spec.teacher
    if known is None or known.hints is None:
        raise ValueError("the run has no hints")
    where = f"teacher.hints = {known.hints!r}"
    student_number, teacher_number = known.layers
    guided, hint = _found(where, "student", plan, student_number), _found(where, "teacher", teacher.plan, teacher_number)
    try:
        regressor = regressor_for(guided, hint, known.regressor_range, generator_for(spec.seed, "regressor"))
    except InputError as error:
        names = f"layer {student_number} of {plan.name} and layer {teacher_number} of the teacher, {teacher.plan.name}"
        raise InputError(f"{where}: {names}, do not fit: {error}") from error
    return Hints(teacher, hint, guided, regressor)


def _found(where: str, whose: str, plan: Plan, number: int) -> HiddenLayer:
    try:
        return find_hidden(plan, number)
    except InputError as error:
        raise InputError(f"{where}: the {whose}: {error}") from error


def regressor_for(guided: HiddenLayer, hint: HiddenLayer, start_range: float | None, generator: Generator) -> nn.Module:
    """Return a layer of the hint's kind from the form of the guided layer to that of the hint.

    Between maps it is a convolution without padding, whose kernel is the difference of the sizes plus 1; otherwise a dense layer.

    Raises:
        InputError: If the maps of the guided layer are smaller than those of the hint, or the differences of heights and widths differ.
    """
    pieces, activation = _kind(hint.part)
    start: dict[str, Any] = {"init": "he" if activation == "relu" else "glorot-uniform", "generator": generator}
    start |= {} if start_range is None else {"init": "uniform", "init_std": start_range / sqrt(3)}
    if len(guided.shape) == len(hint.shape) == 3:
        channels, _, _ = guided.shape
        height, width = (mine - theirs + 1 for mine, theirs in zip(guided.shape[1:], hint.shape[1:], strict=True))
        sizes = [f"{one.shape[1]}×{one.shape[2]}" for one in (guided, hint)]
        if min(height, width) < 1:
            raise InputError(
                f"the student's maps of {sizes[0]} are smaller than the teacher's of {sizes[1]}; choose a lower layer of the student"
            )
        if height != width:
            raise InputError(f"maps of {sizes[0]} and {sizes[1]} need a square kernel; choose layers whose maps have the same proportions")
        if pieces > 1:
            return ConvMaxout(channels, hint.shape[0], height, pieces, padding=0, **start)
        return ConvPlain(channels, hint.shape[0], height, padding=0, activation=activation, **start)
    inputs, outputs = prod(guided.shape), prod(hint.shape)
    if pieces > 1:
        return nn.Sequential(nn.Flatten(), DenseMaxout(inputs, outputs, pieces, **start))
    return nn.Sequential(nn.Flatten(), DensePlain(inputs, outputs, activation=activation, **start))


def _kind(part: PlanPart) -> tuple[int, Activation]:
    """Pieces and activation with which a layer can have the values of this part."""
    match part:
        case Conv() | Dense():
            return part.pieces, part.activation
        case HighwayConv() | DenseStack(kind="highway" | "plain"):
            return 1, part.activation
        case ResidualBlock():
            return 1, "relu"
    return 1, "identity"  # dense residual layers and affine maps
