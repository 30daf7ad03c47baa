"""Closing random layers while training."""

from pathlib import Path

import pytest
import torch

from highwaynet import NetworkSpec, RunSpec, TrainingSpec, build_network
from highwaynet.base.errors import InputError
from highwaynet.layers.lesion import closable_modules
from highwaynet.runs.spec import spec_from_values
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.layer_drop import LayerDrop
from highwaynet.training.loop import train
from highwaynet.training.watcher import Watcher


def spec_with(network: dict[str, object] | None = None, **training: object) -> RunSpec:
    settings = {"epochs": 2, "batch_size": 200, "learning_rate": 0.05, "threads": 1, "layer_drop": 0.5} | training
    return spec_from_values({"network": network or {"depth": 9, "width": 10}, "seed": 5, "training": settings})


def test_layers_are_drawn_as_often_as_asked() -> None:
    network = build_network(NetworkSpec(depth=6, width=4), (4,), 2)
    drop = LayerDrop(network, TrainingSpec(layer_drop=0.6), 1)
    counts = torch.zeros(5)
    for step in range(4000):
        for number in drop.drawn(step):
            counts[number - 1] += 1
    torch.testing.assert_close(counts / 4000, 0.6 * torch.arange(1, 6) / 5, atol=0.03, rtol=0)
    constant = LayerDrop(network, TrainingSpec(layer_drop=0.6, layer_drop_shape="constant"), 1)
    assert constant.probabilities.tolist() == [0.6] * 5
    assert drop.drawn(7) == LayerDrop(network, TrainingSpec(layer_drop=0.6), 1).drawn(7)


class _Look(Watcher):
    """Stops a run after a number of steps."""

    def __init__(self, stop: Interruption, after: int) -> None:
        self.stop, self.left = stop, after

    def step(self, samples: int) -> None:
        self.left -= 1
        if self.left == 0:
            self.stop.requested = 130


@pytest.mark.parametrize(
    "network",
    [
        None,
        {"name": "fc-residual", "depth": 6, "width": 8},
        {"name": "fc-lstm", "depth": 6, "width": 8},
        {"name": "mnist-highway-16"},
        {"name": "resnet-20"},
    ],
)
def test_runs_resume_exactly_and_end_with_all_layers_open(network: dict[str, object] | None, tmp_path: Path) -> None:
    spec = spec_with(network, batch_size=700, learning_rate=0.01)
    calm, stop = train(spec, tmp_path / "calm"), Interruption()
    with pytest.raises(InterruptedRunError):
        train(spec, tmp_path / "shaken", watcher=_Look(stop, 2), interruption=stop)
    assert train(spec, tmp_path / "shaken", resume=True).read_history() == calm.read_history()
    plain = train(spec_with(network, batch_size=700, learning_rate=0.01, layer_drop=0.0), tmp_path / "plain")
    assert plain.read_history() != calm.read_history()


def test_layers_are_closed_during_the_step_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from highwaynet.training.fitting import Fitting

    seen: list[tuple[list[int], list[int], bool]] = []
    forward = Fitting.forward

    def look(self: Fitting, *batch: torch.Tensor) -> object:
        (module,) = closable_modules(self.network)
        seen.append((sorted(module.closed_layers), self.layer_drop.drawn(self.state.step), self.network.training))
        return forward(self, *batch)

    monkeypatch.setattr(Fitting, "forward", look)
    train(spec_with(), tmp_path / "run")
    assert len(seen) == 14
    assert all(closed == drawn and training for closed, drawn, training in seen)
    assert any(closed for closed, _, _ in seen)


@pytest.mark.parametrize(
    ("network", "training", "sentence"),
    [
        ({"name": "fc-plain", "depth": 4}, {}, r"training.layer_drop = 0.5: fc-plain has no highway or residual layers; omit it"),
        (None, {"compile": True}, r"training.layer_drop = 0.5: compiled networks cannot change at every step"),
        (None, {"layer_drop": 1.0}, r"training.layer_drop = 1.0"),
    ],
)
def test_what_makes_no_sense_is_refused(
    network: dict[str, object] | None, training: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=sentence):
        train(spec_with(network, **training), tmp_path / "run")
    assert not (tmp_path / "run").exists()
