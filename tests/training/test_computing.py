"""Devices, precisions, compiling and recomputing: the same loop, other numbers."""

import math
import warnings
from pathlib import Path

import pytest
import torch

from highwaynet import NetworkSpec, RunSpec, TrainingSpec
from highwaynet.base.errors import InputError
from highwaynet.runs.load import load_network
from highwaynet.runs.run_records import EpochRecord
from highwaynet.runs.spec import with_training
from highwaynet.training.computing import check_computing, choose_device, computing_for, has_compiler
from highwaynet.training.loop import train
from highwaynet.training.watcher import Watcher
from training.test_resuming import results, stop_after


def history(path: Path, name: str = "fc-highway", **training: object) -> list[EpochRecord]:
    network = NetworkSpec(depth=6, width=12, dropout=(0.1, 0.1)) if name == "fc-highway" else NetworkSpec(name=name)
    settings = {"epochs": 2, "batch_size": 200, "threads": 1, "learning_rate": 0.1} | training
    return train(RunSpec(network=network, training=TrainingSpec(**settings)), path).read_history()


@pytest.mark.parametrize("name", ["fc-highway", "mnist-highway-16"])
def test_every_precision_learns_alike(name: str, tmp_path: Path) -> None:
    exact = history(tmp_path / "float64", name, precision="float64")
    for precision, tolerance in (("float32", 1e-4), ("bfloat16", 0.05), ("float16", 0.05)):
        close = history(tmp_path / precision, name, precision=precision)
        for mine, theirs in zip(exact, close, strict=True):
            assert theirs.train_loss == pytest.approx(mine.train_loss, rel=tolerance), precision
            assert theirs.train_loss != mine.train_loss, precision  # it was another computation


def test_float64_is_really_computed(tmp_path: Path) -> None:
    spec = RunSpec(network=NetworkSpec(depth=4, width=8), training=TrainingSpec(epochs=1, precision="float64"))
    run = train(spec, tmp_path / "run")
    tensors, _ = run.checkpoints.load("final")
    assert all(tensor.dtype is torch.float64 for tensor in tensors.values())
    assert any(bool((tensor != tensor.float().double()).any()) for tensor in tensors.values())
    assert load_network(run).head.weight.dtype is torch.float32  # for use


def test_mixed_precision_resumes_with_its_loss_scaling(tmp_path: Path) -> None:
    spec = RunSpec(
        network=NetworkSpec(depth=4, width=8),
        training=TrainingSpec(epochs=3, batch_size=100, precision="float16", threads=1, clip_norm=1.0, checkpoint="2 steps"),
    )
    calm = train(spec, tmp_path / "calm")
    stop_after(17, spec, tmp_path / "run")
    names = list((tmp_path / "run" / "checkpoints").glob("step-*.json"))
    assert '"_growth_tracker": 18.0' in max(names).read_text()
    train(spec, tmp_path / "run", resume=True)
    assert results(tmp_path / "run") == results(calm.path)


def test_compiling_without_a_compiler_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(InputError, match="needs a C\\+\\+ compiler"):
        train(RunSpec(training=TrainingSpec(epochs=1, compile=True)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["fc-highway", "mnist-highway-16"])
def test_recomputing_changes_nothing_but_memory(name: str, tmp_path: Path) -> None:
    plain, saving = history(tmp_path / "a", name), history(tmp_path / "b", name, recompute=True)
    assert plain == saving


@pytest.mark.skipif(not has_compiler(), reason="torch.compile needs a C++ compiler")
def test_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = RunSpec(network=NetworkSpec(depth=4, width=8), training=TrainingSpec(epochs=6, batch_size=647, threads=1, learning_rate=0.5))
    compiling = with_training(spec, compile=True)
    plain = train(spec, tmp_path / "a").read_history()
    seen = []
    original = torch.compile
    monkeypatch.setattr(torch, "compile", lambda network: seen.append(network) or original(network))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of torch's compiler are not ours
        compiled = train(compiling, tmp_path / "b").read_history()
    assert len(seen) == 1
    assert plain[-1].train_loss < plain[0].train_loss - 0.1
    for mine, theirs in zip(plain, compiled, strict=True):
        assert math.isclose(mine.train_loss, theirs.train_loss, rel_tol=1e-4)


def test_devices() -> None:
    assert choose_device(None) == ("cuda" if torch.cuda.is_available() else "cpu")
    assert choose_device("cpu") == "cpu"
    with pytest.raises(
        InputError, match=r"training.device = 'cuda:99': torch finds (no such device|only \d+ such devices) on this machine; choose cpu"
    ):
        choose_device("cuda:99")
    assert computing_for(TrainingSpec(device="cpu"), 3).device == torch.device("cpu")
    with pytest.raises(InputError, match="mps does not support float64"):
        check_computing(TrainingSpec(device="mps", precision="float64"))


def test_the_device_is_where_the_network_and_each_batch_go(tmp_path: Path) -> None:
    """The meta device stands for another one: whatever is left behind on the processor meets it and fails."""
    from highwaynet.data.load import load_dataset
    from highwaynet.training.computing import Computing
    from highwaynet.training.objective import Batch, objective_for
    from highwaynet.training.optimiser import make_optimiser
    from support import fresh_network

    for name in ("fc-highway", "mnist-plain-16", "resnet-20"):
        extra = {"deep_supervision": True} if name == "mnist-plain-16" else {}
        spec = RunSpec(network=NetworkSpec(name=name, **extra))
        data = load_dataset(spec.data)
        computing = Computing(torch.device("meta"), torch.float32, None)
        network = fresh_network(spec, data.preparation.record).to(computing.device, computing.dtype)
        optimiser = make_optimiser(network, spec.training)
        for batch in [next(data.train.batches(8))]:
            inputs, targets = computing.place(*batch)
            objective = objective_for(network.plan, data.preparation.record, TrainingSpec())
            objective(network, Batch(inputs, targets)).minimised.backward()
            optimiser.step()
        assert all(parameter.grad is not None and parameter.grad.is_meta for parameter in network.parameters())


def test_tensorboard_events(tmp_path: Path) -> None:
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    spec = RunSpec(network=NetworkSpec(depth=4, width=8), training=TrainingSpec(epochs=4, batch_size=100, threads=1, tensorboard=True))
    stop_after(30, spec, tmp_path / "run")
    run = train(spec, tmp_path / "run", resume=True)
    events = event_accumulator.EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    assert {"loss/train", "loss/validation", "accuracy/train", "learning_rate", "samples_per_second", "epoch"} <= set(
        events.Tags()["scalars"]
    )
    read = [(event.step, event.value) for event in events.Scalars("loss/train")]
    assert read == [(line.step, pytest.approx(line.train_loss, rel=1e-6)) for line in run.read_history()]


def test_tensorboard_that_is_missing_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    spec = RunSpec(training=TrainingSpec(tensorboard=True))
    with pytest.raises(InputError, match=r"needs the package tensorboard: pip install 'highwaynet\[tensorboard\]'"):
        train(spec, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("precision", "has", "says"), [("bfloat16", False, True), ("bfloat16", True, False), ("float32", False, False)])
def test_a_processor_without_bfloat16_is_mentioned(
    precision: str, has: bool, says: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: has, raising=False)
    notes: list[str] = []

    class Listener(Watcher):
        def note(self, sentence: str) -> None:
            notes.append(sentence)

    spec = RunSpec(network=NetworkSpec(depth=3, width=8), training=TrainingSpec(epochs=1, precision=precision))
    train(spec, tmp_path / "run", watcher=Listener())
    assert any("this processor has no instructions for it" in note for note in notes) == says
