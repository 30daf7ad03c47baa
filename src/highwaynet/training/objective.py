"""Objectives: what a run minimises. The training loop calls an objective and does not know what it computes."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet.data.names import Task
from highwaynet.data.record import DataRecord
from highwaynet.kernels.dense_layer import cross_entropy
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Companion, Plan
from highwaynet.runs.training_spec import TrainingSpec


class Batch(NamedTuple):
    """What an objective gets for one step."""

    inputs: Tensor
    """(samples, ...), preprocessed."""
    targets: Tensor
    """(samples,): class numbers, or standardised numbers; (samples, targets) for several numbers."""
    progress: float = 0.0
    """How much of the run is done, from 0 to 1."""
    weights: Tensor | None = None
    """(samples,): how much each sample counts, 1 on average over the training samples; None if all count alike."""
    samples: Tensor | None = None
    """(samples,): the number of each sample among the training samples, from 0; None for other samples."""


class BatchLoss(NamedTuple):
    """What an objective returns for one step."""

    outputs: Tensor | None
    """Outputs of the network, (samples, outputs); metrics are computed from them. None if `judges_outputs` is False."""
    loss: Tensor
    """The mean loss, a scalar; it goes into the history."""
    minimised: Tensor
    """The scalar whose gradients change the weights; usually the loss."""


class Objective(nn.Module):
    """What a run minimises and how it measures a loss. Write your own by overriding `loss`, or `forward` for full control.

    Without either it is cross-entropy for classes and squared error for numbers. It is a module: its own parameters and buffers are
    trained, saved and restored with those of the network. Modules inside it keep their mode: a teacher in evaluation mode stays in it.

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
        """Its name in the spec of the run."""
        return type(self).__name__

    @property
    def is_squared_error(self) -> bool:
        """Whether, for numbers, the loss is the mean squared error of the standardised target."""
        usual = {Objective.loss, Regression.loss}, {Objective.forward, Regression.forward}
        return type(self).loss in usual[0] and type(self).forward in usual[1]

    @property
    def judges_outputs(self) -> bool:
        """Whether the loss is one of the network's outputs, from which metrics then follow."""
        return True

    def prepare(self, network: Network, data: DataRecord) -> None:
        """Called once before training, with the network that will be trained and the description of the data."""

    def foresee(self, inputs: Iterator[Tensor], count: int) -> None:
        """Called before training if no sample is augmented, so that the inputs are the same in every epoch.

        It is called twice: with the two samples of the trial before training, and then with all, which replace them.

        Args:
            inputs: Batches of the inputs of all training samples, in the order to which `Batch.samples` refers. Made when asked for.
            count: Number of samples.
        """

    def after_step(self, network: Network) -> None:
        """Called after each update of the weights."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a batch, a scalar; used in training and in validation.

        Args:
            outputs: Outputs of the network: (samples, classes), or (samples,) for numbers.
            targets: (samples,): class numbers, or standardised numbers.
        """
        return F.mse_loss(outputs, targets) if targets.is_floating_point() else cross_entropy(outputs, targets)

    def measure(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of outputs in the shape that networks give them: (samples, classes), or (samples, 1) for numbers."""
        return self.loss(outputs.squeeze(1) if targets.is_floating_point() and targets.dim() == 1 else outputs, targets)

    def measure_weighted(self, outputs: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Return the mean of loss · weight over the samples; without weights, the same as `measure`."""
        if weights is None:
            return self.measure(outputs, targets)
        one_by_one = torch.stack([self.measure(outputs[row : row + 1], targets[row : row + 1]) for row in range(len(targets))])
        return (one_by_one * weights.to(one_by_one)).mean()

    def forward(self, network: Callable[..., Any], batch: Batch) -> BatchLoss:
        """Return outputs, loss and minimised value for one step; members of a network learn on their own."""
        if has_members(network):
            return _for_members(self, network, batch)
        outputs = network(batch.inputs)
        loss = self.measure_weighted(outputs, batch.targets, batch.weights)
        return BatchLoss(outputs, loss, loss)

    def assess(self, network: Callable[..., Any], batch: Batch) -> BatchLoss:
        """Return outputs and loss for a batch of validation samples."""
        outputs = network(batch.inputs)
        loss = self.measure_weighted(outputs, batch.targets, batch.weights)
        return BatchLoss(outputs, loss, loss)


class Classification(Objective):
    """Mean cross-entropy: outputs (samples, classes), targets class numbers.

    Args:
        label_smoothing: Share of each target that is spread evenly over all classes in what is minimised; the loss is without it.
        class_weight: Weight of each class in what is minimised, (classes,), for instance `balanced_weights`; the loss is without it. The
            weighted sum is divided by the sum of the samples' weights, as in torch.
    """

    class_weight: Tensor | None

    def __init__(self, label_smoothing: float = 0.0, class_weight: Tensor | None = None) -> None:
        super().__init__()
        self.label_smoothing = label_smoothing
        self.register_buffer("class_weight", class_weight, persistent=False)  # it follows from the data, so no checkpoint needs it

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy."""
        return cross_entropy(outputs, targets)

    def forward(self, network: Callable[..., Any], batch: Batch) -> BatchLoss:
        """Return outputs and loss for one step; networks that have a fused cross-entropy compute it themselves."""
        usual = batch.weights is None and self.class_weight is None and not self.label_smoothing
        if has_members(network) and not (usual and _computes_loss(network) and type(self).loss is Classification.loss):
            return _for_members(self, network, batch)
        if batch.weights is not None:
            return self._weighted(network, batch, batch.weights)
        weight = self.class_weight
        if self.label_smoothing or weight is not None:
            outputs = network(batch.inputs)
            logits = outputs if weight is None else outputs.to(weight.dtype)  # they may be bfloat16
            counts = weight is None or weight[batch.targets].any()  # if no sample counts, torch divides 0 by 0
            minimised = F.cross_entropy(logits, batch.targets, weight, label_smoothing=self.label_smoothing) if counts else 0 * logits.sum()
            return BatchLoss(outputs, self.measure(outputs, batch.targets), minimised)
        if not _computes_loss(network) or type(self).loss is not Classification.loss:
            return super().forward(network, batch)
        outputs, loss = network(batch.inputs, targets=batch.targets)
        return BatchLoss(outputs, loss, loss)

    def measure_weighted(self, outputs: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Return the mean of cross-entropy · weight over the samples."""
        if weights is None or type(self).loss is not Classification.loss:
            return super().measure_weighted(outputs, targets, weights)
        return (F.cross_entropy(outputs, targets, reduction="none") * weights.to(outputs)).mean()

    def _weighted(self, network: Callable[..., Any], batch: Batch, weights: Tensor) -> BatchLoss:
        """The same for samples with weights: a class counts as much as its samples do, times its own weight."""
        outputs = network(batch.inputs)
        weights = weights.to(outputs)
        both = weights if self.class_weight is None else weights * self.class_weight.to(outputs)[batch.targets]
        losses = F.cross_entropy(outputs, batch.targets, reduction="none", label_smoothing=self.label_smoothing)
        scale = 1 if self.class_weight is None else weights.sum() / both.sum().clamp(min=torch.finfo(both.dtype).tiny)
        return BatchLoss(outputs, self.measure_weighted(outputs, batch.targets, weights), (losses * both).mean() * scale)


class Regression(Objective):
    """Mean squared error: outputs (samples,), targets standardised numbers."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean squared error."""
        return F.mse_loss(outputs, targets)

    def forward(self, network: Callable[..., Any], batch: Batch) -> BatchLoss:
        """Return outputs and loss for one step; networks that have a fused squared error compute it themselves."""
        if batch.weights is not None or not _computes_loss(network) or type(self).loss is not Regression.loss:
            return super().forward(network, batch)
        outputs, loss = network(batch.inputs, targets=batch.targets)
        return BatchLoss(outputs, loss, loss)

    def measure_weighted(self, outputs: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Return the mean of squared error · weight over the samples."""
        if weights is None or type(self).loss is not Regression.loss:
            return super().measure_weighted(outputs, targets, weights)
        errors = (outputs.view_as(targets) - targets).square()
        return ((errors if errors.dim() == 1 else errors.mean(1)) * weights.to(outputs)).mean()


class Companions(Objective):
    """Deep supervision (Lee et al. 2014): adds the losses of companion classifiers, with a weight that falls linearly to 0.

    Args:
        main: The objective of the outputs, and of each companion.
        weight: The weight of a companion's loss at the start.
    """

    def __init__(self, main: Objective, weight: float) -> None:
        super().__init__()
        self.main, self.weight = main, weight

    @property
    def is_squared_error(self) -> bool:
        """Whether the loss that is recorded is the mean squared error of the standardised target."""
        return self.main.is_squared_error

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of `main`."""
        return self.main.loss(outputs, targets)

    def forward(self, network: Callable[..., Any], batch: Batch) -> BatchLoss:
        """Return outputs, their loss, and the minimised value, which includes the losses of the companions."""
        outputs, companions = network(batch.inputs, return_companions=True)
        main, *others = (self.main(lambda _, given=given: given, batch) for given in (outputs, *companions))
        helped = main.minimised + self.weight * (1 - batch.progress) * sum(other.minimised for other in others)
        return BatchLoss(outputs, main.loss, helped)


def _computes_loss(network: Callable[..., Any]) -> bool:
    return getattr(network, "takes_targets", False)


def has_members(network: Callable[..., Any]) -> bool:
    """Whether a network is several in one, which learn on their own."""
    return getattr(network, "members", None) is not None


def members_as_samples(network: Any, batch: Batch) -> Batch:
    """Return a batch whose inputs are the outputs of each member, as if they were those of more samples."""
    outputs = network.by_member(batch.inputs)  # (samples, members, outputs)
    count = outputs.shape[1]
    weights = None if batch.weights is None else batch.weights.repeat_interleave(count)
    return Batch(outputs.flatten(0, 1), batch.targets.repeat_interleave(count, dim=0), batch.progress, weights)


def means_of_members(found: BatchLoss, samples: int) -> BatchLoss:
    """Return the outputs of members that counted as samples as their means."""
    outputs = cast("Tensor", found.outputs).detach()
    return found._replace(outputs=outputs.view(samples, -1, outputs.shape[1]).mean(1))


def _for_members(objective: Objective, network: Any, batch: Batch) -> BatchLoss:
    """Apply an objective to the outputs of each member; the outputs are the members' means."""
    return means_of_members(objective(lambda x: x, members_as_samples(network, batch)), len(batch.targets))


def balanced_weights(counts: Tensor) -> Tensor:
    """Return weights with which all classes count alike, n / (classes · n_class); classes without samples are left out and get 0.

    >>> import torch
    >>> balanced_weights(torch.tensor([6, 2, 0, 4])).tolist()
    [0.6666666865348816, 2.0, 0.0, 1.0]
    """
    present = counts > 0
    return torch.where(present, counts.sum() / (present.sum() * counts.clamp(min=1)), 0.0)


def standard_objective(task: Task) -> Objective:
    """Return cross-entropy for classification, squared error for regression."""
    return Classification() if task == "classification" else Regression()


def objective_for(plan: Plan, data: DataRecord, training: TrainingSpec, class_weight: Tensor | None = None) -> Objective:
    """Return the objective of a run for which the user passed none; `class_weight` has the weights of the classes, if they differ."""
    main = Classification(training.label_smoothing, class_weight) if data.task == "classification" else Regression()
    return Companions(main, training.companion_weight) if any(isinstance(part, Companion) for part in plan.parts) else main
