"""Importance of each setting."""

import math
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

FEWEST = 20
"""Fewest trials for which importance is computed; with fewer, the best tenth would be one trial."""


def importance_of(trials: list["FrozenTrial"], *, maximises: bool) -> dict[str, float] | None:
    """Compute PED-ANOVA: how much the distribution of each setting in the best tenth of the trials differs from that in all. The sum is 1.

    Diverged trials count as worst. Only settings that every trial has are compared. Returns None if there are too few trials, fewer than
    two such settings, or values that Optuna cannot compare.
    """
    from optuna.trial import TrialState

    ended = [trial for trial in trials if trial.state in {TrialState.COMPLETE, TrialState.PRUNED}]
    done = [trial for trial in ended if trial.state == TrialState.COMPLETE and trial.value is not None]
    if len(done) < FEWEST:
        return None
    common = [field for field in ended[0].params if all(field in trial.params for trial in ended)]
    sign = -1.0 if maximises else 1.0
    finite = [sign * (trial.value or 0.0) for trial in done if math.isfinite(trial.value or 0.0)]
    if len(set(finite)) < 2 or len(common) < 2:
        return None
    worst = max(finite)
    try:
        found = _ped_anova(done, [min(sign * (trial.value or 0.0), worst) for trial in done], common)
    except (ValueError, RuntimeError):  # show the study without importance rather than fail
        return None
    return {field: float(share) for field, share in sorted(found.items(), key=lambda item: -item[1])}


def _ped_anova(trials: list["FrozenTrial"], values: list[float], fields: list[str]) -> dict[str, float]:
    """Compute the importance of `fields`; lower values are better."""
    import optuna
    from optuna.trial import create_trial

    study = optuna.create_study()
    for trial, value in zip(trials, values, strict=True):
        study.add_trial(create_trial(params=trial.params, distributions=trial.distributions, value=value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optuna.importance.get_param_importances(study, params=fields, evaluator=optuna.importance.PedAnovaImportanceEvaluator())
