"""The best settings of a study as a study of its own, to be run longer."""

from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.base.specs import validated
from highwaynet.search.results import TOP, StudyResult
from highwaynet.search.spec import StudySpec

EPOCHS = "training.epochs"


def finals(spec: StudySpec, result: StudyResult, top: int, epochs: int | None, name: str | None) -> StudySpec:
    """A study of the best settings of each configuration, the best first; each has another seed than before.

    Args:
        spec: The study.
        result: What it came to.
        top: How many settings of each configuration.
        epochs: How long each is run; as long as before where None.
        name: The new study's name; by default that of the old one and "finals".
    """
    if top > TOP:
        raise InputError(f"--top {top}: a study keeps the {TOP} best of each configuration")
    for one in result.configurations:
        if len(one.top) < top:
            raise InputError(
                f"--top {top}: {one.label} has {len(one.top)} finished trials that did not diverge; run the study first, or ask for fewer"
            )
    values: dict[str, Any] = spec.model_dump(exclude_none=True)
    if epochs is not None:
        if EPOCHS in spec.axes or EPOCHS in spec.space:
            raise InputError(f"--epochs {epochs}: the study itself searches over {EPOCHS}; leave --epochs out")
        values["run"].setdefault("training", {})["epochs"] = epochs
    given = {one.label: [trial.settings for trial in one.top[:top]] for one in result.configurations}
    changes = {"name": name or f"{spec.name}-finals", "sampler": "given", "pruner": "none", "trials": top, "given": given}
    return validated(StudySpec, values | changes)
