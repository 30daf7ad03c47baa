"""`highway train`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from highwaynet.base.errors import InputError
from highwaynet.base.specs import help_for
from highwaynet.base.text import loss_text, percent
from highwaynet.cli.output import console, print_json
from highwaynet.cli.overrides import gather_spec
from highwaynet.data.spec import DataSpec
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.spec import RunSpec, TrainingSpec

Network = "Network"
Training = "Training"


def _gate_bias(text: str | None) -> float | str | None:
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--gate-bias {text!r}: give a number or auto") from None


def default_path(spec: RunSpec) -> Path:
    """Where a run goes if nothing is said."""
    return Path("runs") / f"{spec.network.name}-{spec.network.depth}-{spec.data.name}-seed{spec.seed}"


def train_command(
    config: Annotated[Path | None, typer.Argument(help="A TOML file, or a run directory to repeat.")] = None,
    network: Annotated[str | None, typer.Option(help=help_for(NetworkSpec, "name"))] = None,
    depth: Annotated[int | None, typer.Option(help=help_for(NetworkSpec, "depth"))] = None,
    width: Annotated[int | None, typer.Option(help=help_for(NetworkSpec, "width"))] = None,
    activation: Annotated[str | None, typer.Option(help=help_for(NetworkSpec, "activation"))] = None,
    init: Annotated[str | None, typer.Option(help=help_for(NetworkSpec, "init"))] = None,
    gate_bias: Annotated[str | None, typer.Option(help=help_for(NetworkSpec, "gate_bias"))] = None,
    data: Annotated[str | None, typer.Option(help=help_for(DataSpec, "name"))] = None,
    validation: Annotated[float | None, typer.Option(help=help_for(DataSpec, "validation"))] = None,
    epochs: Annotated[int | None, typer.Option(help=help_for(TrainingSpec, "epochs"))] = None,
    batch_size: Annotated[int | None, typer.Option(help=help_for(TrainingSpec, "batch_size"))] = None,
    learning_rate: Annotated[float | None, typer.Option(help=help_for(TrainingSpec, "learning_rate"))] = None,
    momentum: Annotated[float | None, typer.Option(help=help_for(TrainingSpec, "momentum"))] = None,
    decay: Annotated[float | None, typer.Option(help=help_for(TrainingSpec, "decay"))] = None,
    threads: Annotated[int | None, typer.Option(help=help_for(TrainingSpec, "threads"))] = None,
    seed: Annotated[int | None, typer.Option(help=help_for(RunSpec, "seed"))] = None,
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
    flags: dict[str, Any] = {
        "network.name": network,
        "network.depth": depth,
        "network.width": width,
        "network.activation": activation,
        "network.init": init,
        "network.gate_bias": _gate_bias(gate_bias),
        "data.name": data,
        "data.validation": validation,
        "training.epochs": epochs,
        "training.batch_size": batch_size,
        "training.learning_rate": learning_rate,
        "training.momentum": momentum,
        "training.decay": decay,
        "training.threads": threads,
        "seed": seed,
    }
    spec = gather_spec(config, flags, set_ or [])
    path = out or default_path(spec)

    from highwaynet.cli.progress import TrainingProgress
    from highwaynet.training.loop import train

    with TrainingProgress(f"{spec.network.name}, {spec.network.depth} layers", spec.training.epochs) as progress:
        run = train(spec, path, overwrite=overwrite, watcher=progress)
    last = run.read_history()[-1]
    if as_json:
        print_json({"run": str(path), "last_epoch": last.model_dump(exclude_none=True)})
        return
    validated = ""
    if last.validation_loss is not None and last.validation_accuracy is not None:
        validated = f"; validation loss {loss_text(last.validation_loss)}, accuracy {percent(last.validation_accuracy)}"
    console.print(
        f"training loss {loss_text(last.train_loss)}, accuracy {percent(last.train_accuracy)}{validated}",
        soft_wrap=True,
    )
    console.print(f"run: {path}   next: highway evaluate {path}   highway report {path}", soft_wrap=True, markup=False)
