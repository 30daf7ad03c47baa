"""Losses that are no longer finite: where it began, going back, and clipping."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from highwaynet import NetworkSpec, RunSpec, TrainingSpec, build_network
from highwaynet.base.errors import InputError
from highwaynet.networks.layerwise import layerwise
from highwaynet.networks.network import Network
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.listing import summarise
from highwaynet.training.divergence import DivergenceError, find_cause, put_gradients_in_place
from highwaynet.training.loop import train
from highwaynet.training.schedule import learning_rate
from training.test_resuming import Spy, results, stop_after

NETWORKS = [
    NetworkSpec(depth=5, width=8),
    NetworkSpec(depth=5, width=8, carry="independent"),
    NetworkSpec(name="fc-plain", depth=5, width=8),
    NetworkSpec(name="fc-residual", depth=5, width=8),
    NetworkSpec(name="fc-lstm", depth=5, width=8),
    NetworkSpec(name="mnist-highway-16"),
    NetworkSpec(name="mnist-plain-16", deep_supervision=True),
    NetworkSpec(name="resnet-20"),
]


def made(spec: NetworkSpec) -> Network:
    return build_network(spec, (1, 28, 28), 10, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("spec", NETWORKS, ids=lambda spec: f"{spec.name}-{spec.carry}")
def test_the_layers_in_a_row_compute_what_the_network_does(spec: NetworkSpec) -> None:
    network = made(spec).eval()
    x = images = torch.randn(3, 1, 28, 28)
    for _, module in layerwise(network):
        x = module(x)
    assert torch.equal(x, network(images))


@pytest.mark.parametrize("spec", NETWORKS, ids=lambda spec: f"{spec.name}-{spec.carry}")
def test_each_layer_is_named_whose_weights_or_outputs_are_not_finite(spec: NetworkSpec) -> None:
    network, images = made(spec), torch.randn(3, 1, 28, 28)
    assert find_cause(network, images) == "all outputs are finite, so the loss itself failed first"
    pieces = [piece for piece in layerwise(network) if list(piece.module.parameters())]
    for label, module in pieces:
        parameter = next(iter(module.parameters()))
        before = parameter.detach().clone()
        parameter.data.fill_(math.nan)
        assert find_cause(network, images) == f"the gradient of {label} failed first"
        parameter.data.copy_(before)
    # Two layers: gradients flow from the last to the first, so the later one is to blame.
    for _, module in pieces[1:3]:
        next(iter(module.parameters())).data.fill_(math.inf)
    assert find_cause(network, images) == f"the gradient of {pieces[2].label} failed first"


def test_the_first_layer_whose_output_overflows() -> None:
    network = made(NetworkSpec(name="fc-plain", depth=5, width=8, activation="identity"))
    with torch.no_grad():
        network.entry.weight.fill_(1.0)
        network.stack.weight.fill_(1e18)
        network.stack.weight[0].fill_(1.0)
    # 784·1, then 8·784, then ·8e18 each: the layers 3 and 4 are still below 3e38, layer 5 is not.
    assert find_cause(network, torch.ones(2, 1, 28, 28)) == "the output of layer 4 (DensePlain) failed first"


def test_gradients_in_the_place_of_weights() -> None:
    network = made(NetworkSpec(depth=4, width=8))
    network(torch.randn(2, 1, 28, 28)).sum().backward()
    assert network.stack.weight.grad is not None
    network.stack.weight.grad[1, 3, 3] = math.nan
    put_gradients_in_place(network)
    assert find_cause(network, torch.randn(2, 1, 28, 28)) == "the gradient of layer 3 (DenseHighway) failed first"


def wild(**training: object) -> RunSpec:
    """A run that diverges in its second epoch."""
    network = NetworkSpec(name="fc-residual", depth=30, width=20, activation="identity", init="normal", init_std=0.02)
    settings = {"epochs": 4, "batch_size": 100, "learning_rate": 0.05, "momentum": 0.9, "decay": 1.0, "threads": 1, "checkpoint": "5 steps"}
    return RunSpec(network=network, training=TrainingSpec(**(settings | training)))


def first_failure(tmp_path: Path) -> tuple[RunSpec, DivergenceError]:
    for rate in (0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3):
        spec = wild(learning_rate=rate)
        try:
            train(spec, tmp_path / f"try-{rate}")
        except DivergenceError as error:
            return spec, error
    raise AssertionError("none of the learning rates diverges")


def test_the_run_stops_with_epoch_step_layer_and_the_last_good_checkpoint(tmp_path: Path) -> None:
    spec, error = first_failure(tmp_path)
    path = tmp_path / f"try-{spec.training.learning_rate}"
    sentence = str(error)
    assert " is no longer finite in epoch " in sentence
    assert "failed first; " in sentence
    assert "try a training.learning_rate below" in sentence
    run = RunDirectory.open(path)
    saved = run.checkpoints.names("step")
    if saved:
        assert f"the last good checkpoint is from step {int(saved[0].partition('-')[2])} in {path}" in sentence
        tensors, _ = run.checkpoints.load(saved[0])
        assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
    assert summarise(path).state == "diverged"
    with pytest.raises(InputError, match="the run diverged; train it again with other settings"):
        run.resolve("final")


def test_rewinding_halves_the_learning_rate_until_it_works(tmp_path: Path) -> None:
    failing, _ = first_failure(tmp_path)
    spec = wild(learning_rate=failing.training.learning_rate, on_divergence="rewind", max_rewinds=20)
    spy = Spy()
    run = train(spec, tmp_path / "run", watcher=spy)
    history = run.read_history()
    assert [line.epoch for line in history] == [1, 2, 3, 4]
    assert all(math.isfinite(line.train_loss) for line in history)
    rewinds = [note for note in spy.notes if "with the learning rate halved" in note]
    assert len(rewinds) == len(spy.began) - 1 >= 1
    assert "(1 of 20)" in rewinds[0]
    assert history[-1].learning_rate == pytest.approx(spec.training.learning_rate * 0.5 ** len(rewinds))
    # Interrupted before the rewinds, between or behind them, it comes to the same.
    taken = spy.steps
    for steps in range(1, taken - 1):
        path = tmp_path / f"stopped-{steps}"
        stop_after(steps, spec, path)
        train(spec, path, resume=True)
        assert results(path) == results(run.path), steps
    path = tmp_path / "often"
    for _ in range(taken // 7 - 1):
        stop_after(7, spec, path)
    train(spec, path, resume=True)
    assert results(path) == results(run.path)


def test_rewinds_are_bounded(tmp_path: Path) -> None:
    spec = wild(learning_rate=1e6, on_divergence="rewind", max_rewinds=3)
    spy = Spy()
    with pytest.raises(DivergenceError, match="step 2, after 3 rewinds: "):
        train(spec, tmp_path / "run", watcher=spy)
    assert [note.rpartition("; ")[2] for note in spy.notes] == [
        f"back to the beginning, with the learning rate halved ({number} of 3)" for number in (1, 2, 3)
    ]


def test_ignoring_goes_on_to_the_end(tmp_path: Path) -> None:
    run = train(wild(learning_rate=1e6, on_divergence="ignore"), tmp_path / "run")
    history = run.read_history()
    assert len(history) == 4
    assert not math.isfinite(history[-1].train_loss)
    assert '"train_loss":"NaN"' in (run.path / "history.jsonl").read_text()
    assert summarise(run.path).state == "finished"


@pytest.mark.parametrize("way", [{"clip_norm": 0.1}, {"clip_value": 0.01}, {"clip_norm": 0.02, "clip_value": 0.01}])
def test_clipping_is_that_of_a_loop_written_by_hand(way: dict[str, float], tmp_path: Path) -> None:
    from highwaynet.base.randomness import generator_for
    from highwaynet.data.load import load_dataset
    from highwaynet.runs.load import load_network
    from support import fresh_network

    spec = RunSpec(network=NetworkSpec(depth=6, width=12), training=TrainingSpec(epochs=1, batch_size=100, threads=1, momentum=0.0, **way))
    trained = load_network(train(spec, tmp_path / "run"))
    data = load_dataset(spec.data)
    network = fresh_network(spec, data.preparation.record)
    order = torch.randperm(len(data.train), generator=generator_for(0, "permutation", 1))
    changed = 0
    for step, (inputs, targets) in enumerate(data.train.batches(100, order)):
        gradients = torch.autograd.grad(nn.functional.cross_entropy(network(inputs), targets), list(network.parameters()))
        if "clip_value" in way:
            clipped = [gradient.clamp(-way["clip_value"], way["clip_value"]) for gradient in gradients]
            changed += any(not torch.equal(a, b) for a, b in zip(clipped, gradients, strict=True))
            gradients = tuple(clipped)
        if "clip_norm" in way:
            length = torch.sqrt(sum(gradient.square().sum() for gradient in gradients))
            changed += bool(length > way["clip_norm"])
            gradients = tuple(gradient * min(1.0, way["clip_norm"] / length) for gradient in gradients)
        with torch.no_grad():
            for parameter, gradient in zip(network.parameters(), gradients, strict=True):
                parameter.sub_(learning_rate(spec.training, step, 13) * gradient)
    assert changed, "nothing was clipped"
    for mine, theirs in zip(network.parameters(), trained.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_gradient_that_is_no_number_is_found_before_clipping_spreads_it(
    value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = torch.Tensor.backward

    def spoiled(self: torch.Tensor, *arguments: object, **options: object) -> None:
        original(self, *arguments, **options)
        stack = next(module for module in seen if hasattr(module, "stack")).stack
        stack.weight.grad[2, 0, 0] = value

    from highwaynet.training import setup

    seen: list[nn.Module] = []
    fresh = setup.start_network

    def remembered(*arguments: object) -> Network:
        seen.append(fresh(*arguments))
        return seen[-1]

    monkeypatch.setattr(setup, "start_network", remembered)
    monkeypatch.setattr(torch.Tensor, "backward", spoiled)
    with pytest.raises(
        DivergenceError, match=r"a gradient is no longer finite in epoch 1, step 1: the gradient of layer 4 \(DenseHighway\)"
    ):
        train(RunSpec(network=NetworkSpec(depth=6, width=12), training=TrainingSpec(epochs=1, clip_norm=1.0)), tmp_path / "run")
