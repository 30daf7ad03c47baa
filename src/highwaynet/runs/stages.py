"""Training with hints as two runs: which settings each of them has, and where it is. Does not import torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.networks.presets import PRESETS
from highwaynet.runs.optimisers import default_rate
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
    return path.with_name(f"hints-{path.name}")


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
    named = f", {second}" if second is not None and (second / SPEC).is_file() else ""
    raise InputError(
        f"{path}: it is the first stage of a training with hints, without trained outputs; name that of the second stage{named}"
    )


def check_begun(path: Path) -> None:
    """Raise InputError if there is no run, but the first stage of one, whose settings are not those of the second."""
    if not path.exists() and (hints_path(path) / SPEC).is_file():
        raise InputError(
            f"{path}: only the first stage has begun, {hints_path(path)}; continue with the command that began it, and --resume"
        )


def check_place(path: Path) -> None:
    """Raise InputError if another run is where a first stage would be written."""
    if (path / SPEC).is_file() and not spec_from_values(read_spec_values(path / SPEC), path / SPEC).is_first_stage:
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
