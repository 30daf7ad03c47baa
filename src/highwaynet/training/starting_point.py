"""Where the network of a run comes from: fresh from its spec, from a parent run with layers removed, or given in memory."""

from dataclasses import dataclass
from pathlib import Path

import torch

from highwaynet.base.errors import InputError
from highwaynet.base.files import sha256
from highwaynet.base.specs import parsed
from highwaynet.data.preparation import Preparation
from highwaynet.data.record import DataRecord
from highwaynet.data.spec import DataSpec
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.build import build_plan
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Plan
from highwaynet.runs.checkpoints import START, encode
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network, start_network
from highwaynet.runs.spec import RunSpec, StartSpec
from highwaynet.training.distribution import World


@dataclass(frozen=True)
class StartingPoint:
    """Plan and weights with which a run starts, and the preparation of its parent run."""

    plan: Plan | None = None
    """The plan; None means the plan of the spec."""
    weights: bytes | None = None
    """The weights as safetensors; None means freshly initialised."""
    preparation: Preparation | None = None
    """The preparation of the parent run; set only in the leading process."""
    data: DataSpec | None = None
    """The data settings of the parent run; set only in the leading process."""

    def checked(self, start: StartSpec) -> StartSpec:
        """Return `start` with the checksum of the weights; raises InputError if it asks for weights with another checksum."""
        if start.fresh:  # the weights follow from the seed
            return start
        found = sha256(self.weights or b"")
        if start.weights not in {None, found}:
            source = "the given network" if start.given else f"start.run = {start.run!r}"
            raise InputError(f"{source}: its weights are not those that the run started with; omit start.weights to use these")
        return start.model_copy(update={"weights": found})

    def check_division(self, data: DataSpec, record: DataRecord) -> None:
        """Raise InputError if the parent's data are divided differently: test samples could be training samples of the parent."""
        if self.preparation is None or self.data is None or self.preparation.record.fingerprint != record.fingerprint:
            return
        for field in ("split_seed", "validation", "test"):
            mine, there = getattr(data, field), getattr(self.data, field)
            if mine != there:
                raise InputError(
                    f"data.{field} = {mine!r}: the parent run divided the same data with {there!r}; with another division, some of its "
                    "training samples would become test samples: omit the setting"
                )


def find_starting_point(spec: RunSpec, run: RunDirectory, network: Network | None, world: World, *, resumes: bool) -> StartingPoint:
    """Return the plan and weights with which the run starts, the same in all processes; a resumed run has stored them."""
    found: list[StartingPoint] = []

    def find() -> bytes:
        is_kept = resumes and run.has_plan and (spec.start is None or bool(run.checkpoints.names(START)))
        found.append(_kept(run) if is_kept else _new(spec, network))
        if is_kept and network is not None and encode(network.state_dict()) != found[0].weights:
            raise InputError(f"{run.path} was started with another network than the given one; omit network= to resume")
        plan = found[0].plan
        return plan.model_dump_json().encode() if plan else b""

    text = world.lead(find).decode()
    content = world.lead(lambda: found[0].weights or b"")
    if world.leads:
        return found[0]
    return StartingPoint(parsed(Plan, text, "plan") if text else None, content or None)


def _kept(run: RunDirectory) -> StartingPoint:
    """Read the starting point that a run stored."""
    weights = run.checkpoints.read(START)[0] if run.checkpoints.names(START) else None
    return StartingPoint(run.load_plan(), weights)


def _new(spec: RunSpec, network: Network | None) -> StartingPoint:
    start = spec.start
    if start is None:
        return StartingPoint()
    if start.given:
        if network is None:
            raise InputError(
                "start.given = true: the run started with a network in memory; pass it again in Python, with network=..., "
                "or start from that run with --start RUN"
            )
        if network.plan.name != spec.network.name:
            name = network.plan.name
            raise InputError(f"network.name = {spec.network.name!r}: the given network is a {name}; write network.name = {name!r}")
        _check_given(spec, network)
        return StartingPoint(network.plan, encode(network.state_dict()))
    return _from_parent(spec, start)


def _check_given(spec: RunSpec, network: Network) -> None:
    """Raise InputError if a network does not match its plan or the spec."""
    plan = network.plan
    try:
        build_plan(plan, generator=torch.Generator()).load_state_dict(network.state_dict())
    except RuntimeError as error:
        raise InputError("the given network was changed: its modules do not match its plan, so it could not be loaded later") from error
    if not plan.is_part_of(plan_of(spec.network, plan.input_shape, plan.outputs)):
        raise InputError(
            f"the given network is neither {spec.network.title} nor one with layers removed: write its settings (depth, width, …) "
            "into spec.network"
        )


def _from_parent(spec: RunSpec, start: StartSpec) -> StartingPoint:
    where = f"start.run = {start.run!r}"
    try:
        parent = RunDirectory.open(Path(start.run or ""))
        spec_there = parent.read_spec()
        known = spec_there.network
        network, preparation = load_network(parent, start.checkpoint), parent.load_preparation()
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    if known != spec.network:
        fields = [name for name in type(known).model_fields if getattr(known, name) != getattr(spec.network, name)]
        field = fields[0]
        mine, there = getattr(spec.network, field), getattr(known, field)
        raise InputError(
            f"network.{field} = {mine!r}: the parent run has {there!r}, and its network is used unchanged: omit the setting "
            "(in Python, RunSpec.from_run fills it in)"
        )
    try:
        shorter = network.without(start.without) if start.without else network
    except ValueError as error:
        raise InputError(f"start.without: {error} ({where})") from error
    if start.fresh:
        shorter = start_network(spec, shorter.plan)
    return StartingPoint(shorter.plan, encode(shorter.state_dict()), preparation, spec_there.data)
