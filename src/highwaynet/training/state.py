"""The state of a run that changes during training, and its conversion to and from a checkpoint."""

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from highwaynet.base.errors import InputError
from highwaynet.data.record import DataRecord
from highwaynet.networks.network import Network
from highwaynet.runs.run_records import Best, CheckpointRecord
from highwaynet.training.distribution import ALONE, World
from highwaynet.training.measuring import Tally
from highwaynet.training.objective import Objective

WEIGHTS, OPTIMISER, OBJECTIVE, AVERAGE = "network/", "optimiser/", "objective/", "average/"


@dataclass
class TrainingState:
    """Weights, optimiser state and progress of a run."""

    network: Network
    optimiser: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    record: DataRecord
    objective: Objective
    average: AveragedModel | None = None
    """The average of the weights over the steps, if the run keeps one."""
    epoch: int = 0
    """Number of finished epochs."""
    batch: int = 0
    """Number of batches of the current epoch that are done."""
    step: int = 0
    """Steps taken since the start."""
    seconds: float = 0.0
    """Time spent on the current epoch before the run was resumed."""
    rewinds: int = 0
    """Number of rewinds; each halved the learning rate."""
    saved_step: int | None = None
    """The step of the newest regular (`step`) checkpoint; None before the first."""
    went_back_to: int | None = None
    """The `saved_step` after the last rewind."""
    best: Best | None = None
    """The best epoch so far."""
    best_weights: dict[str, Tensor] | None = None
    """The weights of the best epoch, until they are saved."""
    tally: Tally = field(init=False)
    """Sums over the current epoch."""

    def __post_init__(self) -> None:
        self.tally = self._tally()

    def _tally(self, *sums: tuple[float, ...]) -> Tally:
        return Tally(self.record, *sums, squared_error=self.objective.is_squared_error, outputs=self.objective.judges_outputs)

    @property
    def measured_network(self) -> nn.Module:
        """The network that is validated and whose best weights are kept: the average if there is one."""
        return self.network if self.average is None else self.average.module

    def end_epoch(self, loss: float, *, keep_best: bool) -> None:
        """Count an epoch that ended with this loss; with `keep_best`, copy the weights if it is the best so far."""
        self.epoch, self.batch, self.seconds, self.tally = self.epoch + 1, 0, 0.0, self._tally()
        if math.isfinite(loss) and (self.best is None or loss < self.best.loss):
            self.best = Best(epoch=self.epoch, step=self.step, loss=loss)
            if keep_best:
                self.best_weights = {name: tensor.detach().clone() for name, tensor in self.measured_network.state_dict().items()}

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, buffers and the tensors of the optimiser's state, by name."""
        found = {WEIGHTS + name: tensor for name, tensor in self.network.state_dict().items()}
        found |= {OBJECTIVE + name: tensor for name, tensor in self.objective.state_dict().items()}
        if self.average is not None:
            found |= {AVERAGE + name: tensor for name, tensor in self.average.state_dict().items()}
        for name, parameter in self._parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    found[f"{OPTIMISER}{name}/{key}"] = value if value.dim() else value.clone()  # parameters may share a counter
        return found

    def _parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Iterate over the parameters of network and objective, with names."""
        yield from self.network.named_parameters()
        yield from ((OBJECTIVE + name, parameter) for name, parameter in self.objective.named_parameters())

    def scaler_state(self) -> dict[str, float]:
        """Return the state of the loss scaling for float16; empty for other types."""
        return {key: float(value) for key, value in self.scaler.state_dict().items()}

    def restore(self, tensors: Mapping[str, Tensor], record: CheckpointRecord, world: World = ALONE) -> None:
        """Load the state of a checkpoint; if it belongs to another network, raise InputError and change nothing."""
        progress = record.progress
        if progress is None:
            raise InputError("it has only weights, from which a run cannot resume")
        modules: dict[str, nn.Module] = {WEIGHTS: self.network, OBJECTIVE: self.objective}
        modules |= {} if self.average is None else {AVERAGE: self.average}
        kept = {prefix: _under(prefix, tensors) for prefix in modules}
        for prefix, module in modules.items():
            if _shapes(module.state_dict()) != _shapes(kept[prefix]):
                raise InputError(f"its weights are those of another {prefix.rstrip('/')}")
        for prefix, module in modules.items():
            module.load_state_dict(kept[prefix])
        self.optimiser.state.clear()
        for name, parameter in self._parameters():
            prefix = f"{OPTIMISER}{name}/"
            for key, tensor in tensors.items():
                if key.startswith(prefix):
                    memory = copy.copy(tensor) if tensor.dim() == 0 else tensor.to(parameter.device)
                    self.optimiser.state[parameter][key.removeprefix(prefix)] = memory
        self.epoch, self.batch, self.step = record.epoch, progress.batch, record.step
        self.went_back_to = progress.went_back_to
        self.seconds, self.rewinds, self.best, self.best_weights = progress.seconds, progress.rewinds, progress.best, None
        self.tally = self._tally(_own_sums(progress.tally, world))
        if progress.scaler:
            whole = {"growth_interval", "_growth_tracker"}
            self.scaler.load_state_dict({key: int(value) if key in whole else value for key, value in progress.scaler.items()})

    def restart(self, weights: Mapping[str, Tensor], objective: Mapping[str, Tensor]) -> None:
        """Reset to the state before the first step, with these states of network and objective."""
        self.network.load_state_dict(weights)
        self.objective.load_state_dict(objective)
        if self.average is not None:
            self.average.module.load_state_dict(weights)
            self.average.n_averaged.zero_()
        self.optimiser.state.clear()
        self.epoch = self.batch = self.step = self.rewinds = 0
        self.saved_step = None
        self.seconds, self.best, self.best_weights, self.tally = 0.0, None, None, self._tally()


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _own_sums(sums: tuple[tuple[float, ...], ...], world: World) -> tuple[float, ...]:
    """Return the sums of this process; if the number of processes has changed, the first process gets the total."""
    if len(sums) == world.size:
        return sums[world.rank]
    return tuple(map(math.fsum, zip(*sums, strict=True))) if world.leads else (0.0,) * len(sums[0])
