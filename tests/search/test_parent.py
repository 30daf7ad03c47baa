"""Whole studies through the real command: workers, kills, Ctrl-C."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from optuna.trial import TrialState

from forked import Forked
from highwaynet.search.parent import Team, run_study
from highwaynet.search.spec import StudySpec, read_study
from highwaynet.search.status import StudyStatus, seconds_left
from highwaynet.search.storage import database_of
from highwaynet.search.trials import Trials
from highwaynet.search.worker import Worker
from highwaynet.search.workers import WorkerFolder, is_alive, remove_dead
from highwaynet.training.interruption import InterruptedRunError, Interruption
from holding import PATIENCE, Gate
from search.kill_search import results, shake, start, worker_pids, write_study


def finished(process: Forked) -> str:
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return errors


def test_two_workers_find_what_one_finds(tmp_path: Path, open_study: Callable[..., Trials], run_worker: Callable[..., None]) -> None:
    study, one, two = write_study(tmp_path / "study.toml", trials=12, epochs=3), tmp_path / "one", tmp_path / "two"
    run_worker(open_study(read_study(study), one))
    errors = finished(start(study, two, workers=2))
    found = results(two)
    assert found == results(one)
    assert {name: sorted(values) for name, values in found.items()} == {
        f"shaken/{label}": list(range(12)) for label in ("fc-highway", "fc-plain")
    }
    assert "24 of 24 done" in errors
    assert sorted(path.name for path in two.iterdir()) == ["runs", "study.db", "study.toml"], "nothing is left of workers"
    for history in one.rglob("history.jsonl"):
        assert history.read_bytes() == (two / history.relative_to(one)).read_bytes()


def test_sobol_does_not_depend_on_workers_either(tmp_path: Path, open_study: Callable[..., Trials]) -> None:
    path = write_study(tmp_path / "study.toml", trials=4, epochs=1)
    path.write_text('sampler = "sobol"\n' + path.read_text())
    Worker(open_study(read_study(path), tmp_path / "one"), Interruption(), 0).work()
    stop, done = Interruption(), 0
    first = open_study(read_study(path), tmp_path / "two")
    finish = first.finish

    def stop_after_three(trial: int, state: TrialState, value: float | None = None) -> None:
        nonlocal done
        finish(trial, state, value)
        done += 1
        stop.requested = 143 if done == 3 else 0

    first.finish = stop_after_three  # type: ignore[method-assign]
    Worker(first, stop, 0).work()
    assert done == 3
    Worker(open_study(read_study(path), tmp_path / "two"), Interruption(), 1).work()  # begins with the other configuration
    assert results(tmp_path / "two") == results(tmp_path / "one")


def test_kills_of_workers_and_parent_change_nothing(
    tmp_path: Path, open_study: Callable[..., Trials], run_worker: Callable[..., None]
) -> None:
    study = write_study(tmp_path / "study.toml", trials=4, epochs=40)
    run_worker(open_study(read_study(study), tmp_path / "calm"))
    assert shake(study, tmp_path / "shaken", kills=3, seed=1) == {"worker": 1, "parent": 1, "everybody": 1}
    assert results(tmp_path / "shaken") == results(tmp_path / "calm")
    assert not list(tmp_path.rglob("*.tmp"))


def test_ctrl_c_saves_and_the_same_command_goes_on(
    tmp_path: Path, open_study: Callable[..., Trials], run_worker: Callable[..., None]
) -> None:
    study = write_study(tmp_path / "study.toml", trials=1, epochs=30)
    gate = Gate(tmp_path / "gate")
    process = start(study, tmp_path / "out", workers=1, **gate.environment)
    gate.wait(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "trials done, and saved; continue with: highway search" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert not worker_pids(tmp_path / "out")
    spec = read_study(study)
    trials = open_study(spec, tmp_path / "out")
    states = [trial.state.name for configuration in trials.configurations for trial in trials.all(configuration)]
    assert set(states) <= {"WAITING", "COMPLETE"}, "nothing runs and nothing failed"
    assert "WAITING" in states
    finished(start(study, tmp_path / "out", workers=1))
    run_worker(open_study(spec, tmp_path / "calm"))
    assert results(tmp_path / "out") == results(tmp_path / "calm")
    events = [path.read_text() for path in (tmp_path / "out").rglob("events.log")]
    assert any("interrupted" in text and "resumed from" in text for text in events)


def test_sigterm_ends_with_its_own_code(tiny: Callable[..., StudySpec], tmp_path: Path) -> None:
    class Impatient:
        def show(self, standings: list[StudyStatus], workers: int) -> None:
            assert [one.left for one in standings] == [4]
            os.kill(os.getpid(), signal.SIGTERM)

        def note(self, sentence: str) -> None:
            raise AssertionError(sentence)

    with pytest.raises(InterruptedRunError, match="interrupted, with 0 of 4 trials done, and saved") as caught:
        run_study(tiny(), database_of(tmp_path), tmp_path, {}, 1, Impatient())
    assert caught.value.exit_code == 143


def test_workers_that_die_are_counted_and_their_last_words_kept(tmp_path: Path) -> None:
    spec = read_study(write_study(tmp_path / "study.toml", trials=1, epochs=1))
    job = {"spec": spec.to_toml(), "storage": "sqlite:////dev/null/study.db", "folder": str(tmp_path), "attributes": {}}
    team = Team(job, tmp_path)
    team.fill(1)
    died = 0
    while len(team):
        died += team.bury()
        time.sleep(0.05)
    assert died == 1
    assert "/dev/null" in team.last_words()


def test_a_worker_s_folder_says_whether_it_lives(tmp_path: Path) -> None:
    worker = WorkerFolder(tmp_path)
    assert is_alive(tmp_path, worker.name) is True
    assert is_alive(tmp_path, "another-machine-12-abc") is None
    assert is_alive(tmp_path, worker.name + "x") is None
    dead = worker.name.rpartition("-")[0] + "-dead"
    (tmp_path / "workers" / dead).mkdir()
    assert is_alive(tmp_path, dead) is False
    remove_dead(tmp_path)
    assert [path.name for path in (tmp_path / "workers").iterdir()] == [worker.name]
    worker.close()
    remove_dead(tmp_path)
    assert not (tmp_path / "workers").exists()
    assert os.getpid() == int(worker.name.split("-")[-2])


def test_order_matters_where_it_does(tiny: Callable[..., StudySpec]) -> None:
    assert not tiny().depends_on_order
    assert not tiny(sampler="sobol").depends_on_order
    assert tiny(sampler="tpe").depends_on_order
    assert tiny(pruner="median").depends_on_order


def test_the_time_that_is_left() -> None:
    def standing(done: int, running: int, seconds: float) -> StudyStatus:
        return StudyStatus("x", 10, done, running, 0, 0, None, None, seconds)

    assert seconds_left([standing(0, 2, 0.0)], 2) is None
    assert seconds_left([standing(4, 2, 3.0)], 2) == (6 - 1) * 3 / 2
    assert seconds_left([standing(4, 2, 3.0), standing(0, 0, 0.0)], 2) == ((6 - 1) * 3 + 10 * 3) / 2, "unknown ones take as long"
    assert seconds_left([standing(10, 0, 3.0)], 2) == 0
