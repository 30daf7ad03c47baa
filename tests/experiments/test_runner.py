"""Runs side by side: each is made once, whoever dies."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forked
from highwaynet.base.errors import HighwayError
from highwaynet.experiments import runner
from highwaynet.experiments.claims import Run
from highwaynet.experiments.pool import Pool
from highwaynet.experiments.runner import Standing, epochs_done, run_all
from highwaynet.experiments.specs import run_spec
from highwaynet.runs.directory import RunDirectory
from highwaynet.training.interruption import InterruptedRunError
from holding import PATIENCE, Gate

WORKER = "highwaynet.experiments.worker"


def small(label: str, seed: int, epochs: int = 3) -> Run:
    network = {"name": "fc-highway", "depth": 5, "width": 8}
    return Run(label, run_spec(network, "digits", {"epochs": epochs, "batch_size": 64, "learning_rate": 0.1}, seed))


def children() -> list[int]:
    """The workers of this process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and WORKER in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except (OSError, IndexError):
            continue
    return found


def histories(pool: Pool, runs: list[Run]) -> list[bytes]:
    return [(pool.path_of(run) / "history.jsonl").read_bytes() for run in runs]


def starts(pool: Pool, run: Run) -> int:
    return sum(event.startswith("started") for event in RunDirectory(pool.path_of(run)).read_events())


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Run], Pool, list[Standing]]:
    """Two runs under three labels, made in peace."""
    runs, seen = [small("a", 1), small("b", 2, epochs=60), small("again", 1)], []
    pool = Pool(tmp_path_factory.mktemp("calm"))
    run_all(runs, pool, 2, seen.append)
    return runs, pool, seen


def test_all_runs_are_done_and_equal_ones_once(calm: tuple[list[Run], Pool, list[Standing]]) -> None:
    runs, pool, seen = calm
    assert all(pool.is_done(run) for run in runs)
    assert len({pool.path_of(run) for run in runs}) == 2
    assert [starts(pool, run) for run in runs] == [1, 1, 1]
    assert RunDirectory(pool.path_of(runs[0])).read_spec() == runs[0].spec.model_copy(
        update={"training": runs[0].spec.training.model_copy(update={"device": "cpu"})}
    )
    assert seen[0] == Standing(0, 3, (("a", 0, 3), ("b", 0, 60)))
    assert seen[-1] == Standing(3, 3, ())
    assert max(len(one.running) for one in seen) == 2
    assert not children()


def test_nothing_is_begun_where_all_is_done(calm: tuple[list[Run], Pool, list[Standing]]) -> None:
    runs, pool, _ = calm
    seen: list[Standing] = []
    run_all(runs, pool, 2, seen.append)
    assert seen == [Standing(3, 3, ())]


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that do not look at the worker processes themselves."""
    monkeypatch.setattr(runner, "start_worker", forked.start_worker)


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Holds the runs of this process's workers in their fourth epoch, to which those of three do not come."""
    made = Gate(tmp_path / "gate", epoch=4)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


def test_a_worker_that_is_killed_is_replaced(calm: tuple[list[Run], Pool, list[Standing]], gate: Gate, tmp_path: Path) -> None:
    runs, pool, _ = calm
    killed: list[int] = []

    def kill(standing: Standing) -> None:
        if not killed and any(label == "b" and epochs for label, epochs, _ in standing.running):
            killed.extend(children())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            gate.open()

    shaken = Pool(tmp_path / "runs")
    run_all(runs, shaken, 1, kill)
    assert killed
    assert histories(shaken, runs) == histories(pool, runs)
    assert any(event.startswith("resumed") for event in RunDirectory(shaken.path_of(runs[1])).read_events())


def test_one_that_is_killed_again_ends_it_with_a_sentence_and_can_go_on(
    calm: tuple[list[Run], Pool, list[Standing]], tmp_path: Path
) -> None:
    runs, pool, _ = calm
    killed: set[int] = set()

    def kill(standing: Standing) -> None:
        for pid in set(children()) - killed:
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)

    shaken = Pool(tmp_path)
    with pytest.raises(
        HighwayError, match=r"the run b failed: its process died \(killed by signal 9, .*; the same command .*starts it again"
    ):
        run_all(runs[1:2], shaken, 1, kill)
    assert len(killed) == 2
    run_all(runs[1:2], shaken, 1, lambda standing: None)
    assert histories(shaken, runs[1:2]) == histories(pool, runs[1:2])


def test_a_run_that_fails_gives_one_sentence(tmp_path: Path) -> None:
    pool, run = Pool(tmp_path), small("a", 1)
    pool.path_of(run).mkdir()
    (pool.path_of(run) / "mine").touch()
    with pytest.raises(HighwayError) as caught:
        run_all([run], pool, 1, lambda standing: None)
    assert str(caught.value).startswith(f"the run a failed: {pool.path_of(run)} is not a run directory")
    assert str(caught.value).endswith(f"or starts it again if you remove {pool.path_of(run)}")
    assert "\n" not in str(caught.value)
    assert not children()


@pytest.mark.usefixtures("forked_workers")
def test_a_run_that_cannot_be_read_does_not_keep_the_others_from_their_end(tmp_path: Path) -> None:
    pool, runs = Pool(tmp_path), [small("a", 1), small("b", 2)]
    broken = RunDirectory.create(pool.path_of(runs[0]), runs[0].spec, {})
    broken.unlock()
    (broken.path / "events.log").write_bytes(b"\xff\xfe\xff")
    standings: list[Standing] = []
    with pytest.raises(HighwayError, match=r"the run a failed: cannot read .*events.log"):
        run_all(runs, pool, 1, standings.append)
    assert {standing.done for standing in standings} == {0, 1}, "what failed is not done"
    assert pool.is_done(runs[1])


@pytest.mark.usefixtures("forked_workers")
def test_a_run_that_fails_does_not_keep_the_others_from_their_end(tmp_path: Path) -> None:
    pool, runs = Pool(tmp_path), [small(label, seed) for seed, label in enumerate("abc", start=1)]
    for run in runs[:2]:
        pool.path_of(run).mkdir()
        (pool.path_of(run) / "mine").touch()
    standings: list[Standing] = []
    with pytest.raises(HighwayError, match=r"the run a failed: .* \(1 more failed\)$"):
        run_all(runs, pool, 1, standings.append)
    assert pool.is_done(runs[2])
    assert standings[-1].done == 1
    shutil.rmtree(pool.path_of(runs[0]))
    with pytest.raises(HighwayError, match="the run b failed"):
        run_all(runs, pool, 1, standings.append)
    assert pool.is_done(runs[0])


def test_a_damaged_history_is_no_progress(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_bytes(b"\xff\xfe\n")
    assert epochs_done(tmp_path) == 0


@pytest.mark.usefixtures("forked_workers")
def test_a_run_that_diverges_is_done(tmp_path: Path) -> None:
    network = {"name": "fc-plain", "depth": 30, "width": 12, "activation": "relu", "init": "he"}
    run, pool = Run("wild", run_spec(network, "digits", {"learning_rate": 1e5, "epochs": 2})), Pool(tmp_path)
    run_all([run], pool, 1, lambda standing: None)
    assert RunDirectory(pool.path_of(run)).has_diverged
    assert not RunDirectory(pool.path_of(run)).finished


def test_sigterm_saves(calm: tuple[list[Run], Pool, list[Standing]], gate: Gate, tmp_path: Path) -> None:
    runs, pool, _ = calm

    def terminate(standing: Standing) -> None:
        if any(epochs for _, epochs, _ in standing.running):
            os.kill(os.getpid(), signal.SIGTERM)

    shaken = Pool(tmp_path / "runs")
    with pytest.raises(InterruptedRunError, match="interrupted; what was trained is saved") as caught:
        run_all(runs[1:2], shaken, 1, terminate)
    assert caught.value.exit_code == 143
    assert not children()
    events = RunDirectory(shaken.path_of(runs[1])).read_events()
    assert events[-1].startswith("interrupted in epoch")
    gate.open()
    run_all(runs[1:2], shaken, 1, lambda standing: None)
    assert histories(shaken, runs[1:2]) == histories(pool, runs[1:2])


PARENT = """
import sys
from pathlib import Path
from experiments.test_runner import small
from highwaynet.experiments.pool import Pool
from highwaynet.experiments.runner import run_all
run_all([small("a", 1), small("b", 2, epochs=60), small("c", 3)], Pool(Path(sys.argv[1])), 2, lambda standing: None)
"""


def test_two_parents_make_each_run_once(calm: tuple[list[Run], Pool, list[Standing]], tmp_path: Path) -> None:
    runs, pool, _ = calm
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    parents = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for parent in parents:
        _, errors = parent.communicate(timeout=PATIENCE)
        assert parent.returncode == 0, errors
    shared = Pool(tmp_path)
    assert histories(shared, runs) == histories(pool, runs)
    assert [starts(shared, run) for run in [*runs, small("c", 3)]] == [1, 1, 1, 1]


@pytest.mark.usefixtures("forked_workers")
def test_a_run_that_another_process_holds_is_waited_for(calm: tuple[list[Run], Pool, list[Standing]], tmp_path: Path) -> None:
    runs, pool, _ = calm
    shared, run = Pool(tmp_path), runs[0]
    path = shared.path_of(run)
    path.mkdir(parents=True)
    holder = RunDirectory(path)
    holder.lock()
    seen: list[Standing] = []

    def show(standing: Standing) -> None:
        seen.append(standing)
        if len(seen) == 3:
            holder.unlock()

    run_all([run], shared, 1, show)
    assert [standing.running for standing in seen[:3]] == [()] * 3
    assert histories(shared, [run]) == histories(pool, [run])
