"""Loads the network of a run, before or after training."""

from collections.abc import Mapping

import torch
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.base.randomness import generator_for
from highwaynet.data.record import DataRecord
from highwaynet.networks.build import build_plan
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Plan
from highwaynet.runs.checkpoints import START
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.names import Kept
from highwaynet.runs.spec import RunSpec


def start_network(spec: RunSpec, plan: Plan, weights: Mapping[str, Tensor] | None = None) -> Network:
    """Build the network of a run before its first step, with new weights from its seed, or with the given weights."""
    network = build_plan(plan, generator=generator_for(spec.seed, "weights"))
    if weights is not None:
        network.load_state_dict(weights)
    return network


def load_start(run: RunDirectory, data: DataRecord) -> Network:
    """Load the network of a run as it was before its first step."""
    weights = run.checkpoints.load(START)[0] if run.checkpoints.names(START) else None
    return start_network(run.read_spec(), run.load_plan(data), weights)


def load_network(run: RunDirectory, checkpoint: Kept | None = None, *, data: DataRecord | None = None, exact: bool = False) -> Network:
    """Load the trained network of a run, in evaluation mode; raises InputError if the directory is damaged.

    Args:
        run: The run.
        checkpoint: Which weights, "final" or "best"; by default final.
        data: The record of the run's preparation, if the caller has already read it.
        exact: Whether the network of a run with float64 weights keeps them; by default it computes in float32.
    """
    name = checkpoint or run.answer
    plan = run.load_plan(data)
    weights = run.checkpoints.load(run.resolve(name))[0]  # before the network is built, because it checks that the plan belongs to the run
    network = build_plan(plan, generator=torch.Generator())
    if exact:
        network = network.to(next(iter(weights.values())).dtype)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(f"{run.path}: the checkpoint {name!r} does not fit the network of the run; one of them was changed") from error
    return network.eval()
