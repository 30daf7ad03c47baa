"""Which trial is next: asked of the tables directly, since there may be thousands that wait."""

import json
from typing import TYPE_CHECKING

from highwaynet.search.storage import transaction

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

FEW = 5
"""Others may be faster with the first ones."""


def next_waiting(storage: "RDBStorage", study: int) -> list[int]:
    """The ids of the first waiting trials, by index."""
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
    """Whether the trial that had this index before ended with an error."""
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
