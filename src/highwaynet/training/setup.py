"""Setting up a run: complete the spec, load the data, plan the network, and create or reopen the run directory."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.data.augmentation import Augmentation
from highwaynet.data.dataset import Dataset
from highwaynet.data.load import load_dataset
from highwaynet.data.memory import target_in
from highwaynet.data.preparation import Preparation
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.description import describe_plan
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Plan
from highwaynet.runs.checkpoints import BEST, FINAL, START, STEP, STOP, decode
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.environment import describe_environment
from highwaynet.runs.load import start_network
from highwaynet.runs.spec import SPEC, RunSpec, StartSpec, parse_spec, spec_from_values, with_training
from highwaynet.runs.stored_data import pack_preparation, unpack_preparation
from highwaynet.training.computing import check_computing, choose_device
from highwaynet.training.distillation import distilled, with_teacher
from highwaynet.training.distribution import World
from highwaynet.training.hints import hints_for
from highwaynet.training.objective import Batch, Objective, balanced_weights, objective_for
from highwaynet.training.rehearsal import rehearse
from highwaynet.training.starting_point import find_starting_point
from highwaynet.training.suitability import check_fit, for_few_samples
from highwaynet.training.tensorboard import summary_writer


@dataclass(frozen=True)
class Given:
    """Objects that the caller passes in memory, in addition to the spec."""

    data: Any = None
    network: Network | None = None
    objective: Objective | None = None

    def check(self) -> None:
        """Raise InputError if something has the wrong type."""
        network: Any = self.network
        if network is not None and not isinstance(getattr(network, "plan", None), Plan):
            kind = type(network).__name__
            raise InputError(f"network of type {kind}: pass a network of highwaynet, from build_network or load(run).network")
        objective: Any = self.objective
        if objective is not None and not isinstance(objective, Objective):
            shown = objective.__name__ if isinstance(objective, type) else type(objective).__name__
            raise InputError(f"objective = {shown}: pass an instance of a subclass of highwaynet.Objective")


@dataclass(frozen=True)
class SetUp:
    """A run that is ready to start or to resume."""

    spec: RunSpec
    data: Dataset
    run: RunDirectory
    plan: Plan
    """The network."""
    weights: Mapping[str, Tensor] | None
    """The weights it starts with; None means freshly initialised."""
    objective: Objective
    resumes: bool
    """Whether the run was started before."""
    finished: bool
    """Whether there is nothing left to do."""
    objective_start: Mapping[str, Tensor] | None = None
    """The state of an objective with parameters of its own before the first step: of the user's, or of the regressor of hints."""
    network: Network | None = None
    """The network that the user's objective was prepared for."""

    def start_network(self) -> Network:
        """Build the network with the weights it has before the first step."""
        return start_network(self.spec, self.plan, self.weights)


def set_up(spec: RunSpec, path: Path, given: Given, *, overwrite: bool, resume: bool, world: World) -> SetUp:
    """Check everything and prepare the run; nothing is written before spec, data, network and objective have been checked."""
    if world.recall(str(path)) is not None:  # torchrun has restarted the processes; the first ones have already started this run
        overwrite, resume = False, True
    text = world.lead(lambda: _stored_spec(path, overwrite=overwrite, resume=resume)).decode()
    stored = spec_from_values(parse_spec(text, path / SPEC), path / SPEC) if text else None
    run = RunDirectory(path)
    spec = _completed(spec, stored, given, run)
    check_computing(spec.training)
    torch.set_num_threads(spec.training.threads or 1)
    check_relatives(spec, path)
    origin = find_starting_point(spec, run, given.network, world, resumes=stored is not None)
    if spec.start is not None:
        spec = spec.model_copy(update={"start": origin.checked(spec.start)})
    data = _load(spec, run, given.data, origin.preparation, world, resumes=stored is not None)
    if world.leads and stored is None:
        origin.check_division(spec.data, data.preparation.record)
    record = data.preparation.record
    plan = origin.plan or plan_of(spec.network, record.network_shape, record.outputs)
    weights = None if origin.weights is None else decode(origin.weights, Path(START))
    spec, teacher = with_teacher(for_few_samples(spec, len(data.train)), data.preparation)
    environment = describe_environment() | {"processes": world.size}

    def check() -> bytes:
        check_fit(spec, plan, data, world.size)
        if spec.training.tensorboard:
            summary_writer()
        return b""

    def prepare() -> bytes:
        if stored is None:
            run.start(spec, environment, overwrite=overwrite, resume=resume)
            layers, parent = describe_plan(plan).layers, f", from {spec.start.run}" if spec.start and spec.start.run else ""
            run.log(f"started: {plan.name}, {layers} layers{parent}, on {data.name}, {spec.training.epochs} epochs")
        else:
            _check_same(spec, stored, path)
            run.take_up(environment)
            if run.finished:
                run.checkpoints.read(FINAL)  # raises an error if it is damaged
        # The run may have been killed before it wrote the plan. With checkpoints, it is a run of a version that wrote none.
        if stored is None or not (run.has_plan or run.checkpoints.names(START, STEP, STOP, BEST, FINAL)):
            run.save_plan(plan)
        if not run.has_preparation:
            run.save_preparation(data.preparation)
        if weights is not None and not run.checkpoints.names(START):
            run.checkpoints.save(START, weights, epoch=0, step=0)
        world.remember(str(path), "begun")
        return b"finished" if run.finished else b""

    world.lead(check)
    objective, own = _objective(spec, data, plan, weights, given.objective, teacher)
    try:
        finished = world.lead(prepare) == b"finished"
    except BaseException:
        run.unlock()
        raise
    return SetUp(spec, data, run, plan, weights, objective, resumes=stored is not None, finished=finished, **own)


def check_startable(path: Path, *, overwrite: bool, resume: bool) -> None:
    """Raise InputError if a run could not be started there later, also because another process trains the run to be replaced."""
    RunDirectory.check_free(path, overwrite=overwrite, resume=resume)
    if overwrite and (path / SPEC).is_file():
        run = RunDirectory(path)
        run.lock()
        run.unlock()


def check_relatives(spec: RunSpec, path: Path) -> None:
    """Raise InputError if a run would be its own parent or teacher, or is a second stage without a first."""
    place = path.resolve()
    if spec.start is not None and spec.start.run is not None and Path(spec.start.run).resolve() == place:
        raise InputError(f"start.run = {spec.start.run!r}: a run cannot start from itself; name another folder")
    if spec.teacher is not None and Path(spec.teacher.run).resolve() == place:
        raise InputError(f"teacher.run = {spec.teacher.run!r}: a run cannot be its own teacher; name another folder")
    if spec.teacher is not None and spec.teacher.stage == "distillation" and spec.start is None:
        what = "the second stage starts from a first one; name it with start.run, or omit teacher.stage to train both"
        raise InputError(f"teacher.stage = 'distillation': {what}")


def _completed(spec: RunSpec, stored: RunSpec | None, given: Given, run: RunDirectory) -> RunSpec:
    """Return the spec with threads, device, and what was passed in memory filled in.

    Raises:
        InputError: If something has the wrong type, or if a resumed run lacks what was passed to it in memory before.
    """
    if not isinstance(spec, RunSpec):
        raise InputError(f"spec = {spec!r:.60}: pass a RunSpec")
    given.check()
    known = (stored or spec).training
    objective = given.objective.name if given.objective else None
    for asked in (spec.training.objective, known.objective):
        if asked is not None and asked != objective:
            raise InputError(f"training.objective = {asked!r}: the run has a custom objective; pass it again in Python, with objective=...")
    threads = spec.training.threads or known.threads or torch.get_num_threads()
    spec = with_training(spec, threads=threads, device=choose_device(spec.training.device or known.device), objective=objective)
    if given.data is not None:
        spec = spec.model_copy(update={"data": spec.data.for_memory(target_in(given.data))})
    elif stored is not None and stored.data.in_memory:
        load_dataset(stored.data, run.load_preparation() if run.has_preparation else None)  # raises an error that says what to pass
    if spec.teacher is not None:
        spec = spec.model_copy(update={"teacher": spec.teacher.model_copy(update={"run": str(Path(spec.teacher.run).resolve())})})
    start = spec.start
    if given.network is not None:
        if start is not None and not start.given:
            raise InputError(f"start.run = {start.run!r}: a network was also passed with network=; omit one of them")
        start = start or StartSpec(given=True)
    elif start is not None and start.run is not None:
        start = start.model_copy(update={"run": str(Path(start.run).resolve())})
    return spec.model_copy(update={"start": start})


def _objective(
    spec: RunSpec, data: Dataset, plan: Plan, weights: Mapping[str, Tensor] | None, given: Objective | None, teacher: Network | None
) -> tuple[Objective, dict[str, Any]]:
    """Return the objective; for a user's objective, which is tried on two samples first, also its start state and its network."""
    record = data.preparation.record
    if given is None:
        if spec.is_first_stage and teacher is not None:
            hints = hints_for(spec, plan, teacher)
            return hints, {"objective_start": {name: tensor.clone() for name, tensor in hints.state_dict().items()}}
        return distilled(objective_for(plan, record, spec.training, _class_weight(spec, data)), spec, teacher), {}
    network = start_network(spec, plan, weights)
    inputs, targets = next(data.train.head(2).batches(2))
    batch = Batch(inputs.float(), targets.float() if targets.is_floating_point() else targets, samples=torch.arange(len(inputs)))
    augmented = bool(Augmentation(spec.training.crop, spec.training.mirror, spec.training.rotate))
    state = rehearse(given, network, batch, record, foreseen=not augmented)
    return given, {"objective_start": state, "network": network}


def _class_weight(spec: RunSpec, data: Dataset) -> Tensor | None:
    """Return the weights of the classes, if they differ."""
    match spec.training.class_weight:
        case None:
            return None
        case "balanced":
            return balanced_weights(data.train.class_counts().double())
        case given:
            return torch.tensor(given, dtype=torch.float64)


def _stored_spec(path: Path, *, overwrite: bool, resume: bool) -> bytes:
    """Return the stored spec of the run to resume; empty if a new run starts."""
    if resume and (path / SPEC).is_file():
        return RunDirectory.open(path).read_spec().to_toml().encode()
    RunDirectory.check_free(path, overwrite=overwrite, resume=resume)
    return b""


def _load(spec: RunSpec, run: RunDirectory, data: Any, parent: Preparation | None, world: World, *, resumes: bool) -> Dataset:
    """Load the data with the same preparation in all processes: that of the resumed run, else the one that the leading process learns."""
    if not world.leads:
        text, content = (world.lead(bytes) for _ in range(2))
        return load_dataset(spec.data, unpack_preparation(text.decode(), content, Path("data")), data=data)
    loaded: list[Dataset] = []

    def load() -> bytes:
        known = run.load_preparation() if resumes and run.has_preparation else None
        loaded.append(load_dataset(spec.data, known, data=data, parent=parent))
        return pack_preparation(loaded[0].preparation)[0].encode()

    world.lead(load)
    world.lead(lambda: pack_preparation(loaded[0].preparation)[1])
    return loaded[0]


def _check_same(spec: RunSpec, stored: RunSpec, path: Path) -> None:
    """Raise InputError if a resumed run is given settings that differ from those it was started with."""
    asked, begun = _flat(spec.model_dump()), _flat(stored.model_dump())
    for field in asked | begun:
        mine, there = asked.get(field), begun.get(field)
        if mine != there and field.startswith("start"):
            raise InputError(f"{path} was started with another start; omit start and network= to resume, or start another run")
        if mine != there and field == "teacher.weights" and spec.teacher is not None:
            what = f"teacher.run = {spec.teacher.run!r}: its weights are not those that {path} was started with"
            raise InputError(f"{what}; restore that teacher, or start another run with --out")
        if mine != there:
            raise InputError(f"{field} = {mine!r}: {path} was started with {there!r}; omit it to resume, or start another run with --out")


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
