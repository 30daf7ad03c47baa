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

    Trials that diverged count as worst. Only settings that every trial has are compared: the share of one that few of the best have says
    nothing about the others. None where there are too few trials, fewer than two such settings, or numbers that Optuna cannot compare.
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
    except (ValueError, RuntimeError):  # a study is shown without them rather than not at all
        return None
    return {field: float(share) for field, share in sorted(found.items(), key=lambda item: -item[1])}


def _ped_anova(trials: list["FrozenTrial"], values: list[float], fields: list[str]) -> dict[str, float]:
    """Lower values are better."""
    import optuna
    from optuna.trial import create_trial

    study = optuna.create_study()
    for trial, value in zip(trials, values, strict=True):
        study.add_trial(create_trial(params=trial.params, distributions=trial.distributions, value=value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optuna.importance.get_param_importances(study, params=fields, evaluator=optuna.importance.PedAnovaImportanceEvaluator())
