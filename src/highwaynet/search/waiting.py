"""Queries for waiting trials, directly on Optuna's tables, because there may be thousands of them."""

import json
from typing import TYPE_CHECKING

from highwaynet.search.storage import transaction

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

FEW = 5
"""Number of candidates; other workers may claim the first ones before this one does."""


def next_waiting(storage: "RDBStorage", study: int) -> list[int]:
    """Return the ids of the first waiting trials, ordered by index."""
    from optuna.storages._rdb import models
    from optuna.trial import TrialState
    from sqlalchemy import Integer, cast

    trial, attribute = models.TrialModel, models.TrialUserAttributeModel
    with transaction(storage) as session:
        rows = (
            session.query(trial.trial_id)
            .join(attribute, attribute.trial_id == trial.trial_id)
            .filter(trial.study_id == study, trial.state == TrialState.WAITING, attribute.key == "index")
            .order_by(cast(attribute.value_json, Integer))
            .limit(FEW)
            .all()
        )
    return [int(row.trial_id) for row in rows]


def failed_before(storage: "RDBStorage", study: int, trial_id: int, index: int) -> bool:
    """Whether the previous trial with this index ended with an error."""
    from optuna.storages._rdb import models

    trial, attribute = models.TrialModel, models.TrialUserAttributeModel
    with transaction(storage) as session:
        earlier = (
            session.query(trial.trial_id)
            .join(attribute, attribute.trial_id == trial.trial_id)
            .filter(trial.study_id == study, trial.trial_id < trial_id)
            .filter(attribute.key == "index", attribute.value_json == json.dumps(index))
            .order_by(trial.trial_id.desc())
            .first()
        )
        if earlier is None:
            return False
        return session.query(attribute).filter(attribute.trial_id == earlier.trial_id, attribute.key == "error").count() > 0
