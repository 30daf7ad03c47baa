"""The loop against a bare one, its schedule, and equal histories from equal specs in separate processes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from highwaynet import DataSpec, NetworkSpec, RunSpec, TrainingSpec, build_network
from highwaynet.base.errors import HighwayError, InputError
from highwaynet.base.randomness import generator_for
from highwaynet.data.load import load_dataset
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network
from highwaynet.training.evaluation import evaluate
from highwaynet.training.loop import train
from highwaynet.training.watcher import Watcher
from support import Highway, fresh_network, small_spec


def test_equals_a_loop_written_by_hand(tmp_path: Path) -> None:
    spec = small_spec()
    run = train(spec, tmp_path / "run")
    data = load_dataset(spec.data)
    network = build_network(spec.network, (1, 8, 8), 10, generator=generator_for(0, "weights"))
    velocity = [torch.zeros_like(parameter) for parameter in network.parameters()]
    rows = data.train.rows
    x, y, n = data.train.inputs[rows].float() / 16, data.train.targets[rows], len(rows)
    steps, step = 2 * -(-n // 64), 0
    for epoch in (1, 2):
        order = torch.randperm(n, generator=generator_for(0, "permutation", epoch))
        total = 0.0
        for start in range(0, n, 64):
            chosen = order[start : start + 64]
            loss = F.cross_entropy(network(x[chosen]), y[chosen])
            gradients = torch.autograd.grad(loss, list(network.parameters()))
            rate = 0.1 * spec.training.decay ** (step / (steps - 1))
            with torch.no_grad():
                for parameter, momentum, gradient in zip(network.parameters(), velocity, gradients, strict=True):
                    momentum.mul_(0.9).add_(gradient)
                    parameter.sub_(rate * momentum)
            total += loss.item() * len(chosen)
            step += 1
        assert run.read_history()[epoch - 1].train_loss == pytest.approx(total / n, rel=1e-5)
    trained = load_network(run)
    for (name, mine), theirs in zip(network.named_parameters(), trained.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6, msg=name)
    last = run.read_history()[-1]
    assert data.validation is not None
    score = evaluate(trained, data.validation)
    assert (score.loss, score.accuracy) == (last.validation_loss, last.validation_accuracy)
    assert last.learning_rate == pytest.approx(0.1 * spec.training.decay)
    assert last.step == steps


def test_evaluation_does_not_depend_on_batches_and_leaves_the_mode(finished_run: Callable[..., RunDirectory]) -> None:
    network = load_network(finished_run())
    split = load_dataset(RunSpec().data).train
    score = evaluate(network.train(), split)
    assert network.training
    logits, targets = network(split.inputs[split.rows].float() / 16), split.targets[split.rows]
    assert score.loss == pytest.approx(F.cross_entropy(logits, targets).item(), rel=1e-5)
    assert score.accuracy == (logits.argmax(1) == targets).double().mean().item()
    assert score.samples == 1294


def test_same_spec_and_seed_give_the_same_history_in_two_processes(tmp_path: Path, highway: Highway) -> None:
    flags = ["--depth", 8, "--epochs", 2]
    assert highway("train", *flags, "--out", "a").returncode == 0
    assert highway("train", "a", "--out", "b").returncode == 0  # repeated from its directory alone
    assert highway("train", "a/spec.toml", "--seed", 1, "--out", "c").returncode == 0
    a, b, c = (tmp_path / name / "history.jsonl" for name in "abc")
    assert a.read_bytes() == b.read_bytes()
    assert a.read_bytes() != c.read_bytes()
    weights = [(tmp_path / name / "checkpoints" / "final.safetensors").read_bytes() for name in "abc"]
    assert weights[0] == weights[1] != weights[2]
    assert (tmp_path / "a" / "spec.toml").read_bytes() == (tmp_path / "b" / "spec.toml").read_bytes()


def test_trains_without_validation_data(tmp_path: Path) -> None:
    spec = small_spec().model_copy(update={"data": RunSpec(data={"validation": 0}).data})
    run = train(spec, tmp_path / "run")
    assert run.read_history()[-1].validation_loss is None
    assert "validation_loss" not in (run.path / "history.jsonl").read_text()


def test_a_diverging_run_stops_with_its_epoch_and_keeps_the_epochs_before(tmp_path: Path) -> None:
    spec = RunSpec(network=small_spec("fc-residual", activation="relu").network, training=TrainingSpec(learning_rate=1e6, epochs=3))
    with pytest.raises(HighwayError, match="no longer finite in epoch 1"):
        train(spec, tmp_path / "run")
    assert "no longer finite" in (tmp_path / "run" / "events.log").read_text()
    with pytest.raises(InputError, match="the run diverged"):
        load_network(RunDirectory.open(tmp_path / "run"))


def test_a_last_step_that_breaks_the_network_is_noticed_without_validation_data(tmp_path: Path) -> None:
    spec = RunSpec(
        network=NetworkSpec(name="fc-residual", depth=20, width=12, activation="relu"),
        data=DataSpec(validation=0),
        training=TrainingSpec(learning_rate=1e6, epochs=1, batch_size=1438),
    )
    with pytest.raises(HighwayError, match="no longer finite in epoch 1"):
        train(spec, tmp_path / "run")


def test_the_threads_are_used_written_down_and_given_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    run = train(small_spec(), tmp_path / "a")
    assert run.read_spec().training.threads == before
    other = before % 2 + 1
    seen = []

    class Threads(Watcher):
        def epoch(self, record: object, timing: object) -> None:
            seen.append(torch.get_num_threads())

    spec = small_spec()
    spec = spec.model_copy(update={"training": spec.training.model_copy(update={"threads": other})})
    run = train(spec, tmp_path / "b", watcher=Threads())
    assert seen == [other, other]
    assert run.read_environment()["threads"] == run.read_spec().training.threads == other
    assert torch.get_num_threads() == before


def test_the_seed_moves_the_weights() -> None:
    first, other = small_spec(), small_spec().model_copy(update={"seed": 1})
    record = load_dataset(first.data).preparation.record
    assert not torch.equal(fresh_network(first, record).stack.weight, fresh_network(other, record).stack.weight)


def test_nothing_is_written_when_the_batch_does_not_fit(tmp_path: Path) -> None:
    spec = small_spec().model_copy(update={"training": TrainingSpec(batch_size=1295)})
    with pytest.raises(InputError, match=r"training\.batch_size = 1295: digits has 1294 training samples"):
        train(spec, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_the_clock_is_kept_out_of_the_history(finished_run: Callable[..., RunDirectory]) -> None:
    run = finished_run()
    lines = [json.loads(line) for line in (run.path / "history.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert set(lines[0]) == {
        "epoch", "step", "learning_rate", "train_loss", "train_accuracy", "validation_loss", "validation_accuracy",
    }  # fmt: skip
    assert run.read_seconds() > 0
    assert run.read_environment()["threads"] == torch.get_num_threads()


def tiny_images(tmp_path: Path, samples: int, size: int) -> DataSpec:
    import numpy as np

    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 255, (samples, 3, size, size), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", x=pixels, y=np.arange(samples) % 2)
    return DataSpec(name=str(tmp_path / "set.npz"), validation=0.0)


def test_a_batch_of_one_is_refused_where_batch_norm_cannot_take_it(tmp_path: Path) -> None:
    data = tiny_images(tmp_path, 50, 4)
    count = len(load_dataset(data).train)
    network = NetworkSpec(name="resnet-20")
    for size in (1, count - 1):
        with pytest.raises(InputError, match=rf"training.batch_size = {size}: with {count} training samples a batch of one sample is left"):
            train(RunSpec(network=network, data=data, training=TrainingSpec(batch_size=size, epochs=1)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train(RunSpec(network=network, data=data, training=TrainingSpec(batch_size=count, epochs=1)), tmp_path / "run")


def test_dropout_gives_the_global_generator_back(tmp_path: Path) -> None:
    data = tiny_images(tmp_path, 24, 12)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(RunSpec(network=NetworkSpec(name="mnist-highway-16"), data=data, training=TrainingSpec(epochs=1)), tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)
