"""The parts of a run in this process: network, objective, optimiser, batches, learning rates."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from highwaynet.base.randomness import generator_for, seed_for
from highwaynet.base.share import Share
from highwaynet.data.augmentation import Augmentation
from highwaynet.data.dataset import Augment, Split
from highwaynet.layers.dropout import Dropout
from highwaynet.layers.recomputation import recompute
from highwaynet.training.computing import computing_for
from highwaynet.training.distribution import World
from highwaynet.training.evaluation import EVALUATION_BATCH
from highwaynet.training.layer_drop import LayerDrop
from highwaynet.training.limits import NormLimits
from highwaynet.training.objective import Batch, BatchLoss, Objective
from highwaynet.training.optimiser import ThinAverage, make_optimiser
from highwaynet.training.saving import Saver
from highwaynet.training.schedule import learning_rate
from highwaynet.training.setup import SetUp
from highwaynet.training.state import TrainingState


class Fitting:
    """The parts of a run, made from its settings.

    Args:
        job: The run as `set_up` returns it.
        world: The processes that train together.
    """

    def __init__(self, job: SetUp, world: World) -> None:
        self.job, self.spec, self.data, self.run, self.world = job, job.spec, job.data, job.run, world
        training = self.training = job.spec.training
        self.computing = computing_for(training, world.local_rank)
        self.network = (job.network or job.start_network()).to(self.computing.device, self.computing.dtype)
        self.objective = job.objective.to(self.computing.device, self.computing.dtype)
        if job.network is None:  # an objective of the user's was prepared before
            self.objective.prepare(self.network, self.data.preparation.record)
        self._class_weight: Tensor | None = None
        if training.class_weight:
            main: Any = getattr(self.objective, "main", self.objective)  # of companions
            self._class_weight = main.class_weight
        if training.recompute:
            recompute(self.network)
        self.layer_drop = LayerDrop(self.network, training, job.spec.seed)
        self.limits = NormLimits([self.network, self.objective], training)
        self._forward = self._wrapped()
        self._dropouts = [module for module in self.network.modules() if isinstance(module, Dropout) and module.p > 0]
        self._augmentation = Augmentation(training.crop, training.mirror, training.rotate)
        optimiser = make_optimiser(self.network, training, self.objective)
        self.state = TrainingState(
            self.network, optimiser, self.computing.scaler(), self.data.preparation.record, self.objective, self._average()
        )
        self.saver = Saver(self.run, self.state, training.interval, training.keep, world)
        self.steps_per_epoch = math.ceil(len(self.data.train) / training.batch_size)
        self.steps = training.epochs * self.steps_per_epoch

    def _average(self) -> AveragedModel | None:
        """The average of the weights and of the statistics of batch norm; after the first step it is equal to them."""
        share = self.training.weight_average
        return None if share is None else ThinAverage(self.network, share)

    def _wrapped(self) -> nn.Module:
        """Wrap network and objective for training: compile if asked, and average gradients over processes."""
        network: nn.Module = self.network
        if self.training.compile:
            network = torch.compile(network)  # type: ignore[assignment]
        step = _Step(network, self.objective)
        if self.world.size == 1:
            return step
        device = self.computing.device
        # A user's objective may leave parameters without a gradient, for instance those of companions.
        unused = self.job.objective_start is not None or self.layer_drop.is_active
        return DistributedDataParallel(step, device_ids=None if device.index is None else [device.index], find_unused_parameters=unused)

    def forward(self, batch: Batch) -> BatchLoss:
        """Compute outputs, loss and minimised value for this process's share of a batch."""
        with self.computing.autocast():
            found: BatchLoss = self._forward(*batch)
        return found

    def factor(self, share: Share, targets: Tensor) -> float:
        """The factor of this process's mean with which the mean over the processes is that of the batch, weighted by classes or not."""
        if self._class_weight is None:
            return share.weight
        mine = self._class_weight[targets].sum() if share.weight else self._class_weight.new_zeros(())
        return float(self.world.size * mine / self.world.total(mine))

    def weighted_by_class(self, split: Split | None) -> Split | None:
        """Return a split whose samples have the weights of their classes; None if classes have none, or without a split."""
        if split is None or self._class_weight is None:
            return None
        weights = self._class_weight.double().cpu()[split.targets]
        return replace(split, weights=weights if split.weights is None else weights * split.weights)

    def foresee(self, note: Callable[[str], None], check: Callable[[], None]) -> None:
        """Let the objective see all inputs once, if the epochs do not change them; `check` is called for each batch."""
        if self._augmentation:
            return

        def inputs() -> Iterator[Tensor]:
            for number, batch in enumerate(self.data.train.batches(EVALUATION_BATCH)):
                if number == 1:  # an objective that does not need them, or for which they are too many, asks for one batch at most
                    note(f"computing once, for all {len(self.data.train):,} training samples, what is the same in every epoch")
                check()
                yield self.computing.place(*batch)[0]

        with self.computing.autocast():
            self.objective.foresee(inputs(), len(self.data.train))

    def batches(self, epoch: int, *, first: int = 0, whole: bool = False) -> Iterator[Batch]:
        """Iterate over this process's shares of an epoch's batches, from number `first` on; with `whole`, over whole batches.

        Order and augmentation depend only on the seed and the epoch. The inputs and targets are on the device of the run.
        """
        train, size = self.data.train, self.training.batch_size
        order = torch.randperm(len(train), generator=generator_for(self.spec.seed, "permutation", epoch))
        share_of = Share.of if whole else self.world.share
        batches = train.batches(size, order, self._augment(epoch), first=first, share_of=share_of)
        mine = None if train.weights is None else train.weights[train.rows]
        weights = None if mine is None else mine / mine.mean()
        for number, ((inputs, targets), chosen) in enumerate(zip(batches, order[first * size :].split(size), strict=True), start=first):
            samples = share_of(len(chosen)).cut(chosen)
            progress = ((epoch - 1) * self.steps_per_epoch + number) / self.steps
            own = None if weights is None else weights[samples]
            yield Batch(*self.computing.place(inputs, targets), progress, own, samples)

    def _augment(self, epoch: int) -> Augment | None:
        """The augmentation of an epoch: its randomness depends only on the run's seed, the epoch and the batch."""
        if not self._augmentation:
            return None
        augmentation, seed = self._augmentation, self.spec.seed
        return lambda number, images, share: augmentation.apply(images, generator_for(seed, "augmentation", epoch, number), share)

    def batch_size(self, batch: int) -> int:
        """Number of samples of a batch (counted from 0) over all processes; the last batch may have fewer."""
        return min(self.training.batch_size, len(self.data.train) - batch * self.training.batch_size)

    def rate(self, step: int) -> float:
        """Learning rate of a step by the schedule, halved for each rewind."""
        return learning_rate(self.training, step, self.steps, self.steps_per_epoch) * 0.5**self.state.rewinds

    def seed_step(self, step: int, share: Share | None) -> None:
        """Seed the global generator for a step, if dropout or a user's objective may draw from it.

        Dropout draws for the whole batch and uses the part for `share`, so that the number of processes does not matter.
        """
        if self._dropouts or self.job.objective_start is not None:
            # torch.manual_seed prepares the seeds of devices that are absent, which takes longer than the step of a small network.
            on_cpu = self.computing.device.type == "cpu"
            (torch.default_generator.manual_seed if on_cpu else torch.manual_seed)(seed_for(self.spec.seed, "dropout", step))
            for dropout in self._dropouts:
                dropout.share = share


class _Step(nn.Module):
    """Network and objective as one module, so that DistributedDataParallel averages the gradients of both."""

    def __init__(self, network: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.network, self.objective = network, objective

    def forward(self, *batch: Any) -> BatchLoss:
        found: BatchLoss = self.objective(self.network, Batch(*batch))
        return found
