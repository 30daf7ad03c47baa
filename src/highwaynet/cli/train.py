"""`highway train`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from highwaynet.base.errors import InputError
from highwaynet.base.launch import launched
from highwaynet.cli.data import DATA_FLAGS, DATA_ROOT, use_data_root
from highwaynet.cli.flags import texts_of, with_flags
from highwaynet.cli.output import note, print_json
from highwaynet.cli.overrides import gather_spec
from highwaynet.cli.threads import with_free_threads
from highwaynet.cli.training import Way, choose_path, print_answer, train_one, train_several, with_found_depth
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import RunSpec
from highwaynet.runs.stages import check_begun


@with_flags(
    *(f"network.{name}" for name in ("name", "variant", "depth", "width", "activation", "init", "gate_bias", "carry")),
    *("data.name", *DATA_FLAGS, "data.validation"),
    *(f"training.{name}" for name in ("recipe", "epochs", "batch_size", "learning_rate", "momentum", "decay", "clip_norm")),
    "training.class_weight",
    *(f"training.{name}" for name in ("on_divergence", "patience", "threads", "device", "precision", "compile", "recompute")),
    *("training.checkpoint", "training.tensorboard", "seed", "start.run", "start.without", "teacher.run", "teacher.hints"),
)
def train_command(
    config: Annotated[Path | None, typer.Argument(help="A TOML file, or a run directory to repeat.")] = None,
    *,
    data_root: Annotated[Path | None, DATA_ROOT] = None,
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
    **flags: Any,
) -> None:
    """Train a network and write everything about it to a run directory.

    Example: highway train --network fc-highway --depth 50 --epochs 30

    Settings come from the TOML file, then the flags, then --set; the spec.toml of a run repeats it. `highway train RUN --resume` continues
    an interrupted run, with the same results. For several processes: torchrun --nproc-per-node 4 -m highwaynet train ...
    """
    use_data_root(data_root)
    texts = texts_of(flags)
    finds_depth = texts.get("network.depth") == "auto"
    if finds_depth:
        del texts["network.depth"]
        if texts.get("network.name", "fc-").startswith("fc-"):
            texts["network.depth"] = str(NetworkSpec.model_fields["depth"].default)  # until it is found
    if resume and config is not None:
        check_begun(config)
    chosen: list[str] = []
    notes: list[str] = []
    spec = gather_spec(config, texts, set_ or [], chosen.append)
    if overwrite and resume:
        raise InputError("--overwrite and --resume: choose one of them")
    if resume and out is None and config is not None and config.is_dir():
        out = config
    if not launched():  # another process may have created the folder
        _check_paths(spec, None if seeds or resume else out, overwrite=overwrite)

    from highwaynet.training.distribution import join_world

    with join_world(spec.training.device) as world:
        if not resume and world.size == 1:
            spec = with_free_threads(spec, notes.append)
        if finds_depth:
            spec = with_found_depth(spec, out if resume else None, world)
            chosen.clear()  # the sentences name the depth
            gather_spec(config, texts | {"network.depth": str(spec.network.depth)}, set_ or [], chosen.append)
        ending = f"{seeds}seeds" if seeds else None
        path = out or Path(world.lead(lambda: choose_path(world, spec, resume=resume, ending=ending).encode()).decode())
        way = Way(overwrite=overwrite, resume=resume, world=world, notes=[*chosen, *notes])
        answer = train_several(spec, path, seeds, way) if seeds else train_one(spec, path, way)
        if not world.leads:
            return
    if as_json:
        print_json(answer)
    else:
        print_answer(answer)
    sys.stdout.flush()
    for sentence in way.verdicts:
        note(sentence)


def _check_paths(spec: RunSpec, out: Path | None, *, overwrite: bool) -> None:
    """Raise InputError for a wrong path before torch is imported; training checks them again."""
    if not spec.data.built_in and not spec.data.in_memory:
        from highwaynet.data.formats import find_own

        find_own(Path(spec.data.name))
    if out is not None:
        RunDirectory.check_free(out, overwrite=overwrite)
