"""`highway train`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from highwaynet.base.errors import InputError
from highwaynet.base.specs import help_for
from highwaynet.cli.data import DATA_ROOT, data_flags, use_data_root
from highwaynet.cli.inside import numbers_in
from highwaynet.cli.output import print_json
from highwaynet.cli.overrides import gather_spec
from highwaynet.cli.training import Way, choose_path, print_answer, train_one, train_several
from highwaynet.data.spec import DataSpec
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.spec import RunSpec, StartSpec
from highwaynet.runs.training_spec import TrainingSpec


def _flag(spec: type[BaseModel], field: str, kind: str) -> Any:
    """Return the option for a field. The spec checks its text, so that flags and files give the same error messages."""
    return typer.Option(metavar=kind, help=help_for(spec, field))


def train_command(
    config: Annotated[Path | None, typer.Argument(help="A TOML file, or a run directory to repeat.")] = None,
    network: Annotated[str | None, _flag(NetworkSpec, "name", "NAME")] = None,
    variant: Annotated[str | None, _flag(NetworkSpec, "variant", "NAME")] = None,
    depth: Annotated[str | None, _flag(NetworkSpec, "depth", "INTEGER")] = None,
    width: Annotated[str | None, _flag(NetworkSpec, "width", "INTEGER")] = None,
    activation: Annotated[str | None, _flag(NetworkSpec, "activation", "NAME")] = None,
    init: Annotated[str | None, _flag(NetworkSpec, "init", "NAME")] = None,
    gate_bias: Annotated[str | None, _flag(NetworkSpec, "gate_bias", "NUMBER|auto")] = None,
    carry: Annotated[str | None, _flag(NetworkSpec, "carry", "NAME")] = None,
    data: Annotated[str | None, _flag(DataSpec, "name", "NAME|PATH")] = None,
    target: Annotated[str | None, _flag(DataSpec, "target", "COLUMN")] = None,
    task: Annotated[str | None, _flag(DataSpec, "task", "NAME")] = None,
    resize: Annotated[str | None, _flag(DataSpec, "resize", "HEIGHTxWIDTH")] = None,
    colour: Annotated[str | None, _flag(DataSpec, "colour", "NAME")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help=help_for(DataSpec, "skip_bad"))] = False,
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    validation: Annotated[str | None, _flag(DataSpec, "validation", "NUMBER")] = None,
    recipe: Annotated[str | None, _flag(TrainingSpec, "recipe", "NAME")] = None,
    epochs: Annotated[str | None, _flag(TrainingSpec, "epochs", "INTEGER")] = None,
    batch_size: Annotated[str | None, _flag(TrainingSpec, "batch_size", "INTEGER")] = None,
    learning_rate: Annotated[str | None, _flag(TrainingSpec, "learning_rate", "NUMBER")] = None,
    momentum: Annotated[str | None, _flag(TrainingSpec, "momentum", "NUMBER")] = None,
    decay: Annotated[str | None, _flag(TrainingSpec, "decay", "NUMBER")] = None,
    clip_norm: Annotated[str | None, _flag(TrainingSpec, "clip_norm", "NUMBER")] = None,
    on_divergence: Annotated[str | None, _flag(TrainingSpec, "on_divergence", "NAME")] = None,
    patience: Annotated[str | None, _flag(TrainingSpec, "patience", "EPOCHS")] = None,
    threads: Annotated[str | None, _flag(TrainingSpec, "threads", "INTEGER")] = None,
    device: Annotated[str | None, _flag(TrainingSpec, "device", "NAME")] = None,
    precision: Annotated[str | None, _flag(TrainingSpec, "precision", "NAME")] = None,
    compile_: Annotated[bool, typer.Option("--compile", help=help_for(TrainingSpec, "compile"))] = False,
    recompute: Annotated[bool, typer.Option("--recompute", help=help_for(TrainingSpec, "recompute"))] = False,
    checkpoint: Annotated[str | None, _flag(TrainingSpec, "checkpoint", "INTERVAL")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help=help_for(TrainingSpec, "tensorboard"))] = False,
    seed: Annotated[str | None, _flag(RunSpec, "seed", "INTEGER")] = None,
    start: Annotated[str | None, _flag(StartSpec, "run", "RUN")] = None,
    without: Annotated[str | None, typer.Option(metavar="NUMBERS", help=f"{help_for(StartSpec, 'without')} For instance 3,5-9.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Set any field of the run's spec; repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run directory to create; by default a folder in runs/.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Train this many networks that differ only in their seed, and report best (mean ± std)."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run, or start it if there is none yet.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in that directory.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a network and write everything about it to a run directory.

    Example: highway train --network fc-highway --depth 50 --epochs 30

    Settings come from the TOML file, then the flags, then --set; the spec.toml of a run repeats it. `highway train RUN --resume` continues
    an interrupted run, with the same results. For several processes: torchrun --nproc-per-node 4 -m highwaynet train ...
    """
    flags: dict[str, str | None] = {
        "network.name": network,
        "network.variant": variant,
        "network.depth": depth,
        "network.width": width,
        "network.activation": activation,
        "network.init": init,
        "network.gate_bias": gate_bias,
        "network.carry": carry,
        **data_flags(data, target, task, resize, colour, skip_bad),
        "data.validation": validation,
        "training.recipe": recipe,
        "training.epochs": epochs,
        "training.batch_size": batch_size,
        "training.learning_rate": learning_rate,
        "training.momentum": momentum,
        "training.decay": decay,
        "training.clip_norm": clip_norm,
        "training.on_divergence": on_divergence,
        "training.patience": patience,
        "training.threads": threads,
        "training.device": device,
        "training.precision": precision,
        "training.compile": "true" if compile_ else None,
        "training.recompute": "true" if recompute else None,
        "training.checkpoint": checkpoint,
        "training.tensorboard": "true" if tensorboard else None,
        "seed": seed,
        "start.run": start,
        "start.without": None if without is None else str(numbers_in("--without", without, None, "layers are")),
    }
    use_data_root(data_root)
    spec = gather_spec(config, flags, set_ or [])
    if overwrite and resume:
        raise InputError("--overwrite and --resume: choose one of them")
    if resume and out is None and config is not None and config.is_dir():
        out = config

    from highwaynet.training.distribution import join_world

    with join_world(spec.training.device) as world:
        ending = f"{seeds}seeds" if seeds else None
        path = out or Path(world.lead(lambda: choose_path(world, spec, resume=resume, ending=ending).encode()).decode())
        way = Way(overwrite=overwrite, resume=resume, world=world)
        answer = train_several(spec, path, seeds, way) if seeds else train_one(spec, path, way)
        if not world.leads:
            return
    if as_json:
        print_json(answer)
    else:
        print_answer(answer)
