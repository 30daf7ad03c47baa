"""Finals: a new study of the best settings of a study, usually with more epochs."""

from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.base.randomness import seed_for
from highwaynet.base.specs import validated
from highwaynet.search.results import StudyResult
from highwaynet.search.spec import StudySpec

EPOCHS = "training.epochs"


def finals(spec: StudySpec, result: StudyResult, top: int, epochs: int | None, name: str | None) -> StudySpec:
    """Return a study of the best settings of each configuration, the best first, with new seeds.

    Args:
        spec: The study.
        result: Its results.
        top: How many settings of each configuration.
        epochs: Number of epochs; None keeps the old number.
        name: Name of the new study; by default the old name and "-finals".
    """
    ranked = {one.label: one.ranked(maximises=result.maximises) for one in result.configurations}
    label = min(ranked, key=lambda label: len(ranked[label]))
    if len(ranked[label]) < top:
        way = f"ask for --top {len(ranked[label])}" if ranked[label] else "run the study to its end first"
        raise InputError(f"--top {top}: {label} has {len(ranked[label])} trials that finished and did not diverge; {way}")
    values: dict[str, Any] = spec.model_dump(exclude_none=True)
    if epochs is not None:
        if EPOCHS in spec.axes or EPOCHS in spec.space:
            raise InputError(f"--epochs {epochs}: the study itself searches over {EPOCHS}; omit --epochs")
        values["run"].setdefault("training", {})["epochs"] = epochs
    changes = {
        "name": name or f"{spec.name}-finals",
        "seed": seed_for(spec.seed, "finals") % 2**63,
        "sampler": "given",
        "pruner": "none",
        "trials": top,
        "given": {label: [trial.settings for trial in trials[:top]] for label, trials in ranked.items()},
    }
    return validated(StudySpec, values | changes)
