"""What identifies a run of a claim: a key that runs which compute the same share. Does not import torch."""

import json
import re
from pathlib import Path
from typing import Any

from highwaynet.base.files import sha256
from highwaynet.base.specs import Mark, marked
from highwaynet.runs.spec import SPEC, RunSpec, read_spec_values, spec_from_values
from highwaynet.runs.training_spec import TrainingSpec

INDIFFERENT = marked(TrainingSpec, Mark.INDIFFERENT)
"""Training settings that do not change what a run computes."""


def key_of(spec: RunSpec) -> str:
    """Return a key that is the same for runs that compute the same; settings added in later versions do not change it at their default.

    A teacher counts by its own key, wherever its run is: a plan names it by its key, a run directory by its path.
    """
    values = spec.model_dump(mode="json", exclude_defaults=True)
    # With rewinding, checkpoints decide to which step a run returns.
    indifferent = INDIFFERENT - ({"checkpoint"} if spec.training.on_divergence == "rewind" else set())
    values["training"] = {name: value for name, value in values.get("training", {}).items() if name not in indifferent}
    if spec.teacher is not None:
        values["teacher"] = _teacher(values["teacher"])
        if spec.teacher.stage == "distillation":  # its first stage follows from these settings
            values.pop("start", None)
    return sha256(json.dumps(values, sort_keys=True).encode())


def _teacher(section: dict[str, Any]) -> dict[str, Any]:
    """Return the section without what is filled in when a run starts, and with the key of the teacher instead of its path."""
    kept = {name: value for name, value in section.items() if name != "weights" and (name, value) != ("stage", "distillation")}
    return kept | {"run": teacher_key(section["run"])}


def teacher_key(run: str) -> str:
    """Return the key of a teacher, given by its path or already by its key."""
    path = Path(run) / SPEC
    if re.fullmatch("[0-9a-f]{64}", run) or not path.is_file():
        return run
    return key_of(spec_from_values(read_spec_values(path), path))
