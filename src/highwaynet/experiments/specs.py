"""Specs of runs, as claims write them. Free of torch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from highwaynet.experiments.claims import Analysis, Run
from highwaynet.runs.spec import RunSpec, spec_from_values

if TYPE_CHECKING:
    from highwaynet.search.spec import StudySpec


def run_spec(network: dict[str, Any], data: str, training: dict[str, Any], seed: int = 1) -> RunSpec:
    """A run with one thread: many are run side by side."""
    values = {"network": network, "data": {"name": data}, "training": {"threads": 1} | training, "seed": seed}
    return spec_from_values(values)


def over_seeds(
    label: str, network: dict[str, Any], data: str, training: dict[str, Any], seeds: int, analyses: tuple[Analysis, ...] = ()
) -> Iterator[Run]:
    """The same run with the seeds 1, 2, …; the label of each ends in its seed."""
    for seed in range(1, seeds + 1):
        yield Run(f"{label}-{seed}", run_spec(network, data, training, seed), analyses)


def runs_of_study(study: "StudySpec") -> Iterator[Run]:
    """The runs of a study whose settings do not depend on each other: the same that `highway search` makes."""
    from highwaynet.search.configurations import configurations, spec_of_trial
    from highwaynet.search.drawing import draw, trial_seed

    for configuration in configurations(study):
        for index, settings in enumerate(draw(study, configuration) or []):
            spec = spec_of_trial(study, configuration, settings, trial_seed(study, configuration, index))
            yield Run(f"{spec.network.kind}-{spec.network.depth}-{index}", spec)
