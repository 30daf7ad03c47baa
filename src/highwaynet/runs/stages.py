"""Training with hints as two runs: which settings each of them has, and where it is. Does not import torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot
from highwaynet.networks.presets import PRESETS
from highwaynet.runs.optimisers import default_rate
from highwaynet.runs.replacing import earlier_runs
from highwaynet.runs.spec import SPEC, RunSpec, StartSpec, read_spec_values, spec_from_values, with_training

ADAPTIVE = ("rmsprop", "adamw")
"""Optimisers whose steps do not depend on the size of the loss."""
WITHOUT_OUTPUTS: dict[str, Any] = {"label_smoothing": 0.0, "class_weight": None, "layer_drop": 0.0}
"""Settings of the first stage, which has no outputs."""


@dataclass(frozen=True)
class StageRun:
    """One of the two runs."""

    spec: RunSpec
    path: Path
    title: str
    """What happens in it, in words."""


def hints_path(path: Path) -> Path:
    """Return the folder of the first stage of a run.

    >>> hints_path(Path("runs/thin")).as_posix()
    'runs/hints-thin'
    """
    place = path if path.name else path.resolve()
    if not place.name:
        raise InputError(f"path = {str(path)!r}: name a folder for the run")
    return place.with_name(f"hints-{place.name}")


def second_path(path: Path) -> Path | None:
    """Return the folder of the run that follows a first stage; None if the folder of the first stage has another name.

    >>> str(second_path(Path("runs/hints-thin"))), second_path(Path("runs/mine"))
    ('runs/thin', None)
    """
    name = path.name.removeprefix("hints-")
    return path.with_name(name) if name and name != path.name else None


def check_outputs(spec: RunSpec, path: Path) -> None:
    """Raise InputError if the run is a first stage, whose answers mean nothing."""
    if not spec.is_first_stage:
        return
    second = second_path(path)
    named = f", {second}" if second is not None and _starts_from(second, path) else ""
    what = "it is the first stage of a training with hints, without trained outputs"
    raise InputError(f"{path}: {what}; name the run of the second stage{named}")


def _starts_from(path: Path, first: Path) -> bool:
    """Whether there is a run that starts from this first stage."""
    spec = _spec_of(path)
    return spec is not None and spec.start is not None and spec.start.run == str(first.resolve())


def _spec_of(path: Path) -> RunSpec | None:
    """Return the spec of a run; None if there is no run, or it cannot be read."""
    try:
        return spec_from_values(read_spec_values(path / SPEC), path / SPEC)
    except InputError:
        return None


def check_begun(path: Path) -> None:
    """Raise InputError if there is no run, but the first stage of one, whose settings are not those of the second."""
    try:
        if path.is_file() or (path / SPEC).exists():
            return
    except OSError:  # reading it says why
        return
    first = hints_path(path)
    if (spec := _spec_of(first)) is None or not spec.is_first_stage:
        return
    earlier = earlier_runs(path)
    instead = f" and {earlier[0]} in place of {path} as configuration, if that was named" if earlier else ""
    raise InputError(f"{path}: only the first stage has begun, {first}; continue with the command that began it, with --resume{instead}")


def check_place(path: Path) -> None:
    """Raise InputError if another run, or one that cannot be read, is where a first stage would be written."""
    try:
        there = (path / SPEC).is_file()
    except OSError as error:
        raise cannot("create", path, error) from error
    if there and ((spec := _spec_of(path)) is None or not spec.is_first_stage):
        raise InputError(f"{path}: this is another run, and the first stage would be written there; rename it, or choose another --out")


def stages_of(spec: RunSpec, path: Path) -> tuple[StageRun, StageRun]:
    """Return the two runs that a spec with hints stands for; the second one starts with the weights of the first."""
    known, place = spec.teacher, hints_path(path)
    if known is None or known.hints is None:
        raise ValueError("the run has no hints")
    first = with_training(spec, **first_stage(spec)).model_copy(update={"teacher": known.model_copy(update={"stage": "hints"})})
    start, second = StartSpec(run=str(place.resolve())), known.model_copy(update={"stage": "distillation"})
    student, hint = known.layers
    how = f", with {first.training.optimiser} and learning rate {first.training.learning_rate:g}"
    return (
        StageRun(first, place, f"stage 1 of 2: layers 1 to {student} learn to predict layer {hint} of the teacher{how}"),
        StageRun(spec.model_copy(update={"start": start, "teacher": second}), path, "stage 2 of 2: the whole network, with distillation"),
    )


def first_stage(spec: RunSpec) -> dict[str, Any]:
    """Return the training settings in which the first stage differs from the second."""
    training, known = spec.training, spec.teacher
    epochs = float(training.epochs) if known is None or known.hint_epochs is None else known.hint_epochs
    changes = WITHOUT_OUTPUTS | {"epochs": max(1, round(epochs * training.epochs if epochs < 1 else epochs))}
    if training.optimiser not in ADAPTIVE:
        rate = default_rate("adamw", PRESETS[spec.network.name])
        changes |= {"optimiser": "adamw", "learning_rate": rate, "momentum": 0.9, "nesterov": False, "smoothing": None}
    return changes | ({"learning_rate": known.hint_rate} if known and known.hint_rate is not None else {})
