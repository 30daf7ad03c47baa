"""Short ways to write the runs of claims. Does not import torch."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from highwaynet.experiments.claims import Analysis, Run, Scale
from highwaynet.runs.spec import RunSpec, spec_from_values

if TYPE_CHECKING:
    from highwaynet.search.spec import StudySpec

FIRST_SEED = 101
"""Of the claims' runs at scales laptop and paper: lower ones were used while the rules were made."""


def seeds_at(scale: Scale, count: int) -> range:
    """This many seeds.

    >>> list(seeds_at("smoke", 2)), list(seeds_at("laptop", 2))
    ([1, 2], [101, 102])
    """
    first = 1 if scale == "smoke" else FIRST_SEED
    return range(first, first + count)


def run_spec(
    network: dict[str, Any], data: str | dict[str, Any], training: dict[str, Any], seed: int = 1, teacher: dict[str, Any] | None = None
) -> RunSpec:
    """Return the spec of a run with one thread, because many run in parallel. The data are a name, or settings with a name."""
    section = {"name": data} if isinstance(data, str) else data
    values = {"network": network, "data": section, "training": {"threads": 1} | training, "seed": seed}
    return spec_from_values(values | ({} if teacher is None else {"teacher": teacher}))


def over_seeds(
    label: str,
    network: dict[str, Any],
    data: str,
    training: dict[str, Any],
    seeds: Iterable[int],
    analyses: tuple[Analysis, ...] = (),
) -> Iterator[Run]:
    """The same run with several seeds; the label of each ends in its seed."""
    for seed in seeds:
        yield Run(f"{label}-{seed}", run_spec(network, data, training, seed), analyses)


def runs_of_study(study: "StudySpec") -> Iterator[Run]:
    """Yield the runs of a study as `highway search` makes them; its sampler must not learn from earlier trials."""
    from highwaynet.search.configurations import configurations, spec_of_trial
    from highwaynet.search.drawing import draw, trial_seed

    for configuration in configurations(study):
        for index, settings in enumerate(draw(study, configuration) or []):
            spec = spec_of_trial(study, configuration, settings, trial_seed(study, configuration, index))
            yield Run(f"{spec.network.kind}-{spec.network.depth}-{index}", spec)
