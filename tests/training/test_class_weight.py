"""Weights of classes in what is minimised: against torch, by hand, through the command, and with several processes."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from highwaynet import RunSpec, load
from highwaynet.base.errors import InputError
from highwaynet.data.load import load_dataset
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import spec_from_values
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.loop import train
from highwaynet.training.objective import Batch, Classification, Companions, balanced_weights
from highwaynet.training.state import TrainingState
from highwaynet.training.watcher import Watcher
from support import Highway, fresh_network
from training.test_distribution import alone, finished, history, launch

COUNTS = (160, 30, 10)


def skewed() -> tuple[np.ndarray, np.ndarray]:
    """Three classes of very different sizes that overlap."""
    classes = np.repeat(np.arange(3), COUNTS)
    noise = np.random.default_rng(0).normal(size=(len(classes), 2))
    return (noise + np.array([[0, 0], [1.2, 0], [0, 1.2]])[classes]).astype(np.float32), classes


def spec_with(network: dict[str, object] | None = None, **training: object) -> RunSpec:
    settings = {"epochs": 2, "batch_size": 30, "learning_rate": 0.05, "threads": 1, "class_weight": "balanced"} | training
    return spec_from_values({"network": network or {"depth": 4, "width": 8}, "seed": 3, "training": settings})


def weights(run: RunDirectory) -> dict[str, Tensor]:
    return dict(load(run.path).network.state_dict())


def test_weights_by_hand() -> None:
    assert balanced_weights(torch.tensor(COUNTS)).tolist() == pytest.approx([200 / 480, 200 / 90, 200 / 30])
    assert balanced_weights(torch.tensor([5, 0, 5])).tolist() == [1.0, 0.0, 1.0], "a class without samples is left out"


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_what_is_minimised_is_torchs_and_the_loss_stays(smoothing: float) -> None:
    outputs, targets = torch.randn(7, 3, requires_grad=True), torch.tensor([0, 0, 0, 1, 2, 0, 1])
    weight = torch.tensor([0.5, 2.0, 4.0])
    found = Classification(smoothing, weight)(lambda x: x, Batch(outputs, targets))
    torch.testing.assert_close(found.minimised, F.cross_entropy(outputs, targets, weight, label_smoothing=smoothing))
    torch.testing.assert_close(found.loss, F.cross_entropy(outputs, targets))
    if not smoothing:
        logs, own = outputs.log_softmax(1), weight[targets]
        torch.testing.assert_close(found.minimised, -(own * logs[torch.arange(7), targets]).sum() / own.sum())


def test_companions_and_half_precision() -> None:
    outputs, companion, targets = torch.randn(5, 3), torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    weight = torch.tensor([1.0, 2.0, 3.0])
    found = Companions(Classification(0.0, weight), 0.5)(lambda x, return_companions: (x, [companion]), Batch(outputs, targets, 0.5))
    both = [F.cross_entropy(one, targets, weight) for one in (outputs, companion)]
    torch.testing.assert_close(found.minimised, both[0] + 0.25 * both[1])
    half = Classification(0.0, weight)(lambda x: x, Batch(outputs.bfloat16(), targets))
    torch.testing.assert_close(half.minimised, F.cross_entropy(outputs.bfloat16().float(), targets, weight))


def test_one_step_of_a_run_is_torchs(tmp_path: Path) -> None:
    """The fused loss of a dense network has no weights: the step must be that of the layers one by one."""
    data = skewed()
    spec = spec_with(epochs=1, batch_size=144, momentum=0.0, decay=1.0)  # all training samples in one step
    run = train(spec, tmp_path / "run", data=data)
    part = load_dataset(spec.data, run.load_preparation(), data=data).train
    assert part.class_counts().tolist() == [115, 22, 7], "160, 30 and 10 without test and validation samples"
    inputs, targets = next(part.batches(144))
    network = fresh_network(spec, run.load_preparation().record)
    own = 144 / (3 * torch.tensor([115.0, 22.0, 7.0]))
    F.cross_entropy(network(inputs), targets, own).backward()
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(weights(run)[name], parameter - 0.05 * parameter.grad, rtol=1e-4, atol=1e-6)
    plain = F.cross_entropy(network(inputs), targets).item()
    assert run.read_history()[0].train_loss == pytest.approx(plain, rel=1e-5), "the history has the loss without weights"


class _Stop(Watcher):
    def __init__(self, after: int, interruption: Interruption) -> None:
        self.left, self.interruption = after, interruption

    def step(self, samples: int) -> None:
        self.left -= 1
        if self.left == 0:
            self.interruption.requested = 130


def test_resuming_is_exact(tmp_path: Path) -> None:
    spec, data = spec_with(checkpoint="1 epoch"), skewed()
    calm = train(spec, tmp_path / "calm", data=data)
    stop = Interruption()
    with pytest.raises(InterruptedRunError):
        train(spec, tmp_path / "shaken", data=data, watcher=_Stop(3, stop), interruption=stop)
    shaken = train(spec, tmp_path / "shaken", data=data, resume=True)
    assert shaken.read_history() == calm.read_history()
    mine, theirs = weights(calm), weights(shaken)
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)


def test_processes_have_the_history_of_one(tmp_path: Path) -> None:
    inputs, classes = skewed()
    np.savez(tmp_path / "skewed.npz", x=inputs, y=classes)
    flags = ["--data", "skewed.npz", "--class-weight", "balanced", "--depth", 4, "--width", 8, "--epochs", 2, "--batch-size", 11]
    flags += ["--precision", "float64", "--threads", 1]  # 144 samples: the last batch has one, which one process of two computes
    alone(tmp_path, *flags, "--out", "one")
    finished(launch(tmp_path, *flags, "--out", "two"))
    for mine, theirs in zip(history(tmp_path / "one"), history(tmp_path / "two"), strict=True):
        assert all(math.isclose(value, theirs[name], rel_tol=1e-8) for name, value in mine.items())


def test_the_command_and_what_it_refuses(tmp_path: Path, highway: Highway) -> None:
    inputs, classes = skewed()
    np.savez(tmp_path / "skewed.npz", x=inputs, y=classes)
    np.savez(tmp_path / "numbers.npz", x=inputs, y=inputs[:, 0])
    flags = ["--depth", 4, "--width", 8, "--epochs", 1]
    result = highway("train", "--data", "skewed.npz", "--class-weight", "balanced", *flags, "--out", "run", "--json")
    assert json.loads(result.stdout)["last_epoch"]["epoch"] == 1
    assert 'class_weight = "balanced"' in (tmp_path / "run" / "spec.toml").read_text()
    for data, weight, sentence in (
        ("numbers.npz", "balanced", "numbers.npz has numbers to predict, not classes; omit it"),
        ("skewed.npz", "equal", "training.class_weight = 'equal'"),
    ):
        result = highway("train", "--data", data, "--class-weight", weight, *flags, "--out", "bad")
        assert (result.returncode, "Traceback" in result.stderr) == (2, False)
        assert sentence in " ".join(result.stderr.split())
        assert not (tmp_path / "bad").exists()


def test_it_is_not_for_own_objectives() -> None:
    with pytest.raises(InputError, match="class_weight = 'balanced': the objective Mine is your own; weight the classes there"):
        spec_with(objective="Mine")


def test_the_best_epoch_is_chosen_by_the_weighted_validation_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = []
    before = TrainingState.end_epoch

    def end_epoch(state: TrainingState, loss: float, *, keep_best: bool) -> None:
        losses.append(loss)
        before(state, loss, keep_best=keep_best)

    monkeypatch.setattr(TrainingState, "end_epoch", end_epoch)
    data, spec = skewed(), spec_with(answer="final", epochs=4)
    spec = spec.model_copy(update={"data": spec.data.for_memory(None).model_copy(update={"validation": 0.3})})
    run = train(spec, tmp_path / "run", data=data)
    loaded = load_dataset(spec.data, run.load_preparation(), data=data)
    part, weight = loaded.validation, balanced_weights(loaded.train.class_counts())
    assert part is not None
    with torch.no_grad():
        outputs = torch.cat([load(run.path).network(inputs) for inputs, _ in part.batches(100)])
    targets = part.targets[part.rows]
    assert losses[-1] == pytest.approx(float(F.cross_entropy(outputs, targets, weight.float())), rel=1e-5)
    assert run.read_history()[-1].validation.loss == pytest.approx(float(F.cross_entropy(outputs, targets)), rel=1e-5)  # type: ignore[union-attr]
    assert abs(losses[-1] - run.read_history()[-1].validation.loss) > 0.01, "else this test shows nothing"  # type: ignore[union-attr]
