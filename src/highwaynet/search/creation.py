"""Creating a study in its storage: one Optuna study for each configuration, with exactly one live or finished trial for each index.

Everything for a configuration happens in one transaction that locks its study. Each index is therefore there once, even if several parents
start at the same time or one is killed half-way. This module writes rows of Optuna's tables itself, because Optuna's functions add trials
one by one, and add a trial twice if the connection breaks before the answer.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from highwaynet.search.configurations import Configuration, Settings, parameters_of
from highwaynet.search.distributions import stored
from highwaynet.search.spec import StudySpec
from highwaynet.search.storage import Patience, transaction

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from sqlalchemy.orm import Session

FORMAT = 1
"""Version of the attributes that highwaynet adds to Optuna's studies and trials."""
ERRORS = 3
"""A trial that has failed this many times is given up."""
LOSSES = 12
"""A trial that has lost its worker this many times is given up; it may need too much memory."""


def study_name(spec: StudySpec, configuration: Configuration) -> str:
    """Return the name of a configuration's study in Optuna's storage."""
    return f"{spec.name}/{configuration.label}"


def ensure(
    storage: "RDBStorage",
    patience: Patience,
    spec: StudySpec,
    configuration: Configuration,
    attributes: Mapping[str, Any],
    *,
    again: bool = False,
) -> int:
    """Create what is missing: the study, and a waiting trial for each index without a live or finished one. Returns the study's id.

    With `again`, indices that were given up are tried again.
    """
    from sqlalchemy.exc import IntegrityError

    from highwaynet.search.drawing import draw  # imports torch, which commands that only read a study do not need

    drawn = draw(spec, configuration)

    def attempt() -> int:
        for _ in range(10):
            try:
                with transaction(storage) as session:
                    study = _locked_study(session, spec, configuration, attributes)
                    _add_trials(session, study, spec, configuration, drawn, again=again)
                    return study
            except IntegrityError:  # another process has just created the study
                continue
        raise AssertionError("after the first conflict the study exists")

    return patience(attempt)


def _locked_study(session: "Session", spec: StudySpec, configuration: Configuration, attributes: Mapping[str, Any]) -> int:
    """Return the id of the study, created if missing; its row is locked until the transaction ends."""
    from optuna.storages._rdb import models
    from optuna.study import StudyDirection

    name = study_name(spec, configuration)
    study = session.query(models.StudyModel).filter(models.StudyModel.study_name == name).with_for_update().one_or_none()
    if study is None:
        direction = StudyDirection.MAXIMIZE if spec.maximises else StudyDirection.MINIMIZE
        study = models.StudyModel(study_name=name, directions=[models.StudyDirectionModel(objective=0, direction=direction)])
        session.add(study)
        session.flush()
        for key, value in attributes.items():
            session.add(models.StudyUserAttributeModel(study_id=study.study_id, key=key, value_json=json.dumps(value)))
    return int(study.study_id)


def _add_trials(
    session: "Session", study: int, spec: StudySpec, configuration: Configuration, drawn: list[Settings] | None, *, again: bool
) -> None:
    from optuna.storages._rdb import models
    from optuna.trial import TrialState

    trial, attribute = models.TrialModel, models.TrialUserAttributeModel

    def kept(key: str) -> dict[int, tuple[TrialState, Any]]:
        query = session.query(trial.trial_id, trial.state, attribute.value_json).join(attribute, attribute.trial_id == trial.trial_id)
        rows = query.filter(trial.study_id == study, attribute.key == key).order_by(trial.trial_id).all()
        return {number: (state, json.loads(value)) for number, state, value in rows}

    indices = kept("index")
    alive = {index for state, index in indices.values() if state != TrialState.FAIL}
    if len(alive) == spec.trials:
        return
    failures = kept("error")
    errors = Counter(indices[number][1] for number in failures if number in indices)
    losses = Counter(index for number, (_, index) in indices.items() if number not in failures)
    last = {index: number for number, (_, index) in indices.items()}
    missing = [n for n in range(spec.trials) if n not in alive]
    wanted = [n for n in missing if again or not is_given_up(errors[n], losses[n])]
    if forgotten := {n for n in missing if again and is_given_up(errors[n], losses[n])}:
        old = [number for number, (_, index) in indices.items() if index in forgotten]
        session.query(attribute).filter(attribute.key == "index", attribute.trial_id.in_(old)).update({"key": "forgotten_index"})
    count = session.query(trial.trial_id).filter(trial.study_id == study).count()
    added = {index: trial(study_id=study, number=count + place, state=TrialState.WAITING) for place, index in enumerate(wanted)}
    session.add_all(added.values())
    session.flush()  # assigns the ids
    space = parameters_of(spec, configuration)
    for index, row in added.items():
        session.add(attribute(trial_id=row.trial_id, key="index", value_json=json.dumps(index)))
        if drawn is not None:
            for field, value in drawn[index].items():
                number, text = stored(space[field], value)
                session.add(models.TrialParamModel(trial_id=row.trial_id, param_name=field, param_value=number, distribution_json=text))
        elif index in last:  # reuse the settings that were suggested before
            for known in session.query(models.TrialParamModel).filter(models.TrialParamModel.trial_id == last[index]):
                copy = {"param_name": known.param_name, "param_value": known.param_value, "distribution_json": known.distribution_json}
                session.add(models.TrialParamModel(trial_id=row.trial_id, **copy))


def is_given_up(errors: int, losses: int) -> bool:
    """Whether an index with this many errors and lost workers is not tried again."""
    return errors >= ERRORS or losses >= LOSSES
