"""Samplers and pruners of Optuna, which learn from earlier trials."""

from typing import TYPE_CHECKING, Any

from highwaynet.base.randomness import seed_for
from highwaynet.search.configurations import Settings, applies, parameters_of
from highwaynet.search.creation import study_name
from highwaynet.search.distributions import distribution_of, restored
from highwaynet.search.spec import Parameter, Pruner

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.trial import Trial

    from highwaynet.search.trials import ClaimedTrial, Trials

REDUCTION = 4
"""Successive halving: one of this many trials continues."""


def load_study(trials: "Trials", claim: "ClaimedTrial") -> "Study":
    """Load the Optuna study of a claimed trial's configuration, with a sampler seeded for this trial."""
    import optuna

    name = study_name(trials.spec, claim.configuration)
    seed = seed_for(trials.spec.seed, "sampler", claim.configuration.label, claim.index) % 2**32
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    return trials.ask(lambda: optuna.load_study(study_name=name, storage=trials.storage, sampler=sampler))


def suggest(trials: "Trials", claim: "ClaimedTrial") -> Settings:
    """Return the settings of a claimed trial: those drawn in advance, else those that the sampler suggests (once for each trial)."""
    import optuna

    if trials.spec.sampler != "tpe":
        return claim.settings
    study = load_study(trials, claim)
    trial = trials.ask(lambda: optuna.trial.Trial(study, claim.trial))
    settings: Settings = {}
    for field, parameter in parameters_of(trials.spec, claim.configuration).items():
        if applies(parameter, claim.configuration, settings):
            settings[field] = trials.ask(lambda field=field, parameter=parameter: _suggested(trial, field, parameter))  # type: ignore[misc]
    return settings


def _suggested(trial: "Trial", field: str, parameter: Parameter) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    distribution = distribution_of(parameter)
    match distribution:
        case CategoricalDistribution():
            return restored(parameter, trial.suggest_categorical(field, distribution.choices))
        case IntDistribution():
            return trial.suggest_int(field, distribution.low, distribution.high, step=distribution.step)
        case FloatDistribution():
            return trial.suggest_float(field, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
        case _:
            raise TypeError(type(distribution))


class Pruning:
    """Decides whether a trial should be pruned.

    Args:
        trials: The study.
        claim: The trial.
        epochs: Its number of epochs.
    """

    def __init__(self, trials: "Trials", claim: "ClaimedTrial", epochs: int) -> None:
        self._trials, self._claim = trials, claim
        self._study = load_study(trials, claim) if trials.spec.pruner != "none" else None
        self._pruner = _pruner(trials.spec.pruner, epochs)

    def is_bad(self) -> bool:
        """Whether the pruner would end the trial, given the values reported so far."""
        if self._study is None:
            return False
        study, storage = self._study, self._trials.storage
        return self._trials.ask(lambda: self._pruner.prune(study, storage.get_trial(self._claim.trial)))


def _pruner(name: Pruner, epochs: int) -> "BasePruner":
    from optuna import pruners

    if name == "halving":
        return pruners.SuccessiveHalvingPruner(min_resource=max(1, epochs // REDUCTION**2), reduction_factor=REDUCTION)
    return pruners.MedianPruner() if name == "median" else pruners.NopPruner()
