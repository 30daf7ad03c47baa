"""A study in its storage: each index exactly once, whoever makes it, and however they end."""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from highwaynet.search import creation
from highwaynet.search.configurations import configurations
from highwaynet.search.drawing import draw
from highwaynet.search.spec import StudySpec
from highwaynet.search.status import standing
from highwaynet.search.trials import TakenAwayError, Trials, given_up, is_over

OpenStudy = Callable[..., Trials]
SPACE = {
    "training.learning_rate": {"kind": "log-uniform", "low": 1e-4, "high": 1.0},
    "training.batch_size": {"kind": "integer", "low": 16, "high": 64, "step": 16},
    "network.activation": {"kind": "choice", "choices": ["tanh", "relu"]},
    "network.dropout": {"kind": "choice", "choices": [[0.0, 0.0], [0.1, 0.2]], "when": {"network.activation": "relu"}},
    "training.decay": {"kind": "uniform", "low": 0.1, "high": 1, "step": 0.3},
}


def indices(trials: Trials, *states: TrialState) -> Counter[int]:
    study = trials.study_id(trials.configurations[0])
    return Counter(trial.user_attrs["index"] for trial in trials.storage.get_all_trials(study) if trial.state in states)


def test_optuna_reads_the_trials_as_its_own(tiny: Callable[..., StudySpec], open_study: OpenStudy, tmp_path: Path) -> None:
    spec = tiny(trials=6, space=SPACE, axes={"network.depth": [3, 4]}, run={})
    trials = open_study(spec)
    for configuration in configurations(spec):
        study = optuna.load_study(study_name=f"tiny/{configuration.label}", storage=f"sqlite:///{tmp_path / 'study' / 'study.db'}")
        assert study.direction.name == "MINIMIZE"
        assert study.user_attrs["spec"] == spec.to_toml()
        drawn = draw(spec, configuration)
        assert drawn is not None
        for trial in study.trials:
            assert (trial.state, trial.number) == (TrialState.WAITING, trial.user_attrs["index"])
            shown = {field: value if field != "network.dropout" else str(value) for field, value in drawn[trial.number].items()}
            assert trial.params == shown
            for name, distribution in trial.distributions.items():
                assert distribution._contains(distribution.to_internal_repr(trial.params[name])), name
            assert trial.distributions["training.learning_rate"] == optuna.distributions.FloatDistribution(1e-4, 1.0, log=True)
            assert trial.distributions["training.batch_size"] == optuna.distributions.IntDistribution(16, 64, step=16)
        claim = trials.claim(configuration, "me")
        assert claim is not None
        assert (claim.index, claim.settings) == (0, drawn[0]), "numbers to the bit, lists as lists"


def test_making_it_again_changes_nothing(tiny: Callable[..., StudySpec], open_study: OpenStudy) -> None:
    trials = open_study(tiny(trials=5))
    trials.create()
    open_study(tiny(trials=5))
    assert indices(trials, TrialState.WAITING) == dict.fromkeys(range(5), 1)


def test_parents_that_start_together_make_each_index_once(tiny: Callable[..., StudySpec], open_study: OpenStudy) -> None:
    spec = tiny(trials=30, axes={"network.depth": [3, 4, 5]}, run={})
    problems: list[BaseException] = []

    def begin() -> None:
        try:
            open_study(spec)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert indices(open_study(spec), TrialState.WAITING) == dict.fromkeys(range(30), 1)


def test_a_kill_while_it_is_made_leaves_nothing_half(
    tiny: Callable[..., StudySpec], open_study: OpenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tiny(trials=10)
    calls = 0

    def die(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 7:
            raise KeyboardInterrupt
        return stored(*arguments)

    stored = creation.stored
    monkeypatch.setattr(creation, "stored", die)
    with pytest.raises(KeyboardInterrupt):
        open_study(spec)
    assert calls == 7
    monkeypatch.undo()
    trials = open_study(spec)
    assert indices(trials, TrialState.WAITING) == dict.fromkeys(range(10), 1)


def test_a_trial_is_claimed_once(tiny: Callable[..., StudySpec], open_study: OpenStudy) -> None:
    spec = tiny(trials=40)
    taken: list[list[int]] = []

    def take(trials: Trials) -> None:
        mine: list[int] = []
        while claim := trials.claim(trials.configurations[0], "me"):
            mine.append(claim.index)
        taken.append(mine)

    threads = [threading.Thread(target=take, args=(open_study(spec),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(index for mine in taken for index in mine) == dict.fromkeys(range(40), 1)


def test_an_index_that_is_lost_waits_again_and_one_that_fails_is_tried_thrice(
    tiny: Callable[..., StudySpec], open_study: OpenStudy
) -> None:
    trials = open_study(tiny(trials=2))
    (configuration,) = trials.configurations
    settings = []
    for attempt in range(3):
        claim = trials.claim(configuration, f"worker {attempt}")
        assert claim is not None
        assert (claim.index, claim.anew) == (0, attempt > 0)
        settings.append(claim.settings)
        trials.keep(claim.trial, error=f"no. {attempt}")
        trials.finish(claim.trial, TrialState.FAIL)
        trials.rescue()
    assert settings[0] == settings[1] == settings[2]
    assert indices(trials, TrialState.FAIL) == {0: 3}
    assert indices(trials, TrialState.WAITING) == {1: 1}
    assert given_up(trials.all(configuration)) == {0: "no. 2"}
    claim = trials.claim(configuration, "last")
    assert claim is not None
    trials.finish(claim.trial, TrialState.FAIL)
    with pytest.raises(TakenAwayError):
        trials.finish(claim.trial, TrialState.COMPLETE, 0.5)
    trials.rescue()  # it was lost, without an error of its own
    claim = trials.claim(configuration, "last")
    assert claim is not None
    trials.give_back(claim.trial)
    assert indices(trials, TrialState.WAITING) == {1: 1}, "given back, not failed"
    claim = trials.claim(configuration, "last")
    assert claim is not None
    assert not is_over(trials.spec, trials.all(configuration))
    trials.finish(claim.trial, TrialState.COMPLETE, 0.5)
    assert is_over(trials.spec, trials.all(configuration))
    assert trials.claim(configuration, "last") is None


def test_what_was_given_up_has_another_chance_and_what_was_given_back_goes_on(
    tiny: Callable[..., StudySpec], open_study: OpenStudy
) -> None:
    trials = open_study(tiny(trials=1))
    (configuration,) = trials.configurations
    for _ in range(3):
        claim = trials.claim(configuration, "worker")
        assert claim is not None
        trials.keep(claim.trial, error="the disk is full")
        trials.finish(claim.trial, TrialState.FAIL)
        trials.rescue()
    trials.create()
    assert trials.claim(configuration, "worker") is None
    trials.create(again=True)
    trials = open_study(trials.spec)  # what has ended is read once: a program that starts now
    assert given_up(trials.all(configuration)) == {}
    for anew in (False, False):  # the failures are forgotten; and nothing of a trial that is given back is lost
        claim = trials.claim(configuration, "worker")
        assert claim is not None
        assert claim.anew is anew
        trials.give_back(claim.trial)
    claim = trials.claim(configuration, "worker")
    assert claim is not None
    trials.keep(claim.trial, error="again")
    trials.finish(claim.trial, TrialState.FAIL)
    trials.rescue()
    for anew in (True, False):
        claim = trials.claim(configuration, "worker")
        assert claim is not None
        assert claim.anew is anew
        trials.give_back(claim.trial)


def test_more_trials_are_added_and_the_old_ones_stay(tiny: Callable[..., StudySpec], open_study: OpenStudy) -> None:
    small, large = open_study(tiny(trials=2)), tiny(trials=5)
    before = [trial.params for trial in small.all(small.configurations[0])]
    grown = open_study(large)
    after = [trial.params for trial in grown.all(grown.configurations[0])]
    assert len(after) == 5
    assert after[:2] == before


def test_who_knows_a_smaller_study_comes_to_its_end(tiny: Callable[..., StudySpec], open_study: OpenStudy) -> None:
    small = open_study(tiny(trials=2))
    large = open_study(tiny(trials=4))
    (configuration,) = small.configurations
    for _ in range(3):  # its workers help with what others have added
        claim = small.claim(configuration, "worker")
        assert claim is not None
        small.finish(claim.trial, TrialState.COMPLETE, 0.5)
    assert is_over(small.spec, small.all(configuration))
    assert (standing("x", small.spec, small.all(configuration)).done, standing("x", small.spec, small.all(configuration)).left) == (2, 0)
    assert not is_over(large.spec, large.all(configuration))
    assert standing("x", large.spec, large.all(configuration)).left == 1


def test_trials_wait_in_the_order_of_their_index(tiny: Callable[..., StudySpec], open_study: OpenStudy) -> None:
    trials = open_study(tiny(trials=12))
    (configuration,) = trials.configurations
    found = [claim.index for _ in range(12) if (claim := trials.claim(configuration, "worker"))]
    assert found == list(range(12)), "by number, not by the text of it"
    assert trials.claim(configuration, "worker") is None


def test_nobody_is_thought_dead_while_the_storage_was_away(tiny: Callable[..., StudySpec], open_study: OpenStudy) -> None:
    trials = open_study(tiny(trials=1))
    claim = trials.claim(trials.configurations[0], "another-machine-123-abc")
    assert claim is not None
    trials.storage.grace_period = -2  # whoever has a trial seems silent
    trials.ask.troubled = time.monotonic()
    assert not trials.rescue()
    trials.ask.troubled = -math.inf
    assert trials.rescue()


def test_a_silent_worker_elsewhere_loses_its_trial(
    tiny: Callable[..., StudySpec], open_study: OpenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = open_study(tiny(trials=1))
    claim = trials.claim(trials.configurations[0], "another-machine-123-abc")
    assert claim is not None
    trials.ask.troubled = -math.inf
    assert not trials.rescue(), "its sign of life is fresh"
    monkeypatch.setattr(trials.storage, "grace_period", -2)
    assert trials.rescue()
    assert indices(trials, TrialState.FAIL) == indices(trials, TrialState.WAITING) == {0: 1}
    with pytest.raises(TakenAwayError):
        trials.report(claim.trial, 1, 0.3)
