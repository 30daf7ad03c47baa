"""Checkpoints, resumption, interruption, and what happens when checkpoints or disks are damaged."""

import json
import math
import os
import pickle
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from forked import Forked, start
from highwaynet import DataSpec, NetworkSpec, RunSpec, TrainingSpec, load
from highwaynet.base.errors import InputError
from highwaynet.base.files import sha256
from highwaynet.data.record import DataRecord
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.interval import Interval
from highwaynet.runs.listing import summarise
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.loop import train
from highwaynet.training.watcher import Watcher
from holding import PATIENCE
from support import Highway
from survival import results, survive


def spec_with(name: str = "fc-highway", dropout: tuple[float, ...] = (0.1, 0.2), **training: object) -> RunSpec:
    network = NetworkSpec(name=name, dropout=dropout) if name != "fc-highway" else NetworkSpec(depth=6, width=12, dropout=dropout)
    settings = {"epochs": 4, "batch_size": 100, "learning_rate": 0.1, "checkpoint": "3 steps", "threads": 1} | training
    return RunSpec(network=network, training=TrainingSpec(**settings))


class Spy(Watcher):
    """A watcher that remembers, and acts after a number of steps."""

    def __init__(self, at: int | None = None, act: Callable[[], None] = lambda: None) -> None:
        self.steps, self.at, self.act = 0, at, act
        self.notes: list[str] = []
        self.began: list[tuple[int, int]] = []

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        self.began.append((epochs, steps))

    def step(self, samples: int) -> None:
        self.steps += 1
        if self.steps == self.at:
            self.act()

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)


def stop_after(steps: int, spec: RunSpec, path: Path) -> Interruption:
    """Train until so many steps were taken."""
    interruption = Interruption()

    def ask() -> None:
        interruption.requested = 130

    with pytest.raises(InterruptedRunError):
        train(spec, path, watcher=Spy(steps, ask), interruption=interruption, resume=True)
    return interruption


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return train(spec_with(), tmp_path_factory.mktemp("calm") / "run")


@pytest.mark.parametrize("steps", [1, 5, 13, 14, 20, 40])
def test_an_interrupted_run_ends_as_one_that_was_not(steps: int, tmp_path: Path, calm: RunDirectory) -> None:
    stop_after(steps, spec_with(), tmp_path / "run")
    spy = Spy()
    train(spec_with(), tmp_path / "run", resume=True, watcher=spy)
    assert results(tmp_path / "run") == results(calm.path)
    # The request is seen at the next step, and saved at once.
    assert spy.began == [((steps + 1) // 13, steps + 1)]
    assert spy.notes == [f"resumed from epoch {-(-(steps + 1) // 13) if (steps + 1) % 13 else (steps + 1) // 13}, step {steps + 1}"]


@pytest.mark.parametrize("optimiser", ["sgd", "rmsprop", "adamw"])
@pytest.mark.parametrize("checkpoint", ["1 epoch", "5 steps", "0.0001 minutes"])
def test_every_optimiser_and_interval(optimiser: str, checkpoint: str, tmp_path: Path) -> None:
    spec = spec_with(optimiser=optimiser, checkpoint=checkpoint, epochs=2, learning_rate=0.01, clip_norm=1.0, schedule="one-cycle")
    calm = train(spec, tmp_path / "calm")
    stop_after(17, spec, tmp_path / "run")
    train(spec, tmp_path / "run", resume=True)
    assert results(tmp_path / "run") == results(calm.path)


@pytest.mark.parametrize("name", ["mnist-highway-16", "resnet-20"])
def test_convolutional_networks_with_augmentation_and_batch_norm(name: str, tmp_path: Path) -> None:
    dropout = {"dropout": (0.1, 0.1, 0.1, 0.1)} if name == "mnist-highway-16" else {}
    training = {"epochs": 2, "batch_size": 400, "crop": 1, "mirror": True, "rotate": 9.0, "checkpoint": "1 step", "threads": 1}
    spec = RunSpec(network=NetworkSpec(name=name, **dropout), training=TrainingSpec(**training))
    calm = train(spec, tmp_path / "calm")
    stop_after(2, spec, tmp_path / "run")
    stop_after(1, spec, tmp_path / "run")
    train(spec, tmp_path / "run", resume=True)
    assert results(tmp_path / "run") == results(calm.path)


def test_a_regression_that_is_interrupted(tmp_path: Path) -> None:
    rows = "\n".join(f"{n},{n * n % 7},{n / 3}" for n in range(200))
    (tmp_path / "table.csv").write_text(f"a,b,y\n{rows}\n")
    data = DataSpec(name=str(tmp_path / "table.csv"), target="y")
    spec = spec_with(batch_size=32, epochs=3).model_copy(update={"data": data})
    calm = train(spec, tmp_path / "calm")
    stop_after(7, spec, tmp_path / "run")
    train(spec, tmp_path / "run", resume=True)
    assert results(tmp_path / "run") == results(calm.path)


@pytest.mark.parametrize("name", ["dense", "convolutional"])
def test_kills(name: str, tmp_path: Path) -> None:
    done = survive(name, tmp_path, kills=4, seed=1)
    assert done["killed from outside"] == done["killed while writing"] == 2


class TestFiles:
    """What lies in checkpoints/ when."""

    def test_the_last_two_and_the_best_are_kept_and_only_final_and_best_remain(self, tmp_path: Path) -> None:
        stop_after(30, spec_with(), tmp_path / "run")
        run = RunDirectory.open(tmp_path / "run")
        assert run.checkpoints.names("step", "stop") == ["stop-000000031", "step-000000030", "step-000000027"]
        assert len(run.checkpoints.names("best")) == 1
        train(spec_with(), tmp_path / "run", resume=True)
        names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
        assert len(names) == 4
        assert names[2:] == ["final.json", "final.safetensors"]

    def test_keep(self, tmp_path: Path) -> None:
        stop_after(30, spec_with(keep=4), tmp_path / "run")
        assert len(RunDirectory.open(tmp_path / "run").checkpoints.names("step")) == 4

    def test_the_best_weights_are_those_of_the_best_epoch(self, tmp_path: Path) -> None:
        spec = spec_with(learning_rate=3.0, decay=1.0, epochs=6, on_divergence="ignore")
        run = train(spec, tmp_path / "run")
        history = run.read_history()
        best = min(history, key=lambda line: line.validation_loss or 9e9)
        record = run.checkpoints.record(run.resolve("best"))
        assert (record.epoch, record.step) == (best.epoch, best.step)
        assert best.epoch != 6, "choose settings whose last epoch is not the best"
        from highwaynet.data.load import load_dataset
        from highwaynet.training.evaluation import evaluate

        model = load(run.path, "best")
        validation = load_dataset(spec.data, model.preparation).validation
        assert validation is not None
        assert evaluate(model.network, validation).loss == best.validation_loss

    def test_there_is_no_best_without_validation(self, tmp_path: Path) -> None:
        spec = spec_with(epochs=1).model_copy(update={"data": DataSpec(validation=0)})
        run = train(spec, tmp_path / "run")
        with pytest.raises(InputError, match="has no checkpoint 'best': the run has no validation data"):
            load(run.path, "best")

    def test_half_a_line_of_history_does_not_count(self, tmp_path: Path, calm: RunDirectory) -> None:
        stop_after(30, spec_with(), tmp_path / "run")
        with (tmp_path / "run" / "history.jsonl").open("a") as stream:
            stream.write('{"epoch": 3, "st')
        assert summarise(tmp_path / "run").last.epoch == 2  # type: ignore[union-attr]
        train(spec_with(), tmp_path / "run", resume=True)
        assert results(tmp_path / "run") == results(calm.path)


def damage_cut(path: Path) -> str:
    path.with_suffix(".safetensors").write_bytes(path.with_suffix(".safetensors").read_bytes()[:-100])
    return "its checksum is not the one"


def damage_bit(path: Path) -> str:
    content = bytearray(path.with_suffix(".safetensors").read_bytes())
    content[len(content) // 2] ^= 16
    path.with_suffix(".safetensors").write_bytes(content)
    return "its checksum is not the one"


def damage_sidecar(path: Path) -> str:
    text = path.read_text()
    assert '"batch": 5' in text
    path.write_text(text.replace('"batch": 5', '"batch": 4'))
    return "its checksum is wrong"


def damage_sidecar_cut(path: Path) -> str:
    path.write_text(path.read_text()[:-20])
    return "is damaged"


def damage_missing(path: Path) -> str:
    path.with_suffix(".safetensors").unlink()
    return "cannot read"


def smuggle(path: Path, content: bytes) -> None:
    """Put other bytes in place of the tensors, with all checksums right."""
    from highwaynet.runs.run_records import CheckpointRecord

    path.with_suffix(".safetensors").write_bytes(content)
    record = CheckpointRecord.model_validate_json(path.read_text())
    path.write_text(record.model_copy(update={"sha256": sha256(content)}).sealed().model_dump_json())


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {os.environ['HIGHWAYNET_TEST_BOMB']}",)


def damage_pickle(path: Path) -> str:
    smuggle(path, pickle.dumps(Bomb()))
    return "is not a safetensors file"


def damage_torch_file(path: Path) -> str:
    import io

    stream = io.BytesIO()
    torch.save({"weight": torch.zeros(2), "bomb": Bomb()}, stream)
    smuggle(path, stream.getvalue())
    return "is not a safetensors file"


def damage_other_run(path: Path) -> str:
    other = path.parents[2] / "other"
    stop_after(30, spec_with().model_copy(update={"seed": 5}), other)
    for suffix in (".json", ".safetensors"):
        shutil.copy((other / "checkpoints" / path.name).with_suffix(suffix), path.with_suffix(suffix))
    return "belongs to another spec.toml"


def damage_other_network(path: Path) -> str:
    import safetensors.torch

    tensors = safetensors.torch.load(path.with_suffix(".safetensors").read_bytes())
    tensors["network/stack.weight"] = tensors["network/stack.weight"][:-1].contiguous()
    smuggle(path, safetensors.torch.save(tensors))
    return "its weights are those of another network"


def damage_history(path: Path) -> str:
    history = path.parents[1] / "history.jsonl"
    os.truncate(history, history.stat().st_size - 1)
    return "is shorter than when the checkpoint was made"


DAMAGES = [
    damage_cut,
    damage_bit,
    damage_sidecar,
    damage_sidecar_cut,
    damage_missing,
    damage_pickle,
    damage_torch_file,
    damage_other_run,
    damage_other_network,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_with_the_reason_and_the_one_before_is_used(
    damage: Callable[[Path], str], tmp_path: Path, calm: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIGHWAYNET_TEST_BOMB", str(tmp_path / "exploded"))
    stop_after(30, spec_with(), tmp_path / "run")
    reason = damage(tmp_path / "run" / "checkpoints" / "stop-000000031.json")
    spy = Spy()
    train(spec_with(), tmp_path / "run", resume=True, watcher=spy)
    assert not (tmp_path / "exploded").exists()
    assert len(spy.notes) == 2
    assert spy.notes[0].startswith("skipped a checkpoint that cannot be used: stop-000000031: ")
    assert reason in spy.notes[0]
    assert spy.notes[1] == "resumed from epoch 3, step 30"
    assert results(tmp_path / "run") == results(calm.path)
    assert reason in (tmp_path / "run" / "events.log").read_text()


def test_a_damaged_checkpoint_does_not_count_among_those_that_are_kept(tmp_path: Path) -> None:
    stop_after(29, spec_with(), tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    damage_bit(folder / "step-000000030.json")
    interruption = stop_after(1, spec_with(), tmp_path / "run")
    assert interruption.requested == 130
    assert RunDirectory.open(tmp_path / "run").checkpoints.names("step", "stop") == ["stop-000000029", "step-000000027"]
    stop_after(3, spec_with(), tmp_path / "run")
    assert RunDirectory.open(tmp_path / "run").checkpoints.names("step", "stop") == ["step-000000033", "step-000000030"]


def test_where_no_checkpoint_is_intact_nothing_is_touched(tmp_path: Path) -> None:
    stop_after(30, spec_with(), tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").glob("st*-*.json"):
        damage_bit(path)
    (tmp_path / "run" / "events.log").unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(
        InputError, match=r"no checkpoint of .* is intact \(stop-000000031: .*; step-000000030: .*; step-000000027: .*\): restart the run"
    ):
        train(spec_with(), tmp_path / "run", resume=True)
    (tmp_path / "run" / "events.log").unlink()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_history_that_lost_its_end_is_noticed(tmp_path: Path, calm: RunDirectory) -> None:
    stop_after(30, spec_with(checkpoint="1 epoch"), tmp_path / "run")
    reason = damage_history(tmp_path / "run" / "checkpoints" / "stop-000000031.json")
    spy = Spy()
    train(spec_with(checkpoint="1 epoch"), tmp_path / "run", resume=True, watcher=spy)
    assert [reason in note for note in spy.notes] == [True, True, False]
    assert spy.notes[2] == "resumed from epoch 1, step 13"
    assert results(tmp_path / "run") == results(calm.path)


def test_a_history_that_lost_a_line_is_noticed_before_training(tmp_path: Path) -> None:
    stop_after(30, spec_with(), tmp_path / "run")
    history = tmp_path / "run" / "history.jsonl"
    history.write_text(history.read_text().splitlines(keepends=True)[1] + "x" * 500)
    with pytest.raises(InputError, match=r"no checkpoint of .* is intact"):
        train(spec_with(), tmp_path / "run", resume=True)


def test_a_run_without_a_checkpoint_begins_anew(tmp_path: Path, calm: RunDirectory) -> None:
    stop_after(30, spec_with(), tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.unlink()
    spy = Spy()
    train(spec_with(), tmp_path / "run", resume=True, watcher=spy)
    assert spy.notes == ["resumed: no checkpoint was saved yet; starting from the beginning"]
    assert results(tmp_path / "run") == results(calm.path)


def test_a_finished_run_is_left_alone(tmp_path: Path, calm: RunDirectory) -> None:
    before = {path: path.read_bytes() for path in calm.path.rglob("*") if path.is_file()}
    spy = Spy()
    train(spec_with(), calm.path, resume=True, watcher=spy)
    assert spy.notes == [f"{calm.path} is finished: there is nothing to continue"]
    assert {path: path.read_bytes() for path in calm.path.rglob("*") if path.is_file()} == before


def test_another_spec_or_other_data_cannot_resume(tmp_path: Path) -> None:
    stop_after(5, spec_with(), tmp_path / "run")
    with pytest.raises(InputError, match=r"training\.epochs = 9: .* was started with 4; omit it to resume"):
        train(spec_with(epochs=9), tmp_path / "run", resume=True)
    with pytest.raises(InputError, match=r"network\.dropout = \(0\.0, 0\.5\)"):
        train(spec_with(dropout=(0.0, 0.5)), tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="already exists"):
        train(spec_with(), tmp_path / "run")
    rows = [f"{n / 2},{n % 2}" for n in range(100)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["a,y", *rows]))
    data = DataSpec(name=str(table), target="y")
    spec = spec_with(batch_size=10).model_copy(update={"data": data})
    stop_after(5, spec, tmp_path / "own")
    table.write_text("\n".join(["a,y", *reversed(rows)]))
    with pytest.raises(InputError, match="changed"):
        train(spec, tmp_path / "own", resume=True)


def test_two_processes_cannot_write_to_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwaynet.runs.lock.PATIENCE", 0.1)
    refused: list[str] = []

    def second() -> None:
        assert summarise(tmp_path / "run").state == "running"
        for way in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(InputError, match="is being trained by another process") as error:
                train(spec_with(epochs=1), tmp_path / "run", **way)
            refused.append(str(error.value))

    train(spec_with(epochs=1), tmp_path / "run", watcher=Spy(3, second))
    assert len(refused) == 2
    assert summarise(tmp_path / "run").state == "finished"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = shutil.which("mount") and os.geteuid() == 0
    if not mounted or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("making a small file system takes root and mount")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_stops_the_run_and_loses_nothing(small_disk: Path, calm: RunDirectory) -> None:
    filler = small_disk / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as stream, suppress(OSError):
            while True:
                stream.write(b"x" * 512)

    with pytest.raises(InputError, match=r"cannot write .*: no space left on device"):
        train(spec_with(), small_disk / "run", watcher=Spy(20, fill))
    assert not list(small_disk.rglob("*.tmp"))
    assert summarise(small_disk / "run").state == "stopped"
    with pytest.raises(InputError, match="no space left on device"):  # still no room
        train(spec_with(), small_disk / "run", resume=True)
    filler.unlink()
    spy = Spy()
    train(spec_with(), small_disk / "run", resume=True, watcher=spy)
    assert spy.began == [(1, 18)]
    assert results(small_disk / "run") == results(calm.path)


def test_a_disk_that_becomes_read_only(small_disk: Path, calm: RunDirectory) -> None:
    def remount(way: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{way}", str(small_disk)], check=True)

    with pytest.raises(InputError, match=r"cannot (write|remove) .*: read-only file system"):
        train(spec_with(), small_disk / "run", watcher=Spy(20, lambda: remount("ro")))
    with pytest.raises(InputError, match="read-only file system"):
        train(spec_with(), small_disk / "run", resume=True)
    with pytest.raises(InputError, match="read-only file system"):
        train(spec_with(), small_disk / "another")
    remount("rw")
    train(spec_with(), small_disk / "run", resume=True)
    assert results(small_disk / "run") == results(calm.path)


def test_a_folder_that_is_moved_is_followed(tmp_path: Path, calm: RunDirectory) -> None:
    path = tmp_path / "run"
    run = train(spec_with(), path, watcher=Spy(20, lambda: shutil.move(path, tmp_path / "elsewhere")))
    assert run.path == tmp_path / "elsewhere"
    assert not path.exists()
    assert results(tmp_path / "elsewhere") == results(calm.path)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_save_and_say_how_to_go_on(number: int, code: int, tmp_path: Path, highway: Highway) -> None:
    process = start_long_run(tmp_path)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert "finishing the step and saving; press Ctrl-C again to stop immediately" in errors
    assert errors.endswith("and saved; continue with: highway train run --resume\n")
    assert "Traceback" not in errors
    listed = json.loads(highway("runs", ".", "--json").stdout)
    assert [(run["run"], run["state"]) for run in listed] == [("run", "interrupted")]
    again = start_long_run(tmp_path, "run", "--resume")
    again.send_signal(number)
    assert "highway: resumed from epoch" in again.communicate(timeout=PATIENCE)[1]


def start_long_run(folder: Path, *arguments: str, stderr: int | None = None) -> Forked:
    arguments = arguments or ("--depth", "3", "--epochs", "100000", "--threads", "1", "--out", "run")
    process = start("train", *arguments, cwd=folder, stderr=stderr)
    timing = folder / "run" / "timing.jsonl"
    before = timing.stat().st_size if timing.exists() else 0
    deadline = time.monotonic() + PATIENCE
    while (not timing.exists() or timing.stat().st_size <= before) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    return process


def test_a_second_interrupt_leaves_at_once_and_the_first_signal_too_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    interruption, before = Interruption(), signal.getsignal(signal.SIGINT)
    with interruption:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(InterruptedRunError) as error:
            signal.raise_signal(signal.SIGTERM)
        assert error.value.exit_code == 143
        interruption.armed = True
        signal.raise_signal(signal.SIGINT)
        assert interruption.requested == 130
        monkeypatch.setattr("highwaynet.training.interruption.ECHO", math.inf)
        signal.raise_signal(signal.SIGINT)  # an echo of the first, under torchrun
        monkeypatch.setattr("highwaynet.training.interruption.ECHO", 0.0)
        signal.raise_signal(signal.SIGTERM)  # from a launcher that asks too
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        interruption.requested = 143
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("text", ["", "5", "five steps", "0 steps", "-1 epochs", "1.5 epochs", "2 hours", "nan minutes", "inf minutes"])
def test_intervals_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="write a number and steps, epochs or minutes"):
        Interval.parse(text)


def test_a_request_that_nobody_hears_of_does_not_lose_the_run(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start_long_run(tmp_path, stderr=writing)
    os.close(writing)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert summarise(tmp_path / "run").state == "interrupted"
    assert list((tmp_path / "run" / "checkpoints").glob("st*.json"))


def test_a_lock_is_given_back_when_the_run_cannot_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calm: RunDirectory) -> None:
    def full(*arguments: object) -> None:
        raise InputError("cannot write data.json: no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "save_preparation", full)
        with pytest.raises(InputError, match="no space left"):
            train(spec_with(), tmp_path / "run")
    train(spec_with(), tmp_path / "run", resume=True)
    assert results(tmp_path / "run") == results(calm.path)


def test_a_run_that_was_begun_meanwhile_is_not_wiped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from highwaynet.training import setup

    original, calls = setup.load_dataset, []

    def slow(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        if len(calls) == 1:
            train(spec_with(epochs=1), tmp_path / "run")
        return original(*arguments, **options)

    monkeypatch.setattr(setup, "load_dataset", slow)
    with pytest.raises(InputError, match="already exists"):
        train(spec_with(epochs=1), tmp_path / "run", resume=True)
    assert summarise(tmp_path / "run").state == "finished"


def test_a_run_that_was_killed_behind_its_last_checkpoint_is_cleared_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from highwaynet.training import saving

    def killed(run: RunDirectory) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(saving, "clear", killed)
        with pytest.raises(KeyboardInterrupt):
            train(spec_with(), tmp_path / "run")
    assert RunDirectory.open(tmp_path / "run").checkpoints.names("step")
    train(spec_with(), tmp_path / "run", resume=True)
    assert not RunDirectory.open(tmp_path / "run").checkpoints.names("step")


def test_a_finished_run_whose_weights_are_damaged_is_not_called_finished(tmp_path: Path) -> None:
    run = train(spec_with(epochs=1), tmp_path / "run")
    damage_bit(run.path / "checkpoints" / "final.json")
    with pytest.raises(InputError, match=r"final\.safetensors is damaged"):
        train(spec_with(epochs=1), tmp_path / "run", resume=True)


def test_the_history_is_on_the_disk_before_the_run_counts_as_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    original = os.fsync

    def noted(descriptor: int) -> None:
        order.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
        original(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    train(spec_with(epochs=1, checkpoint="9 epochs"), tmp_path / "run")
    final = next(place for place, name in enumerate(order) if name.startswith(".final.json"))
    assert "history.jsonl" in order[:final]


class TestEarlyStopping:
    """Patience."""

    def test_the_run_ends_after_so_many_epochs_without_a_better_one(self, tmp_path: Path) -> None:
        spec = spec_with(learning_rate=3.0, decay=1.0, epochs=60, patience=3, on_divergence="ignore")
        spy = Spy()
        run = train(spec, tmp_path / "run", watcher=spy)
        losses = [line.validation_loss for line in run.read_history()]
        best = losses.index(min(losses, key=lambda loss: loss or 9e9))
        assert len(losses) == best + 1 + 3 < 60
        assert spy.notes == [f"stopped early: no improvement since epoch {best + 1}; its weights are kept as the best"]
        assert run.finished

    def test_interrupted_it_still_ends_there(self, tmp_path: Path) -> None:
        spec = spec_with(learning_rate=3.0, decay=1.0, epochs=60, patience=3, on_divergence="ignore")
        calm = train(spec, tmp_path / "calm")
        last = calm.read_history()[-1].step
        stop_after(last - 5, spec, tmp_path / "run")
        train(spec, tmp_path / "run", resume=True)
        assert results(tmp_path / "run") == results(calm.path)


def test_ctrl_c_before_the_first_step(tmp_path: Path) -> None:
    class Impatient(Watcher):
        def started(self, data: DataRecord, epochs: int, steps: int) -> None:
            raise KeyboardInterrupt

    spec = spec_with(epochs=1)
    with pytest.raises(InterruptedRunError, match=r"^interrupted before the first step$") as stopped:
        train(spec, tmp_path / "run", watcher=Impatient())
    assert stopped.value.exit_code == 130
    assert RunDirectory.open(tmp_path / "run").read_events()[-1].startswith("interrupted before the first step")
    assert summarise(tmp_path / "run").state == "interrupted"
    assert train(spec, tmp_path / "run", resume=True).read_history() == train(spec, tmp_path / "calm").read_history()
