"""Drawing the settings of trials; they depend only on the study's seed, the configuration and the trial's index."""

import torch

from highwaynet.base.randomness import generator_for, seed_for
from highwaynet.search.configurations import Configuration, Settings, applies, parameters_of
from highwaynet.search.spec import StudySpec


def trial_seed(spec: StudySpec, configuration: Configuration, index: int) -> int:
    """Return the seed of a trial's run."""
    return seed_for(spec.seed, "trial", configuration.label, index)


def draw(spec: StudySpec, configuration: Configuration) -> list[Settings] | None:
    """Return the settings of all trials of a configuration, by index; None if the sampler learns from earlier trials."""
    if spec.sampler == "tpe":
        return None
    if spec.sampler == "given":
        return list(spec.given[configuration.label])
    parameters = parameters_of(spec, configuration)
    places = _sobol(spec, configuration, len(parameters)) if spec.sampler == "sobol" else _random(spec, configuration, list(parameters))
    drawn: list[Settings] = []
    for shares in places:
        settings: Settings = {}
        for share, (field, parameter) in zip(shares, parameters.items(), strict=True):
            if applies(parameter, configuration, settings):
                settings[field] = parameter.at(share)
        drawn.append(settings)
    return drawn


def _random(spec: StudySpec, configuration: Configuration, fields: list[str]) -> list[list[float]]:
    """Return (trials, fields) random numbers, each with its own generator, so that a new field does not change the others."""

    def number(index: int, field: str) -> float:
        generator = generator_for(spec.seed, "settings", configuration.label, index, field)
        return float(torch.rand((), generator=generator, dtype=torch.float64))

    return [[number(index, field) for field in fields] for index in range(spec.trials)]


def _sobol(spec: StudySpec, configuration: Configuration, fields: int) -> list[list[float]]:
    """Return the first points of a scrambled Sobol sequence, (trials, fields)."""
    if not fields:
        return [[]] * spec.trials
    engine = torch.quasirandom.SobolEngine(fields, scramble=True, seed=seed_for(spec.seed, "sobol", configuration.label))
    points: list[list[float]] = engine.draw(spec.trials, dtype=torch.float64).tolist()
    return points
