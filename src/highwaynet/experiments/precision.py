"""The number format of convolutional networks in claims: float32, or mixed bfloat16 on request.

Other networks are always trained in float32: their compiled kernels are faster. Does not import torch.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, get_args

from highwaynet.experiments.claims import Run
from highwaynet.experiments.keys import key_of
from highwaynet.runs.spec import with_training

Format = Literal["float32", "bfloat16"]
FORMATS: tuple[Format, ...] = get_args(Format)


def in_format(runs: Iterable[Run], wanted: Format) -> tuple[Run, ...]:
    """Return the same runs, with convolutional networks in this number format; teachers as well."""
    return tuple(_in_format(run, wanted) for run in runs)


def _in_format(run: Run, wanted: Format) -> Run:
    spec, teacher = run.spec, run.teacher
    if spec.network.preset.family == "convolutional":
        spec = with_training(spec, precision=wanted)
    if teacher is not None and spec.teacher is not None:
        teacher = _in_format(teacher, wanted)
        spec = spec.model_copy(update={"teacher": spec.teacher.model_copy(update={"run": key_of(teacher.spec)})})
    return replace(run, spec=spec, teacher=teacher)


def formats(runs: Iterable[Run]) -> set[str]:
    """The number formats of the convolutional networks among these runs, and of their teachers."""
    found: set[str] = set()
    for run in runs:
        specs = [run.spec, *([run.teacher.spec] if run.teacher else [])]
        found |= {spec.training.precision for spec in specs if spec.network.preset.family == "convolutional"}
    return found
