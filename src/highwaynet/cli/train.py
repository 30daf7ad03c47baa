"""`highway train`."""

import re
import shlex
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from highwaynet.base.specs import help_for
from highwaynet.cli.data import DATA_ROOT, data_flags, use_data_root
from highwaynet.cli.output import console, print_json
from highwaynet.cli.overrides import gather_spec
from highwaynet.data.spec import DataSpec
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.spec import RunSpec
from highwaynet.runs.training_spec import TrainingSpec


def _flag(spec: type[BaseModel], field: str, kind: str) -> Any:
    """A flag for a field. Its text is checked by the spec, so that flags and files are refused in the same words."""
    return typer.Option(metavar=kind, help=help_for(spec, field))


def default_path(spec: RunSpec) -> Path:
    """Where a run goes if nothing is said: a name of its own for each."""
    data = spec.data.name if spec.data.built_in else Path(spec.data.name).stem
    depth = "" if spec.network.preset.convolutional else f"-{spec.network.depth}"
    network = re.sub(r"[ (),]+", "-", spec.network.label).strip("-")
    name = f"{network}{depth}-{data}-seed{spec.seed}"
    numbers = (f"-{number}" for number in count(2))
    return next(path for suffix in chain([""], numbers) if not (path := Path("runs") / f"{name}{suffix}").exists())


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
    threads: Annotated[str | None, _flag(TrainingSpec, "threads", "INTEGER")] = None,
    seed: Annotated[str | None, _flag(RunSpec, "seed", "INTEGER")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Set any field of the run's spec; repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run directory to make; by default a folder below runs/.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in that directory.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a network and leave everything about it in a run directory.

    Example: highway train --network fc-highway --depth 50 --epochs 30

    Settings come from the TOML file, then the flags, then --set; the spec.toml of a run repeats it.
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
        "training.threads": threads,
        "seed": seed,
    }
    use_data_root(data_root)
    spec = gather_spec(config, flags, set_ or [])
    path = out or default_path(spec)

    from highwaynet.cli.progress import TrainingProgress
    from highwaynet.training.loop import train

    with TrainingProgress(f"{spec.network.label}, {spec.network.depth} layers", spec.training.epochs) as progress:
        run = train(spec, path, overwrite=overwrite, watcher=progress)
    last = run.read_history()[-1]
    if as_json:
        print_json({"run": str(path), "last_epoch": last.model_dump(exclude_none=True)})
        return
    checked = f"; validation {last.validation}" if last.validation else ""
    console.print(f"last epoch: training {last.train}{checked}", soft_wrap=True)
    place = shlex.quote(str(path))
    console.print(
        f"run: {place}\nnext: highway evaluate {place}\n      highway predict {place} FILE...\n      highway report {place}", soft_wrap=True
    )
