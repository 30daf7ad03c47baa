"""How much each setting matters."""

import math
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

FEWEST = 20
"""With fewer trials the best tenth is one or two, which say nothing."""


def importance_of(trials: list["FrozenTrial"], *, maximises: bool) -> dict[str, float] | None:
    """PED-ANOVA: how differently a setting is spread among the best tenth of the trials and among all; together 1.

    Trials that diverged count as worst. None where there are too few trials.
    """
    import optuna
    from optuna.trial import TrialState

    ended = [trial for trial in trials if trial.state == TrialState.COMPLETE and trial.value is not None and trial.params]
    if len(ended) < FEWEST:
        return None
    sign = -1.0 if maximises else 1.0
    finite = [sign * (trial.value or 0.0) for trial in ended if math.isfinite(trial.value or 0.0)]
    if len(set(finite)) < 2:
        return None
    worst = max(finite)
    study = optuna.create_study()
    study.add_trials([_with_value(trial, min(sign * (trial.value or 0.0), worst)) for trial in ended])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = optuna.importance.get_param_importances(study, evaluator=optuna.importance.PedAnovaImportanceEvaluator())
    return {field: float(share) for field, share in sorted(found.items(), key=lambda item: -item[1])}


def _with_value(trial: "FrozenTrial", value: float) -> "FrozenTrial":
    import optuna

    return optuna.trial.create_trial(params=trial.params, distributions=trial.distributions, value=value)
