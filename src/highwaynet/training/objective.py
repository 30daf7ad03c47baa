"""Objectives: what a run minimises. An objective is an object; the training loop knows nothing of what it computes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet.base.errors import InputError
from highwaynet.data.names import Task
from highwaynet.data.record import DataRecord
from highwaynet.kernels.dense_layer import cross_entropy
from highwaynet.networks.build import Network
from highwaynet.networks.plan import Companion, Plan


class Batch(NamedTuple):
    """What an objective gets for one step."""

    inputs: Tensor
    """(samples, ...), preprocessed."""
    targets: Tensor
    """(samples,): class numbers, or standardised numbers."""
    progress: float = 0.0
    """How much of the run is done, from 0 to 1."""


class BatchLoss(NamedTuple):
    """What an objective returns for one step."""

    outputs: Tensor
    """What the network gives, (samples, outputs); metrics are taken from it."""
    loss: Tensor
    """The mean loss of these outputs, a scalar; it goes into the history."""
    minimised: Tensor
    """The scalar whose gradients change the weights; usually the loss."""


class Objective(nn.Module):
    """What a run minimises and how it measures a loss. Write your own by overriding `loss`, or `forward` for full control.

    It is a module: parameters and buffers of its own are trained, saved and restored with the network's.

    >>> import torch
    >>> class Smoothed(Objective):
    ...     def loss(self, outputs, targets):
    ...         return nn.functional.cross_entropy(outputs, targets, label_smoothing=0.1)
    >>> outputs, targets = torch.zeros(2, 3), torch.tensor([0, 1])
    >>> round(Smoothed()(lambda x: x, Batch(outputs, targets)).loss.item(), 4)
    1.0986
    """

    @property
    def name(self) -> str:
        """How the run's spec calls it."""
        return type(self).__name__

    @property
    def is_squared_error(self) -> bool:
        """Whether the loss is the mean squared error of the standardised target."""
        return type(self).loss is Regression.loss

    def prepare(self, network: Network, data: DataRecord) -> None:
        """Called once before training, with the network that will be trained and what is known about the data."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch, a scalar; in training and in validation."""
        raise NotImplementedError(f"{self.name} has no loss: override loss(outputs, targets)")

    def forward(self, network: Callable[..., Any], batch: Batch) -> BatchLoss:
        """One step's outputs, loss, and what is minimised."""
        outputs = network(batch.inputs)
        loss = self.loss(outputs, batch.targets)
        return BatchLoss(outputs, loss, loss)


class Classification(Objective):
    """Mean cross-entropy: outputs (batch, classes), targets class numbers."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy."""
        return cross_entropy(outputs, targets)

    def forward(self, network: Callable[..., Any], batch: Batch) -> BatchLoss:
        """As every objective; networks that can compute the cross-entropy themselves do."""
        if not getattr(network, "takes_targets", False) or type(self).loss is not Classification.loss:
            return super().forward(network, batch)
        outputs, loss = network(batch.inputs, targets=batch.targets)
        return BatchLoss(outputs, loss, loss)


class Regression(Objective):
    """Mean squared error: outputs (batch, 1), targets standardised numbers."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean squared error."""
        return F.mse_loss(outputs.squeeze(1), targets)


class Companions(Objective):
    """Deep supervision (Lee et al. 2014): companion classifiers help, each with a weight that falls in a line to 0.

    Args:
        main: The objective of the outputs, and of each companion.
        weight: The weight of a companion's loss at the start.
    """

    def __init__(self, main: Objective, weight: float) -> None:
        super().__init__()
        self.main, self.weight = main, weight

    @property
    def is_squared_error(self) -> bool:
        """Whether the loss is the mean squared error of the standardised target."""
        return self.main.is_squared_error

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of the outputs."""
        return self.main.loss(outputs, targets)

    def forward(self, network: Callable[..., Any], batch: Batch) -> BatchLoss:
        """The loss of the outputs, and what is minimised: with the companions' losses."""
        outputs, companions = network(batch.inputs, return_companions=True)
        loss = self.loss(outputs, batch.targets)
        others = sum(self.loss(companion, batch.targets) for companion in companions)
        return BatchLoss(outputs, loss, loss + self.weight * (1 - batch.progress) * others)


def standard_objective(task: Task) -> Objective:
    """Cross-entropy for classes, squared error for numbers."""
    return Classification() if task == "classification" else Regression()


def objective_for(plan: Plan, data: DataRecord, companion_weight: float) -> Objective:
    """The objective of a run that brings none of its own."""
    main = standard_objective(data.task)
    return Companions(main, companion_weight) if any(isinstance(part, Companion) for part in plan.parts) else main


def rehearse(objective: Objective, network: Network, batch: Batch) -> None:
    """Raise InputError if an objective does not give what training needs; the network stays as it is."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()  # batch norm counts nothing
    try:
        found = objective(network, batch)
    finally:
        for module, mode in modes:
            module.training = mode
    if not isinstance(found, BatchLoss):
        raise InputError(f"objective {objective.name}: forward gives {type(found).__name__}; it should give a BatchLoss")
    for field in ("loss", "minimised"):
        value = getattr(found, field)
        if not isinstance(value, Tensor) or value.dim() != 0:
            form = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise InputError(f"objective {objective.name}: its {field} is {form}; it should be a scalar tensor, the mean over the batch")
    if not found.minimised.requires_grad:
        raise InputError(f"objective {objective.name}: what is minimised does not depend on the network's outputs through torch")
    if not isinstance(found.outputs, Tensor) or found.outputs.dim() != 2 or len(found.outputs) != len(batch.targets):
        raise InputError(f"objective {objective.name}: its outputs should be a tensor (samples, outputs), as the network gives them")
