"""Results of a study, as plain records."""

import math
import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from highwaynet.base.specs import Spec
from highwaynet.search.configurations import Configuration, configurations, parameters_of, spec_of_trial
from highwaynet.search.creation import study_name
from highwaynet.search.distributions import restored
from highwaynet.search.importance import importance_of
from highwaynet.search.spec import Pruner, Sampler, StudyMeasure, StudySpec
from highwaynet.search.trials import given_up

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial

TOP = 10
"""Number of best trials, as in figure 1 (right) of the paper."""
TRAINED = 0.5
"""A trial counts as trained if its lowest training loss is below this; guessing among ten classes gives 2.3."""


class TrialResult(Spec):
    """The result of a trial."""

    index: int
    """Its index in its configuration."""
    state: Literal["done", "pruned", "diverged"]
    """done; pruned (ended early); or diverged, which counts as worse than all others."""
    value: float | None
    """The best value of the objective over its epochs; None if it diverged."""
    train_loss: float | None
    """Its lowest training loss."""
    settings: dict[str, Any]
    """Its settings, by field."""
    epochs: int
    """Number of epochs that it ran."""
    seconds: float
    """Training time in seconds."""
    curve: tuple[float | None, ...]
    """The value of the objective after each epoch."""


class ConfigurationResult(Spec):
    """The results of a configuration."""

    label: str
    """Its name."""
    axes: dict[str, Any]
    """Its values of the study's axes, by field."""
    trials: int
    """Number of settings to try."""
    done: int
    """Number of trials with a result, including pruned and diverged ones."""
    pruned: int
    """How many of these were pruned."""
    diverged: int
    """How many of these diverged."""
    failed: dict[int, str]
    """Trials that were given up after repeated failures, with the reason, by index."""
    trained_share: float | None
    """Share of the trials so far whose lowest training loss is below `trained_below` of the study."""
    top: tuple[TrialResult, ...]
    """The best trials, the best first."""
    top_mean: float | None
    """Mean of their values."""
    top_std: float | None
    """Standard deviation of their values."""
    importance: dict[str, float] | None
    """Importance of each setting for being among the best tenth (PED-ANOVA), with sum 1; None if too few trials are done."""
    results: tuple[TrialResult, ...]
    """All trials that have a result, by index."""

    @property
    def best(self) -> TrialResult | None:
        """The best trial."""
        return self.top[0] if self.top else None

    @property
    def is_over(self) -> bool:
        """Whether no trials are left to run."""
        return self.done + len(self.failed) == self.trials

    def ranked(self, *, maximises: bool) -> list[TrialResult]:
        """Return the trials that were neither pruned nor diverged, the best first."""
        return _ranked(self.results, maximises=maximises)


class StudyResult(Spec):
    """The results of a study."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    name: str
    """Name of the study."""
    objective: StudyMeasure
    """The objective by which trials are compared."""
    sampler: Sampler
    """The sampler."""
    pruner: Pruner
    """The pruner."""
    trained_below: float = TRAINED
    """A trial counts as trained if its lowest training loss is below this."""
    log_scaled: tuple[str, ...]
    """Fields that were drawn log-uniformly."""
    choices: dict[str, tuple[Any, ...]]
    """Fields that were drawn from a list, with the list."""
    configurations: tuple[ConfigurationResult, ...]
    """The configurations, in the order of the axes."""

    @property
    def maximises(self) -> bool:
        """Whether a higher value is better."""
        return self.objective == "validation-accuracy"

    def best(self) -> ConfigurationResult | None:
        """Return the configuration with the best trial; None if no trial is done."""
        known = [one for one in self.configurations if one.best]
        sign = -1 if self.maximises else 1
        return min(known, key=lambda one: sign * _value(one.top[0]), default=None)


def collect(spec: StudySpec, storage: "RDBStorage") -> StudyResult:
    """Read the results of a study so far."""
    known = {study.study_name: study._study_id for study in storage.get_all_studies()}
    found = []
    for configuration in configurations(spec):
        name = study_name(spec, configuration)
        trials = storage.get_all_trials(known[name], deepcopy=False) if name in known else []
        found.append(_configuration(spec, configuration, trials))
    return StudyResult(
        name=spec.name,
        objective=spec.objective,
        sampler=spec.sampler,
        pruner=spec.pruner,
        log_scaled=tuple(field for field, parameter in spec.space.items() if parameter.kind == "log-uniform"),
        choices={field: parameter.choices for field, parameter in spec.space.items() if parameter.choices is not None},
        configurations=tuple(found),
    )


def run_file(spec: StudySpec, configuration: ConfigurationResult, trial: TrialResult) -> str:
    """Return the text of a run file that repeats a trial."""
    from highwaynet.search.drawing import trial_seed

    place = Configuration(configuration.label, configuration.axes)
    run = spec_of_trial(spec, place, trial.settings, trial_seed(spec, place, trial.index))
    heading = f"# Study {spec.name}, configuration {configuration.label}, trial {trial.index}: {spec.objective} {trial.value!r}\n"
    return heading + run.to_toml()


def _configuration(spec: StudySpec, configuration: Configuration, trials: list["FrozenTrial"]) -> ConfigurationResult:
    results = sorted(_results(spec, configuration, trials), key=lambda one: one.index)
    top = tuple(_ranked(results, maximises=spec.maximises)[:TOP])
    values = [_value(one) for one in top]
    losses = [one.train_loss for one in results]
    return ConfigurationResult(
        label=configuration.label,
        axes=configuration.values,
        trials=spec.trials,
        done=len(results),
        pruned=sum(one.state == "pruned" for one in results),
        diverged=sum(one.state == "diverged" for one in results),
        failed=given_up(trials),
        trained_share=sum(loss is not None and loss < TRAINED for loss in losses) / len(losses) if losses else None,
        top=top,
        top_mean=statistics.fmean(values) if values else None,
        top_std=statistics.stdev(values) if len(values) > 1 else None,
        importance=importance_of(trials, maximises=spec.maximises),
        results=tuple(results),
    )


def _results(spec: StudySpec, configuration: Configuration, trials: list["FrozenTrial"]) -> list[TrialResult]:
    from optuna.trial import TrialState

    space = parameters_of(spec, configuration)
    found = []
    for trial in trials:
        if trial.state not in {TrialState.COMPLETE, TrialState.PRUNED}:
            continue
        kept = trial.user_attrs
        diverged = bool(kept.get("diverged"))
        last = max(trial.intermediate_values, default=0)
        curve = [trial.intermediate_values.get(epoch, math.nan) for epoch in range(1, last + 1)]
        found.append(
            TrialResult(
                index=int(kept["index"]),
                state="diverged" if diverged else "pruned" if trial.state == TrialState.PRUNED else "done",
                value=None if diverged else trial.value,
                train_loss=kept.get("train_loss"),
                settings={field: restored(space[field], value) for field, value in trial.params.items()},
                epochs=int(kept.get("epochs", 0)),
                seconds=float(kept.get("seconds", 0.0)),
                curve=tuple(value if math.isfinite(value) else None for value in curve),
            )
        )
    return found


def _ranked(results: Iterable[TrialResult], *, maximises: bool) -> list[TrialResult]:
    sign = -1 if maximises else 1
    return sorted((one for one in results if one.state == "done"), key=lambda one: (sign * _value(one), one.index))


def _value(trial: TrialResult) -> float:
    return math.nan if trial.value is None else trial.value
