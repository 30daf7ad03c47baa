"""Trying an objective on two samples before anything is written."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from highwaynet.base.errors import InputError
from highwaynet.data.record import DataRecord
from highwaynet.networks.network import Network
from highwaynet.training.measuring import Tally
from highwaynet.training.objective import Batch, BatchLoss, Objective


def rehearse(objective: Objective, network: Network, batch: Batch, data: DataRecord, *, foreseen: bool) -> dict[str, Tensor]:
    """Try an objective on two samples, which it sees before if `foreseen`; raise InputError if it does not return what training needs.

    Returns the state of the objective before the first step. Network, objective and torch's generator are left unchanged.
    """
    with _one_sentence(objective, "prepare(network, data)"):
        objective.prepare(network, data)
    own = {id(parameter) for parameter in network.parameters()}
    if any(id(parameter) in own for parameter in objective.parameters()):
        name = objective.name
        raise InputError(
            f"objective {name}: it holds the network as a submodule, so its weights would be trained twice; keep it in a list, [network]"
        )
    state = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    twin = copy.deepcopy(network).eval()  # batch norm keeps its statistics
    with torch.random.fork_rng(devices=[]):
        if foreseen:
            with _one_sentence(objective, "foresee(inputs, count)"):
                objective.foresee(iter([batch.inputs]), len(batch.inputs))
        with _one_sentence(objective, "forward(network, batch)"):
            found = objective(twin, batch)
        _check(objective, found, batch)
        with _one_sentence(objective, "the gradient of what is minimised"):
            gradients = torch.autograd.grad(found.minimised, [*twin.parameters()], allow_unused=True)
        if all(gradient is None for gradient in gradients):
            raise InputError(f"objective {objective.name}: what is minimised does not depend on the network's outputs")
        with _one_sentence(objective, "loss(outputs, targets)"), torch.no_grad():
            measured = objective.measure(found.outputs.detach(), batch.targets)
            Tally(data, squared_error=objective.is_squared_error).add(measured, found.outputs, batch.targets)
    objective.load_state_dict(state)
    return state


def _check(objective: Objective, found: object, batch: Batch) -> None:
    if not isinstance(found, BatchLoss):
        raise InputError(f"objective {objective.name}: forward returns {type(found).__name__}; it should return a BatchLoss")
    for field in ("loss", "minimised"):
        value = getattr(found, field)
        if not isinstance(value, Tensor) or value.dim() != 0 or not value.is_floating_point():
            form = f"a tensor of shape {tuple(value.shape)} and {value.dtype}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise InputError(f"objective {objective.name}: its {field} is {form}; it should be a scalar tensor, the mean over the batch")
        if value.device != batch.inputs.device:
            raise InputError(f"objective {objective.name}: its {field} is on {value.device}; it should be on the device of the batch")
    if not found.minimised.requires_grad:
        raise InputError(f"objective {objective.name}: what is minimised does not depend on the network's outputs (it has no gradient)")
    if not isinstance(found.outputs, Tensor) or found.outputs.dim() != 2 or len(found.outputs) != len(batch.targets):
        raise InputError(f"objective {objective.name}: its outputs should be those of the network, a tensor (samples, outputs)")


@contextmanager
def _one_sentence(objective: nn.Module, what: str) -> Iterator[None]:
    """Context manager: turn any error of a user's objective into an InputError of one sentence, with the original as its cause."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(f"objective {type(objective).__name__}: {what} fails on two samples ({reason})") from error
