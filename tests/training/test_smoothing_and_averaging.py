"""Label smoothing and the average of weights, against torch and against formulas."""

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import DataSpec, RunSpec, evaluate, load
from highwaynet.base.errors import InputError
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.names import Kept
from highwaynet.runs.spec import spec_from_values
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.loop import train
from highwaynet.training.objective import Batch, Classification, Companions
from highwaynet.training.optimiser import ThinAverage
from highwaynet.training.watcher import Watcher

DENSE: dict[str, object] = {"depth": 4, "width": 12}


def spec_with(network: dict[str, object] = DENSE, **training: object) -> RunSpec:
    settings = {"epochs": 3, "batch_size": 400, "learning_rate": 0.05, "threads": 1, "recipe": None} | training
    return spec_from_values({"network": network, "seed": 3, "training": settings})


def weights(run: RunDirectory, checkpoint: Kept) -> dict[str, Tensor]:
    return dict(load(run.path, checkpoint).network.state_dict())


def test_smoothing_changes_what_is_minimised_and_not_the_loss() -> None:
    outputs, targets = torch.randn(6, 4, requires_grad=True), torch.tensor([0, 1, 2, 3, 0, 1])
    found = Classification(0.1)(lambda x: x, Batch(outputs, targets))
    spread = torch.full((6, 4), 0.1 / 4)
    spread[torch.arange(6), targets] += 0.9
    torch.testing.assert_close(found.minimised, -(spread * outputs.log_softmax(1)).sum(1).mean())
    torch.testing.assert_close(found.loss, F.cross_entropy(outputs, targets))


def test_companions_are_smoothed_too() -> None:
    outputs, companion, targets = torch.randn(5, 3), torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    found = Companions(Classification(0.2), 0.5)(lambda x, return_companions: (x, [companion]), Batch(outputs, targets, 0.25))
    smoothed = [F.cross_entropy(one, targets, label_smoothing=0.2) for one in (outputs, companion)]
    torch.testing.assert_close(found.minimised, smoothed[0] + 0.5 * 0.75 * smoothed[1])
    torch.testing.assert_close(found.loss, F.cross_entropy(outputs, targets))


def test_a_run_with_smoothing_is_less_sure(tmp_path: Path) -> None:
    runs = [train(spec_with(epochs=10, batch_size=32, learning_rate=0.2, label_smoothing=s), tmp_path / str(s)) for s in (0.0, 0.4)]
    losses = [evaluate(run.path, "train").loss for run in runs]
    assert losses[0] < 0.1, "sure of what is right"
    assert losses[1] > 0.3, "at 0.4 no class gets more than 0.64"
    assert runs[1].read_history()[-1].train_loss == pytest.approx(losses[1], rel=0.2), "the history has the loss without smoothing"


@pytest.mark.parametrize("network", [DENSE, {"name": "resnet-20"}], ids=["dense", "batch norm"])
def test_the_average_follows_its_formula(tmp_path: Path, network: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Tensor]] = []
    update = ThinAverage.update_parameters

    def remember(self: ThinAverage, model: nn.Module) -> None:
        seen.append({name: copy.deepcopy(tensor).double() for name, tensor in model.state_dict().items()})
        update(self, model)

    monkeypatch.setattr(ThinAverage, "update_parameters", remember)
    run = train(spec_with(network, epochs=1, weight_average=0.8), tmp_path / "run")
    assert len(seen) == 4, "once after every step"
    average = seen[0]
    for model in seen[1:]:
        average = {name: 0.8 * average[name] + 0.2 * tensor for name, tensor in model.items()}
    for name, tensor in weights(run, "average").items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor.double(), average[name], rtol=1e-5, atol=1e-6)
    for name, tensor in weights(run, "final").items():
        assert torch.equal(tensor.double(), seen[-1][name])


def test_the_average_is_validated_and_is_the_answer(tmp_path: Path) -> None:
    run = train(spec_with(weight_average=0.9), tmp_path / "run")
    last = run.read_history()[-1]
    found = {name: evaluate(run.path, "validation", checkpoint=name) for name in ("average", "final")}
    assert last.validation_loss == found["average"].loss
    assert found["average"].loss != found["final"].loss
    assert torch.equal(weights(run, "best")["head.weight"], weights(run, "average")["head.weight"]), "the last epoch was the best"
    assert run.answer == "best", "there are validation data"
    assert evaluate(run.path, "validation") == found["average"]
    plain = train(spec_with(), tmp_path / "plain")
    assert torch.equal(weights(run, "final")["head.weight"], weights(plain, "final")["head.weight"]), "training itself is the same"
    without = [spec.model_copy(update={"data": DataSpec(validation=0.0)}) for spec in (spec_with(weight_average=0.9), spec_with())]
    answers = [train(spec, tmp_path / str(number)).answer for number, spec in enumerate(without)]
    assert answers == ["average", "final"], "without validation data there is no best epoch"


@pytest.mark.parametrize("answer", ["final", "best", "average"])
def test_the_user_says_which_weights_are_the_answer(tmp_path: Path, answer: Kept) -> None:
    run = train(spec_with(weight_average=0.5, answer=answer), tmp_path / "run")
    assert run.answer == answer
    assert evaluate(run.path) == evaluate(run.path, checkpoint=answer)
    saved = load(run.path).save(tmp_path / "saved")
    assert evaluate(saved.path).accuracy == evaluate(run.path).accuracy


class _Stop(Watcher):
    def __init__(self, after: int, interruption: Interruption) -> None:
        self.left, self.interruption = after, interruption

    def step(self, samples: int) -> None:
        self.left -= 1
        if self.left == 0:
            self.interruption.requested = 130


@pytest.mark.parametrize("network", [DENSE, {"name": "resnet-20"}], ids=["dense", "batch norm"])
@pytest.mark.parametrize("steps", [1, 4, 6])
def test_resuming_is_exact(tmp_path: Path, steps: int, network: dict[str, object]) -> None:
    spec = spec_with(network, epochs=2, weight_average=0.7, label_smoothing=0.1, checkpoint="1 epoch")
    calm = train(spec, tmp_path / "calm")
    stop = Interruption()
    with pytest.raises(InterruptedRunError):
        train(spec, tmp_path / "shaken", watcher=_Stop(steps, stop), interruption=stop)
    shaken = train(spec, tmp_path / "shaken", resume=True)
    assert shaken.read_history() == calm.read_history()
    for name in ("final", "average", "best"):
        mine, theirs = weights(calm, name), weights(shaken, name)
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)


@pytest.mark.parametrize(
    ("training", "sentence"),
    [
        ({"answer": "average"}, "training.answer = 'average': needs training.weight_average"),
        ({"weight_average": 1.0}, "training.weight_average = 1.0"),
        ({"label_smoothing": 1.0}, "training.label_smoothing = 1.0"),
    ],
)
def test_settings_that_make_no_sense(training: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        spec_with(**training)


def test_what_does_not_fit_the_data(tmp_path: Path) -> None:
    numbers = (torch.rand(40, 3).numpy(), torch.rand(40).numpy())
    own = spec_from_values({"network": DENSE, "data": {"name": "memory"}, "training": {"epochs": 1, "label_smoothing": 0.1}})
    with pytest.raises(InputError, match=r"training.label_smoothing = 0.1: .* has numbers to predict, not classes"):
        train(own, tmp_path / "run", data=numbers)
    without = spec_from_values({"network": DENSE, "data": {"validation": 0.0}, "training": {"epochs": 1, "answer": "best"}})
    with pytest.raises(InputError, match=r"training.answer = 'best': there are no validation data"):
        train(without, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run = train(spec_with(epochs=1), tmp_path / "plain")
    with pytest.raises(InputError, match=r"has no checkpoint 'average': it was trained without training.weight_average"):
        load(run.path, "average")
