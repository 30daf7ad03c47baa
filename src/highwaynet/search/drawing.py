"""Settings of trials, drawn from the study's seed, the configuration and the trial's index, whoever draws them."""

import torch

from highwaynet.base.randomness import generator_for, seed_for
from highwaynet.search.configurations import Configuration, Settings, applies, parameters_of
from highwaynet.search.spec import StudySpec


def trial_seed(spec: StudySpec, configuration: Configuration, index: int) -> int:
    """The seed of a trial's run."""
    return seed_for(spec.seed, "trial", configuration.label, index)


def draw(spec: StudySpec, configuration: Configuration) -> list[Settings] | None:
    """The settings of all trials of a configuration, by index; None where the sampler learns from trials before."""
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
    """(trials, fields): each number has a generator of its own, so that another field in the space changes none of the others."""

    def number(index: int, field: str) -> float:
        generator = generator_for(spec.seed, "settings", configuration.label, index, field)
        return float(torch.rand((), generator=generator, dtype=torch.float64))

    return [[number(index, field) for field in fields] for index in range(spec.trials)]


def _sobol(spec: StudySpec, configuration: Configuration, fields: int) -> list[list[float]]:
    """(trials, fields): the first points of a scrambled Sobol sequence."""
    if not fields:
        return [[]] * spec.trials
    engine = torch.quasirandom.SobolEngine(fields, scramble=True, seed=seed_for(spec.seed, "sobol", configuration.label))
    points: list[list[float]] = engine.draw(spec.trials, dtype=torch.float64).tolist()
    return points
