"""What a worker makes of a trial, in this process."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import FrozenTrial, TrialState

from highwaynet.base.errors import InputError
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.lock import FolderLock
from highwaynet.search import worker as worker_module
from highwaynet.search.drawing import trial_seed
from highwaynet.search.learning import Pruning
from highwaynet.search.results import collect
from highwaynet.search.spec import StudySpec
from highwaynet.search.trials import ClaimedTrial, TakenAwayError, Trials
from highwaynet.search.worker import run_path
from highwaynet.training.interruption import Interruption
from highwaynet.training.loop import train

Tiny = Callable[..., StudySpec]
OpenStudy = Callable[..., Trials]
RunWorker = Callable[..., None]


def states(trials: Trials) -> list[tuple[int, str]]:
    return [(trial.user_attrs["index"], trial.state.name) for trial in all_of(trials)]


def all_of(trials: Trials) -> list[FrozenTrial]:
    return trials.storage.get_all_trials(trials.study_id(trials.configurations[0]))


def test_each_trial_is_a_run_of_its_own(tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker) -> None:
    trials = open_study(tiny())
    run_worker(trials)
    (configuration,) = trials.configurations
    for trial in all_of(trials):
        index = trial.user_attrs["index"]
        run = RunDirectory.open(run_path(trials.folder, "all", index))
        history = run.read_history()
        assert trial.state == TrialState.COMPLETE
        assert trial.value == trial.user_attrs["train_loss"] == min(record.train_loss for record in history)
        assert trial.intermediate_values == {record.epoch: record.train_loss for record in history}
        spec = run.read_spec()
        assert spec.seed == trial_seed(trials.spec, configuration, index)
        assert (spec.training.threads, spec.training.learning_rate) == (1, trial.params["training.learning_rate"])
        assert run.finished
    assert not (trials.folder / "workers").exists() or not any((trials.folder / "workers").iterdir())


@pytest.mark.parametrize(("objective", "field", "best"), [("validation-loss", "loss", min), ("validation-accuracy", "accuracy", max)])
def test_other_objectives(tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker, objective: str, field: str, best: Any) -> None:
    trials = open_study(tiny(objective=objective, trials=2))
    run_worker(trials)
    for trial in all_of(trials):
        history = RunDirectory.open(run_path(trials.folder, "all", trial.user_attrs["index"])).read_history()
        assert trial.value == best(getattr(record.validation, field) for record in history)
        assert trial.user_attrs["train_loss"] == min(record.train_loss for record in history)
    result = collect(trials.spec, trials.storage)
    assert result.configurations[0].top[0].value == best(trial.value for trial in all_of(trials))


def test_a_diverging_trial_is_bad_and_no_error(tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker) -> None:
    space = {"training.learning_rate": {"kind": "choice", "choices": [0.1, 1e6]}}
    run = {"network": {"name": "fc-plain", "depth": 6, "width": 8, "activation": "relu"}, "training": {"epochs": 2}}
    trials = open_study(tiny(space=space, run=run, trials=6))
    run_worker(trials)
    found = {trial.user_attrs["index"]: trial for trial in all_of(trials)}
    wild = [trial for trial in found.values() if trial.params["training.learning_rate"] == 1e6]
    assert 0 < len(wild) < 6
    assert all(trial.state == TrialState.COMPLETE and trial.value == math.inf and trial.user_attrs["diverged"] for trial in wild)
    (one,) = collect(trials.spec, trials.storage).configurations
    assert (one.done, one.diverged, one.failed) == (6, len(wild), {})
    assert one.top[-1].state == "done"


def test_an_interrupted_trial_waits_and_goes_on_where_it_was(
    tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker, tmp_path: Path
) -> None:
    spec = tiny(trials=1, run={"network": {"depth": 3, "width": 6}, "training": {"epochs": 4, "batch_size": 128}})
    calm = open_study(spec, tmp_path / "calm")
    run_worker(calm)
    trials, stop = open_study(spec, tmp_path / "shaken"), Interruption()
    report = trials.report

    def stop_after_two(trial: int, epoch: int, value: float) -> None:
        report(trial, epoch, value)
        stop.requested = 143 if epoch == 2 else 0

    trials.report = stop_after_two  # type: ignore[method-assign]
    run_worker(trials, stop)
    assert states(trials) == [(0, "WAITING")]
    assert all_of(trials)[0].user_attrs["worker"] is None
    trials.report = report  # type: ignore[method-assign]
    run_worker(trials)
    (trial,), (expected,) = all_of(trials), all_of(calm)
    assert (trial.value, trial.intermediate_values, trial.params) == (expected.value, expected.intermediate_values, expected.params)
    events = RunDirectory.open(run_path(trials.folder, "all", 0)).read_events()
    assert any(event.startswith("resumed from epoch 3") for event in events)


def test_a_finished_run_that_nobody_told_about_is_not_run_again(tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker) -> None:
    trials = open_study(tiny(trials=1))
    run_worker(trials)
    before = run_path(trials.folder, "all", 0).stat().st_mtime_ns
    (trial,) = all_of(trials)
    (trials.folder / "study.db").unlink()
    for rest in trials.folder.glob("study.db-*"):
        rest.unlink()
    again = open_study(trials.spec)
    run_worker(again)
    assert (all_of(again)[0].value, all_of(again)[0].intermediate_values) == (trial.value, trial.intermediate_values)
    assert run_path(trials.folder, "all", 0).stat().st_mtime_ns == before


def test_errors_are_tried_again_twice_and_told(
    tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = open_study(tiny(trials=2))
    ways: list[dict[str, Any]] = []

    def fail(spec: Any, path: Path, **way: Any) -> Any:
        if path.name == "00001":
            return train(spec, path, **way)
        ways.append(way)
        path.mkdir(parents=True, exist_ok=True)
        raise InputError("the disk is full") if len(ways) < 3 else OSError("no space left\nsecond line")

    monkeypatch.setattr(worker_module, "train", fail)
    run_worker(trials)
    assert sorted(states(trials)) == [(0, "FAIL"), (0, "FAIL"), (0, "FAIL"), (1, "COMPLETE")]
    assert [way["overwrite"] for way in ways] == [False, True, True], "after an error it is begun anew"
    (one,) = collect(trials.spec, trials.storage).configurations
    assert one.failed == {0: "OSError: no space left"}


def test_a_trial_that_is_taken_away_is_left_alone(
    tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = open_study(tiny(trials=1))
    report, calls = trials.report, 0

    def lose(trial: int, epoch: int, value: float) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:  # another one thinks that this worker is dead
            trials.finish(trial, TrialState.FAIL)
        report(trial, epoch, value)

    monkeypatch.setattr(trials, "report", lose)
    run_worker(trials)
    assert states(trials) == [(0, "FAIL"), (0, "COMPLETE")]
    assert "error" not in all_of(trials)[0].user_attrs
    reporter = worker_module.Reporter(
        trials, ClaimedTrial(all_of(trials)[1]._trial_id, 0, trials.configurations[0], {}, anew=False), Path("x"), 2
    )
    reporter.step(1)
    reporter.taken_away = True
    with pytest.raises(TakenAwayError):
        reporter.step(1)


def test_a_run_directory_in_use_makes_the_trial_wait(
    tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = open_study(tiny(trials=1))
    path = run_path(trials.folder, "all", 0)
    path.mkdir(parents=True)
    lock = FolderLock(path)
    lock.acquire()
    monkeypatch.setattr(worker_module, "IDLE", 0.01)
    give_back, waited = trials.give_back, []

    def give(trial: int) -> None:
        give_back(trial)
        waited.append(states(trials))
        if len(waited) == 2:
            lock.release()

    monkeypatch.setattr(trials, "give_back", give)
    run_worker(trials)
    assert waited == [[(0, "WAITING")]] * 2
    assert states(trials) == [(0, "COMPLETE")]


@pytest.mark.parametrize("pruner", ["median", "halving"])
def test_bad_trials_are_pruned(tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker, pruner: str) -> None:
    space = {"training.learning_rate": {"kind": "log-uniform", "low": 1e-6, "high": 0.5}}
    run = {"network": {"depth": 3, "width": 6}, "training": {"epochs": 5, "batch_size": 128}}
    trials = open_study(tiny(pruner=pruner, trials=10, space=space, run=run))
    assert trials.spec.depends_on_order
    run_worker(trials)
    pruned = [trial for trial in all_of(trials) if trial.state == TrialState.PRUNED]
    assert 0 < len(pruned) < 10
    assert all(trial.value == min(trial.intermediate_values.values()) and len(trial.intermediate_values) < 5 for trial in pruned)
    (one,) = collect(trials.spec, trials.storage).configurations
    assert (one.pruned, one.done) == (len(pruned), 10)
    assert {result.index for result in one.top}.isdisjoint(trial.user_attrs["index"] for trial in pruned)


def test_tpe_learns_and_repeats_with_one_worker(tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker, tmp_path: Path) -> None:
    space = {
        "training.learning_rate": {"kind": "log-uniform", "low": 1e-4, "high": 0.5},
        "network.activation": {"kind": "choice", "choices": ["tanh", "relu"]},
        "training.batch_size": {"kind": "integer", "low": 64, "high": 256, "step": 64},
        "network.init_std": {"kind": "uniform", "low": 0.01, "high": 0.1, "when": {"network.activation": "tanh"}},
    }
    run = {"network": {"depth": 2, "width": 4, "init": "normal"}, "training": {"epochs": 1}}
    spec = tiny(sampler="tpe", trials=13, space=space, run=run)
    found = []
    for name in ("one", "two"):
        trials = open_study(spec, tmp_path / name)
        assert all_of(trials)[0].params == {}, "suggested when it is run"
        run_worker(trials)
        found.append([(trial.params, trial.value) for trial in all_of(trials)])
        assert all(("network.init_std" in one) == (one["network.activation"] == "tanh") for one, _ in found[-1])
    assert found[0] == found[1]


def test_what_tpe_suggested_before_a_kill_is_tried_again(tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker) -> None:
    from highwaynet.search.learning import suggest

    trials = open_study(tiny(sampler="tpe", trials=1))
    claim = trials.claim(trials.configurations[0], "gone")
    assert claim is not None
    settings = suggest(trials, claim)
    trials.finish(claim.trial, TrialState.FAIL)
    trials.rescue()
    run_worker(trials)
    assert states(trials) == [(0, "FAIL"), (0, "COMPLETE")]
    assert all_of(trials)[1].params == settings


def test_halving_knows_the_epochs(tiny: Tiny, open_study: OpenStudy) -> None:
    trials = open_study(tiny(pruner="halving"))
    claim = trials.claim(trials.configurations[0], "me")
    assert claim is not None
    assert [Pruning(trials, claim, epochs)._pruner._min_resource for epochs in (5, 40, 400)] == [1, 2, 25]  # type: ignore[attr-defined]


def test_the_record_is_json(tiny: Tiny, open_study: OpenStudy, run_worker: RunWorker) -> None:
    trials = open_study(tiny(trials=2))
    run_worker(trials)
    result = collect(trials.spec, trials.storage)
    assert type(result).model_validate_json(json.dumps(result.model_dump(mode="json"))) == result
