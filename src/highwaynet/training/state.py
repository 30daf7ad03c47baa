"""Everything that changes while a run goes on, and how it becomes a checkpoint and comes back from one."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.data.record import DataRecord
from highwaynet.networks.build import Network
from highwaynet.runs.records import Best, CheckpointRecord
from highwaynet.training.distribution import ALONE, World
from highwaynet.training.objective import Tally

WEIGHTS, OPTIMISER = "network/", "optimiser/"


@dataclass
class TrainingState:
    """Weights, optimiser, and how far the run has come."""

    network: Network
    optimiser: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    record: DataRecord
    epoch: int = 0
    """Epochs that were finished."""
    batch: int = 0
    """Batches of the epoch in progress that were trained on."""
    step: int = 0
    """Steps taken since the start."""
    seconds: float = 0.0
    """Time spent on the epoch in progress, before this process took it up."""
    rewinds: int = 0
    """How often the run went back; each time the learning rate was halved."""
    saved_step: int | None = None
    """The step of the newest checkpoint that the run made by itself; None before the first."""
    went_back_to: int | None = None
    """The `saved_step` after the run last went back."""
    best: Best | None = None
    """The best epoch so far."""
    best_weights: dict[str, Tensor] | None = None
    """Its weights, as long as they were not saved."""
    tally: Tally = field(init=False)
    """Sums over the epoch in progress."""

    def __post_init__(self) -> None:
        self.tally = Tally(self.record)

    def end_epoch(self, loss: float, *, keep_best: bool) -> None:
        """Count an epoch that ended with this loss; the weights of the best are set aside if they are to be kept."""
        self.epoch, self.batch, self.seconds, self.tally = self.epoch + 1, 0, 0.0, Tally(self.record)
        if math.isfinite(loss) and (self.best is None or loss < self.best.loss):
            self.best = Best(epoch=self.epoch, step=self.step, loss=loss)
            if keep_best:
                self.best_weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    def tensors(self) -> dict[str, Tensor]:
        """Weights, buffers and the optimiser's memory, by name."""
        found = {WEIGHTS + name: tensor for name, tensor in self.network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    found[f"{OPTIMISER}{name}/{key}"] = value
        return found

    def scaler_state(self) -> dict[str, float]:
        """The loss scaling of float16; empty in other types."""
        return {key: float(value) for key, value in self.scaler.state_dict().items()}

    def restore(self, tensors: Mapping[str, Tensor], record: CheckpointRecord, world: World = ALONE) -> None:
        """Be as the checkpoint says; raises InputError, with nothing changed, if it is of another network."""
        progress = record.progress
        if progress is None:
            raise InputError("it holds weights alone, from which a run cannot go on")
        weights = {name.removeprefix(WEIGHTS): tensor for name, tensor in tensors.items() if name.startswith(WEIGHTS)}
        own = self.network.state_dict()
        if {name: tensor.shape for name, tensor in own.items()} != {name: tensor.shape for name, tensor in weights.items()}:
            raise InputError("its weights are those of another network")
        self.network.load_state_dict(weights)
        self.optimiser.state.clear()
        for name, parameter in self.network.named_parameters():
            prefix = f"{OPTIMISER}{name}/"
            for key, tensor in tensors.items():
                if key.startswith(prefix):
                    kept = copy.copy(tensor) if tensor.dim() == 0 else tensor.to(parameter.device)
                    self.optimiser.state[parameter][key.removeprefix(prefix)] = kept
        self.epoch, self.batch, self.step = record.epoch, progress.batch, record.step
        self.went_back_to = progress.went_back_to
        self.seconds, self.rewinds, self.best, self.best_weights = progress.seconds, progress.rewinds, progress.best, None
        self.tally = Tally(self.record, _own_sums(progress.tally, world))
        if progress.scaler:
            whole = {"growth_interval", "_growth_tracker"}
            self.scaler.load_state_dict({key: int(value) if key in whole else value for key, value in progress.scaler.items()})

    def restart(self, weights: Mapping[str, Tensor]) -> None:
        """Be as before the first step."""
        self.network.load_state_dict(weights)
        self.optimiser.state.clear()
        self.epoch = self.batch = self.step = self.rewinds = 0
        self.saved_step = None
        self.seconds, self.best, self.best_weights, self.tally = 0.0, None, None, Tally(self.record)


def _own_sums(sums: tuple[tuple[float, ...], ...], world: World) -> tuple[float, ...]:
    """A process's own sums; where there are more or fewer processes than there were, the first takes all of them."""
    if len(sums) == world.size:
        return sums[world.rank]
    return tuple(map(math.fsum, zip(*sums, strict=True))) if world.leads else (0.0,) * len(sums[0])
