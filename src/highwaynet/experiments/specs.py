"""Short ways to write the runs of claims. Does not import torch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from highwaynet.experiments.claims import Analysis, Run
from highwaynet.runs.spec import RunSpec, spec_from_values

if TYPE_CHECKING:
    from highwaynet.search.spec import StudySpec


def run_spec(network: dict[str, Any], data: str, training: dict[str, Any], seed: int = 1) -> RunSpec:
    """Return the spec of a run with one thread, because many run in parallel."""
    values = {"network": network, "data": {"name": data}, "training": {"threads": 1} | training, "seed": seed}
    return spec_from_values(values)


def over_seeds(
    label: str, network: dict[str, Any], data: str, training: dict[str, Any], seeds: int, analyses: tuple[Analysis, ...] = ()
) -> Iterator[Run]:
    """Yield the same run with the seeds 1, 2, …; each label ends in the seed."""
    for seed in range(1, seeds + 1):
        yield Run(f"{label}-{seed}", run_spec(network, data, training, seed), analyses)


def runs_of_study(study: "StudySpec") -> Iterator[Run]:
    """Yield the runs of a study as `highway search` makes them; its sampler must not learn from earlier trials."""
    from highwaynet.search.configurations import configurations, spec_of_trial
    from highwaynet.search.drawing import draw, trial_seed

    for configuration in configurations(study):
        for index, settings in enumerate(draw(study, configuration) or []):
            spec = spec_of_trial(study, configuration, settings, trial_seed(study, configuration, index))
            yield Run(f"{spec.network.kind}-{spec.network.depth}-{index}", spec)
