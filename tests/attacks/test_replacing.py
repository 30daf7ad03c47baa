"""Overwriting a run: the earlier one is there until the new one has finished, whatever happens."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from forked import start
from highwaynet import NetworkSpec, RunSpec, TrainingSpec, train
from highwaynet.base.errors import InputError
from highwaynet.base.files import write_atomically
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.replacing import earlier_runs
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.watcher import Watcher
from support import Highway, Runs, small_spec

DIVERGES = RunSpec(
    network=NetworkSpec(depth=6, width=12, activation="relu"),
    training=TrainingSpec(epochs=3, batch_size=64, learning_rate=1e6, momentum=0.99, on_divergence="stop"),
)


class StopError(Exception):
    """Ends a run like a kill."""


class StopsAtEpoch(Watcher):
    def epoch(self, *_: object) -> None:
        raise StopError


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def run(finished_run: Runs, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_run("fc-highway").path, tmp_path / "run"))


def aside(run: Path) -> dict[str, bytes]:
    (earlier,) = earlier_runs(run)
    assert earlier.name == "run.before"
    return {name: file for name, file in content(earlier).items() if name != "replaced.txt"}


def test_a_finished_run_replaces_the_earlier_one(run: Path) -> None:
    (run / "notes.txt").write_text("mine")
    train(small_spec(), run, overwrite=True)
    assert not earlier_runs(run)
    assert sorted(path.name for path in run.parent.iterdir()) == ["run"]
    assert (run / "notes.txt").read_text() == "mine"
    assert RunDirectory.open(run).finished


def test_a_run_that_diverges_leaves_the_earlier_one(run: Path, highway: Highway) -> None:
    before = content(run)
    notes: list[str] = []

    class Notes(Watcher):
        def note(self, sentence: str) -> None:
            notes.append(sentence)

    with pytest.raises(DivergenceError):
        train(DIVERGES, run, overwrite=True, watcher=Notes())
    assert aside(run) == before
    assert any("run.before" in note for note in notes)
    listed = highway("runs", run.parent).stdout
    assert "run.before" in listed
    assert "finished" in listed
    assert "diverged" in listed


def test_a_killed_run_leaves_the_earlier_one_until_it_is_resumed(run: Path) -> None:
    before = content(run)
    spec = small_spec()
    with pytest.raises(StopError):
        train(spec, run, overwrite=True, watcher=StopsAtEpoch())
    assert aside(run) == before
    train(spec, run, resume=True)
    assert not earlier_runs(run)


def test_overwriting_an_unfinished_replacement_keeps_the_finished_run(run: Path) -> None:
    before = content(run)
    for _ in range(2):
        with pytest.raises(StopError):
            train(small_spec(), run, overwrite=True, watcher=StopsAtEpoch())
        assert aside(run) == before


def test_folders_of_the_user_are_never_removed(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run.before")
    before = content(tmp_path / "run.before")
    train(small_spec(), run, overwrite=True)
    assert content(tmp_path / "run.before") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.before"]


def test_a_run_that_is_being_written_is_not_replaced(run: Path) -> None:
    holder = RunDirectory.open(run)
    holder.lock()
    before = content(run)
    with pytest.raises(InputError, match="is being trained by another process"):
        train(small_spec(), run, overwrite=True)
    holder.unlock()
    assert content(run) == before


def test_kill_9_while_replacing(run: Path, tmp_path: Path) -> None:
    before = content(run)
    for _ in range(3):
        process = start("train", "--epochs", "1000", "--depth", "5", "--out", run, "--overwrite", cwd=tmp_path)
        for _ in range(2000):
            if (run / "history.jsonl").exists() and earlier_runs(run):
                break
            signal.sigtimedwait([], 0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        assert aside(run) == before


def test_a_run_that_was_killed_while_it_cleared_up_is_cleared_up(tmp_path: Path) -> None:
    base = small_spec()
    spec = RunSpec(network=base.network, training=base.training, data={"validation": 0.2})
    run = train(spec, tmp_path / "run")
    (best,) = run.checkpoints.names("best")
    for suffix in ("json", "safetensors"):  # as a kill between the final weights and clearing up leaves it
        shutil.copy(run.checkpoints.folder / f"{best}.{suffix}", run.checkpoints.folder / f"best-000000001.{suffix}")
    train(spec, run.path, resume=True)
    assert run.checkpoints.names("best") == [best]


def test_writes_follow_the_folder_that_was_opened(tmp_path: Path) -> None:
    class Moves(Watcher):
        def epoch(self, *_: object) -> None:
            if not (tmp_path / "old").exists():
                (tmp_path / "run").rename(tmp_path / "old")
                (tmp_path / "run").mkdir()

    made = train(small_spec(), tmp_path / "run", watcher=Moves())
    assert list((tmp_path / "run").iterdir()) == []
    assert made.path == tmp_path / "old"
    assert RunDirectory.open(tmp_path / "old").finished
    plain = train(small_spec(), tmp_path / "plain")
    assert (tmp_path / "old" / "history.jsonl").read_bytes() == (plain.path / "history.jsonl").read_bytes()


def test_a_folder_that_is_removed_while_training_is_one_sentence(tmp_path: Path) -> None:
    class Removes(Watcher):
        def epoch(self, *_: object) -> None:
            shutil.rmtree(tmp_path / "run", ignore_errors=True)

    with pytest.raises(InputError, match="was removed, renamed or replaced"):
        train(small_spec(), tmp_path / "run", watcher=Removes())


def test_a_deleted_working_directory_is_one_sentence(tmp_path: Path, highway: Highway) -> None:
    code = f'mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec "$@"'
    for arguments in (["--version"], ["train"], ["networks"]):
        done = highway(*arguments, prefix=("sh", "-c", code, "sh"))
        assert done.returncode == 2
        assert done.stderr == "highway: the current folder no longer exists: change to another one\n"


def test_temporary_files_do_not_follow_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    target = tmp_path / "victim"
    target.write_text("precious")
    guessed = tmp_path / f".file.{os.getpid()}-{'0' * 16}.tmp"
    guessed.symlink_to(target)
    with pytest.raises(InputError, match="cannot write"):
        write_atomically(tmp_path / "file", "new")
    assert target.read_text() == "precious"
