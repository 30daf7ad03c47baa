"""Objectives: the standard ones against torch, and one's own, with parameters, through interruptions and processes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import (
    Batch,
    BatchLoss,
    Classification,
    InputError,
    InterruptedRunError,
    Interruption,
    NetworkSpec,
    Objective,
    Regression,
    RunSpec,
    TrainingSpec,
    Watcher,
    build_network,
    evaluate,
    load_dataset,
    train,
)
from highwaynet.runs.directory import RunDirectory
from highwaynet.training.objective import Companions
from support import fresh_network

SPEC = RunSpec(network=NetworkSpec(depth=4, width=8), training=TrainingSpec(epochs=2, threads=1))
REGRESSION = (np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32), np.random.default_rng(1).normal(size=80))


class Smoothed(Objective):
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, label_smoothing=0.1)


class Scaled(Classification):
    """With a parameter of its own, a temperature, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(()))
        self.steps: Tensor
        self.register_buffer("steps", torch.zeros(()))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs * self.temperature, targets)

    def forward(self, network: Any, batch: Batch) -> BatchLoss:
        self.steps += 1
        return super().forward(network, batch)


class Absolute(Regression):
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.l1_loss(outputs, targets)


class Mirror(Classification):
    """The standard objective under another name; it asks for what a step is given."""

    def __init__(self) -> None:
        super().__init__()
        self.progress: list[float] = []

    def forward(self, network: Any, batch: Batch) -> BatchLoss:
        self.progress.append(batch.progress)
        return super().forward(network, batch)


def test_standard_objectives_are_torchs() -> None:
    outputs, classes, numbers = torch.randn(5, 3), torch.tensor([0, 1, 2, 1, 0]), torch.randn(5)
    torch.testing.assert_close(Classification().loss(outputs, classes), F.cross_entropy(outputs, classes))
    torch.testing.assert_close(Regression().loss(outputs[:, 0], numbers), F.mse_loss(outputs[:, 0], numbers))
    torch.testing.assert_close(Regression().measure(outputs[:, :1], numbers), F.mse_loss(outputs[:, 0], numbers))
    torch.testing.assert_close(Objective().measure(outputs[:, :1], numbers), F.mse_loss(outputs[:, 0], numbers))
    torch.testing.assert_close(Objective().measure(outputs, classes), F.cross_entropy(outputs, classes))


@pytest.mark.parametrize("weighted", [False, True], ids=["all alike", "weighted"])
@pytest.mark.parametrize("task", ["classes", "smoothed", "class weights", "number", "numbers"])
def test_members_learn_on_their_own(task: str, weighted: bool) -> None:
    """The loss is the mean of the losses that networks with the weights of one member have."""
    outputs = {"number": 1, "numbers": 2}.get(task, 3)
    network: Any = build_network(NetworkSpec(depth=3, width=5, members=3), (4,), outputs)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    weights = torch.arange(1.0, 7.0) / 3.5 if weighted else None
    objective: Objective = Regression()
    targets = torch.randn((6,) if task == "number" else (6, 2), generator=torch.Generator().manual_seed(2))
    if outputs == 3:
        targets = torch.tensor([0, 1, 2, 1, 1, 0])
        factors = torch.tensor([1.0, 2.0, 0.5]) if task == "class weights" else None
        objective = Classification(0.2 if task == "smoothed" else 0.0, factors)
    found = objective(network, Batch(x, targets, weights=weights))
    alone = [objective(lambda x, number=number: network.by_member(x)[:, number], Batch(x, targets, weights=weights)) for number in range(3)]
    for mine, theirs in (("loss", [one.loss for one in alone]), ("minimised", [one.minimised for one in alone])):
        torch.testing.assert_close(getattr(found, mine), torch.stack(theirs).mean(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.outputs, network(x), rtol=1e-5, atol=1e-6)


def test_companions_fade() -> None:
    outputs, targets = torch.randn(5, 3), torch.tensor([0, 1, 2, 1, 0])

    def network(inputs: Tensor, return_companions: bool) -> tuple[Tensor, list[Tensor]]:
        return inputs, [2 * inputs, 3 * inputs]

    objective = Companions(Classification(), 0.4)
    one, two, three = (F.cross_entropy(factor * outputs, targets) for factor in (1, 2, 3))
    for progress in (0.0, 0.25, 1.0):
        _, loss, minimised = objective(network, Batch(outputs, targets, progress))
        torch.testing.assert_close(loss, one)
        torch.testing.assert_close(minimised, one + 0.4 * (1 - progress) * (two + three))


def test_an_objective_of_ones_own_trains_as_torch_does(tmp_path: Path) -> None:
    """Against a loop of torch's own, over two epochs."""
    from highwaynet.base.randomness import generator_for
    from highwaynet.training.schedule import learning_rate

    run = train(SPEC, tmp_path / "run", objective=Smoothed())
    data = load_dataset(SPEC.data)
    network = fresh_network(SPEC, data.preparation.record)
    optimiser, step, losses = torch.optim.SGD(network.parameters(), lr=1.0, momentum=SPEC.training.momentum), 0, []
    steps_per_epoch = -(-len(data.train) // SPEC.training.batch_size)
    for epoch in (1, 2):
        total = 0.0
        order = torch.randperm(len(data.train), generator=generator_for(0, "permutation", epoch))
        for inputs, targets in data.train.batches(SPEC.training.batch_size, order):
            optimiser.param_groups[0]["lr"] = learning_rate(SPEC.training, step, 2 * steps_per_epoch, steps_per_epoch)
            loss = F.cross_entropy(network(inputs), targets, label_smoothing=0.1)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(targets)
            step += 1
        losses.append(total / len(data.train))
    assert [line.train_loss for line in run.read_history()] == pytest.approx(losses, rel=1e-4)
    assert run.read_spec().training.objective == "Smoothed"
    assert evaluate(run).loss < 2.0  # the cross-entropy itself


def test_the_same_objective_written_again_gives_the_same_history(tmp_path: Path) -> None:
    mirror = Mirror()
    one, two = train(SPEC, tmp_path / "one"), train(SPEC, tmp_path / "two", objective=mirror)
    assert (one.path / "history.jsonl").read_bytes() == (two.path / "history.jsonl").read_bytes()
    steps = 2 * 41
    assert mirror.progress[-steps:] == [step / steps for step in range(steps)]  # before that, it was tried


def test_parameters_of_an_objective_are_trained_and_survive(tmp_path: Path) -> None:
    class Stop(Watcher):
        interruption, left = Interruption(), 50

        def step(self, samples: int) -> None:
            self.left -= 1
            if not self.left:
                self.interruption.requested = 130

    calm_objective, objective, stop = Scaled(), Scaled(), Stop()
    calm = train(SPEC, tmp_path / "calm", objective=calm_objective)
    with pytest.raises(InterruptedRunError):
        train(SPEC, tmp_path / "run", objective=objective, watcher=stop, interruption=stop.interruption)
    resumed = Scaled()
    run = train(SPEC, tmp_path / "run", objective=resumed, resume=True)
    assert calm_objective.temperature.item() != 1.0
    assert torch.equal(resumed.temperature, calm_objective.temperature)
    assert (run.path / "history.jsonl").read_bytes() == (calm.path / "history.jsonl").read_bytes()
    assert (run.path / "checkpoints/final.safetensors").read_bytes() == (calm.path / "checkpoints/final.safetensors").read_bytes()


def test_a_run_with_its_own_objective_needs_it_again(tmp_path: Path) -> None:
    run = train(SPEC, tmp_path / "run", objective=Smoothed())
    with pytest.raises(InputError, match=r"training\.objective = 'Smoothed': the run has a custom objective; pass it again"):
        train(run.read_spec(), tmp_path / "again")
    with pytest.raises(InputError, match="Smoothed"):
        train(SPEC, tmp_path / "run", resume=True)
    assert not (tmp_path / "again").exists()
    with pytest.raises(InputError, match="Smoothed"):
        train(RunSpec.from_run(run, training={"epochs": 1}), tmp_path / "child")
    child = train(RunSpec.from_run(run, training={"epochs": 1, "objective": None}), tmp_path / "child")
    assert child.read_spec().training.objective is None


def test_rmse_of_an_objective_with_its_own_forward(tmp_path: Path) -> None:
    class Hundredfold(Regression):
        def forward(self, network: Any, batch: Batch) -> BatchLoss:
            outputs, loss, minimised = super().forward(network, batch)
            return BatchLoss(outputs, 100 * loss, minimised)

    spec = RunSpec(network=NetworkSpec(depth=3, width=8), training=TrainingSpec(epochs=1, threads=1, learning_rate=1e-6))
    one = train(spec, tmp_path / "one", data=REGRESSION).read_history()[-1]
    other = train(spec, tmp_path / "other", data=REGRESSION, objective=Hundredfold()).read_history()[-1]
    assert other.train_loss == pytest.approx(100 * one.train_loss, rel=1e-4)
    assert other.train_rmse == pytest.approx(one.train_rmse, rel=1e-4)


def test_rmse_is_that_of_the_outputs_whatever_is_minimised(tmp_path: Path) -> None:
    spec = RunSpec(network=NetworkSpec(depth=3, width=8), training=TrainingSpec(epochs=1, threads=1, learning_rate=1e-6))
    absolute, squared = (
        train(spec, tmp_path / name, data=REGRESSION, objective=objective).read_history()[-1]
        for name, objective in (("absolute", Absolute()), ("squared", None))
    )
    assert absolute.train_loss < squared.train_loss  # mean |e| < mean e² here
    assert absolute.train_rmse == pytest.approx(squared.train_rmse, rel=1e-4)
    assert absolute.validation_r2 == pytest.approx(squared.validation_r2, abs=1e-4)


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (lambda outputs, targets: outputs, "its loss is a tensor of shape (2, 10) and torch.float32; it should be a scalar tensor"),
        (lambda outputs, targets: outputs.sum() * 1j, "its loss is a tensor of shape () and torch.complex64; it should be a scalar"),
        (lambda outputs, targets: torch.tensor(1.0, requires_grad=True), "what is minimised does not depend on the network's outputs"),
        (lambda outputs, targets: outputs.sum().to("meta"), "its loss is on meta; it should be on the device of the batch"),
        (lambda outputs, targets: outputs @ targets, "forward(network, batch) fails on two samples (RuntimeError"),
        (lambda outputs, targets: 0.5, "its loss is a float; it should be a scalar tensor"),
        (lambda outputs, targets: outputs.detach().sum(), "what is minimised does not depend on the network's outputs"),
    ],
)
def test_what_is_no_objective_is_refused_before_anything_is_written(loss: Any, sentence: str, tmp_path: Path) -> None:
    objective = type("Own", (Objective,), {"loss": staticmethod(loss)})()
    with pytest.raises(InputError) as error:
        train(SPEC, tmp_path / "run", objective=objective)
    assert str(error.value).startswith("objective Own: ")
    assert sentence in str(error.value)
    assert not (tmp_path / "run").exists()


def test_forward_must_give_a_batch_loss(tmp_path: Path) -> None:
    class Own(Objective):
        def forward(self, network: Any, batch: Batch) -> Any:
            return network(batch.inputs).sum()

    with pytest.raises(InputError, match="forward returns Tensor; it should return a BatchLoss"):
        train(SPEC, tmp_path / "run", objective=Own())
    for wrong in (F.cross_entropy, nn.CrossEntropyLoss(), Smoothed):
        with pytest.raises(InputError, match="pass an instance of a subclass of"):
            train(SPEC, tmp_path / "run", objective=wrong)
    assert not (tmp_path / "run").exists()


def test_forward_alone_is_enough(tmp_path: Path) -> None:
    class Doubled(Objective):
        def forward(self, network: Any, batch: Batch) -> BatchLoss:
            outputs, loss, _ = super().forward(network, batch)
            return BatchLoss(outputs, loss, 2 * loss)

    run = train(SPEC, tmp_path / "run", objective=Doubled())
    assert run.read_history()[-1].validation_loss == pytest.approx(evaluate(run, "validation").loss, rel=1e-5)


class Kept(Objective):
    """Looks at the trained network, at a teacher, and at random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Dropout(0.5)).requires_grad_(False).eval()
        self.shift = nn.Parameter(torch.zeros(()))
        self.seen: list[bool] = []

    def prepare(self, network: Any, data: Any) -> None:
        self.network = [network]

    def forward(self, network: Any, batch: Batch) -> BatchLoss:
        outputs = network(batch.inputs)
        loss = self.loss(outputs, batch.targets)
        self.seen += [self.teacher[2].training, network is self.network[0]]
        noise = torch.rand(()) + self.shift
        return BatchLoss(outputs, loss, loss + 1e-3 * noise * F.mse_loss(outputs, self.teacher(batch.inputs)))


def test_a_teacher_keeps_its_mode_and_random_numbers_repeat(tmp_path: Path) -> None:
    histories = []
    for name in ("one", "two"):
        torch.manual_seed(0)
        objective = Kept()
        torch.manual_seed(5 if name == "one" else 6)
        run = train(SPEC, tmp_path / name, objective=objective)
        assert objective.seen[:2] == [False, False]  # tried on a copy of the network
        assert objective.seen[2:4] == [False, True]
        assert not any(objective.seen[2::2])
        histories.append((run.path / "history.jsonl").read_bytes())
        learned, _ = run.checkpoints.load("objective")
        assert torch.equal(learned["shift"], objective.shift)
    assert histories[0] == histories[1]


def test_rewinding_to_the_beginning_restores_the_objective(tmp_path: Path) -> None:
    class Failing(Scaled):
        starts: list[float]
        left = 10

        def forward(self, network: Any, batch: Batch) -> BatchLoss:
            if batch.progress == 0:
                self.starts.append(self.temperature.item())
            self.left -= 1
            found = super().forward(network, batch)
            return found if self.left else BatchLoss(found.outputs, found.loss * torch.nan, found.minimised)

    objective = Failing()
    objective.starts = []
    spec = RunSpec(network=SPEC.network, training=TrainingSpec(epochs=1, threads=1, on_divergence="rewind"))
    run = train(spec, tmp_path / "run", objective=objective)
    assert any("back to the beginning" in event for event in run.read_events())
    assert objective.starts == [1.0, 1.0, 1.0]  # tried, begun, begun again


def test_trying_an_objective_leaves_batch_norm_alone(tmp_path: Path) -> None:
    spec = RunSpec(network=NetworkSpec(name="resnet-20"), training=TrainingSpec(epochs=1, threads=1))
    images = np.random.default_rng(0).random((24, 3, 8, 8), np.float32)
    data = (images, np.arange(24) % 2)
    one = train(spec, tmp_path / "one", data=data)
    two = train(spec, tmp_path / "two", data=data, objective=Mirror())
    assert isinstance(two, RunDirectory)
    assert (one.path / "checkpoints/final.safetensors").read_bytes() == (two.path / "checkpoints/final.safetensors").read_bytes()


def test_a_batch_in_which_no_sample_counts_changes_nothing() -> None:
    outputs = torch.randn(3, 2, requires_grad=True)
    found = Classification(class_weight=torch.tensor([0.0, 1.0]))(lambda x: x, Batch(outputs, torch.zeros(3, dtype=torch.int64)))
    found.minimised.backward()
    assert found.minimised.item() == 0
    assert outputs.grad is not None
    assert not outputs.grad.any()
