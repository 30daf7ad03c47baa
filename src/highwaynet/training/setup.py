"""From a spec and a path to data, a spec without open questions, and a run directory that is new or to be resumed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from highwaynet.base.errors import InputError
from highwaynet.data.dataset import Dataset
from highwaynet.data.load import load_dataset
from highwaynet.runs.checkpoints import FINAL
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.environment import describe_environment
from highwaynet.runs.spec import SPEC, RunSpec, parse_toml, spec_from_values, with_training
from highwaynet.runs.stored_data import pack_preparation, unpack_preparation
from highwaynet.training.computing import check_computing, choose_device
from highwaynet.training.distribution import World
from highwaynet.training.suitability import check_fit, for_few_samples
from highwaynet.training.tensorboard import summary_writer


@dataclass(frozen=True)
class SetUp:
    """A run that can begin or go on."""

    spec: RunSpec
    data: Dataset
    run: RunDirectory
    resumes: bool
    """Whether the run was there before."""
    finished: bool
    """Whether there is nothing left to do."""


def set_up(spec: RunSpec, path: Path, *, overwrite: bool, resume: bool, world: World) -> SetUp:
    """Find out what is to be done and prepare it; nothing is written before spec and data have been found to fit."""
    text = world.lead(lambda: _stored_spec(path, overwrite=overwrite, resume=resume)).decode()
    stored = spec_from_values(parse_toml(text, path / SPEC), path / SPEC) if text else None
    known = (stored or spec).training
    spec = with_training(
        spec,
        threads=spec.training.threads or known.threads or torch.get_num_threads(),
        device=choose_device(spec.training.device or known.device),
    )
    check_computing(spec.training)
    torch.set_num_threads(spec.training.threads or 1)
    run = RunDirectory(path)
    data = _load(spec, run, world, resumes=stored is not None)
    spec = for_few_samples(spec, len(data.train))
    environment = describe_environment() | {"processes": world.size}

    def check_and_prepare() -> bytes:
        check_fit(spec, data, world.size)
        if spec.training.tensorboard:
            summary_writer()
        if stored is None:
            run.start(spec, environment, overwrite=overwrite, resume=resume)
            run.log(f"started: {spec.network.name}, {spec.network.depth} layers, on {data.name}, {spec.training.epochs} epochs")
        else:
            _check_same(spec, stored, path)
            run.take_up(environment)
            if run.finished:
                run.checkpoints.read(FINAL)  # says so if it is damaged
        if not run.has_preparation:
            run.save_preparation(data.preparation)
        world.remember(str(path), "begun")
        return b"finished" if run.finished else b""

    try:
        finished = world.lead(check_and_prepare) == b"finished"
    except BaseException:
        run.unlock()
        raise
    return SetUp(spec, data, run, resumes=stored is not None, finished=finished)


def _stored_spec(path: Path, *, overwrite: bool, resume: bool) -> bytes:
    """The spec of the run that is to be resumed; empty where one is to be begun."""
    if resume and (path / SPEC).is_file():
        return RunDirectory.open(path).read_spec().to_toml().encode()
    RunDirectory.check_free(path, overwrite=overwrite, resume=resume)
    return b""


def _load(spec: RunSpec, run: RunDirectory, world: World, *, resumes: bool) -> Dataset:
    """The data, prepared alike in all processes: as the run says that is resumed, else as the leading one finds."""
    if not world.leads:
        text, content = (world.lead(bytes) for _ in range(2))
        return load_dataset(spec.data, unpack_preparation(text.decode(), content, Path("data")))
    loaded: list[Dataset] = []

    def load() -> bytes:
        loaded.append(load_dataset(spec.data, run.load_preparation() if resumes and run.has_preparation else None))
        return pack_preparation(loaded[0].preparation)[0].encode()

    world.lead(load)
    world.lead(lambda: pack_preparation(loaded[0].preparation)[1])
    return loaded[0]


def _check_same(spec: RunSpec, stored: RunSpec, path: Path) -> None:
    """A run goes on as it began."""
    for field, mine in _flat(spec.model_dump()).items():
        there = _flat(stored.model_dump())[field]
        if mine != there:
            raise InputError(
                f"{field} = {mine!r}: {path} was begun with {there!r}; leave it out to resume, or begin another run with --out"
            )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
