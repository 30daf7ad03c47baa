"""Gates and routes on networks small enough to compute by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from highwaynet import ConvHighway, DenseHighway, Highway, NetworkSpec, build_network
from highwaynet.analysis import watching
from highwaynet.analysis.analysis_records import Origin
from highwaynet.analysis.gates import analyse_gates
from highwaynet.analysis.routing import analyse_routing, static_twin
from highwaynet.data.dataset import Split
from highwaynet.networks.dense import DenseNetwork


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def first(x: float) -> float:
    """Layer 1 of the small network."""
    return x + sigmoid(x)  # (x + 1)·T + x·(1 − T)


def loss(outputs: list[tuple[float, float]]) -> float:
    """The mean cross-entropy of both samples, from their logits."""
    (a0, a1), (b0, b1) = outputs
    return (math.log(1 + math.exp(a1 - a0)) + math.log(1 + math.exp(b0 - b1))) / 2


def test_gates_by_hand(two_by_two: DenseNetwork, split: Split, origin: Origin) -> None:
    record = analyse_gates(two_by_two, split, origin=origin, sample=1)
    half, more = sigmoid(0), sigmoid(1)
    assert record.mean == pytest.approx(np.array([[(half + more) / 2] * 2, [0.5, 0.25]]), rel=1e-6)
    assert record.bias == pytest.approx(np.array([[0, 0], [0, math.log(1 / 3)]]), rel=1e-6)
    assert record.sample_gates == pytest.approx(np.array([[more, half], [0.5, 0.25]]), rel=1e-6)  # sample (1, 0)
    assert record.sample_outputs == pytest.approx(np.array([[first(1), first(0)], [0.5 * first(1), 0.75 * first(0)]]), rel=1e-6)
    assert record.open_share.tolist() == [0.5, 0.0], "of the four gates of layer 1, those of x = 1 are above 1/2"
    assert record.closed_share.tolist() == [0.0, 0.0]
    assert record.start_bias.tolist() == [-1.0, -1.0]
    assert record.fell == 0.25, "of 0, 0, 0 and log(1/3) the last is below −1"
    assert (record.samples, record.sample, record.part) == (2, 1, "train")
    with torch.no_grad():
        two_by_two.stack.bias[1, 3] = -5.0
    assert analyse_gates(two_by_two, split, origin=origin).closed_share.tolist() == [0.0, 0.5]


def test_gates_of_maps_are_averaged_over_their_pixels(images: Split, origin: Origin) -> None:
    network = build_network(NetworkSpec(name="highway-a"), (1, 4, 4), 2, generator=torch.Generator().manual_seed(0)).eval()
    gates = analyse_gates(network, images, origin=origin)
    widths = [16, 16, 32, 32, 64, 64]
    assert [int(np.isfinite(row).sum()) for row in gates.mean] == widths
    assert [int(np.isfinite(row).sum()) for row in gates.sample_outputs] == widths
    assert gates.convolutional
    wanted = network(images.inputs, return_gates=True)[1]
    for row, gate in zip(gates.mean, wanted, strict=True):
        assert row[: gate.shape[1]] == pytest.approx(gate.detach().mean(dim=(0, 2, 3)).numpy(), rel=1e-5)


def test_routing_by_hand(two_by_two: DenseNetwork, split: Split, origin: Origin) -> None:
    record = analyse_routing(two_by_two, split, origin=origin)
    half, more = sigmoid(0), sigmoid(1)
    middle = (half + more) / 2
    assert record.class_names == ("a", "b")
    assert record.class_samples == (1, 1)
    assert record.mean == pytest.approx(np.array([[middle, middle], [0.5, 0.25]]), rel=1e-6)
    assert record.class_mean == pytest.approx(np.array([[[half, more], [0.5, 0.25]], [[more, half], [0.5, 0.25]]]), rel=1e-6)
    apart = math.sqrt(2 * (more - half) ** 2 / 4)  # two of four gates differ
    assert record.distance == pytest.approx(np.array([[0, apart], [apart, 0]]), rel=1e-5)
    assert record.input_share.tolist() == pytest.approx([1.0, 0.0], abs=1e-6), "layer 1 differs by sample alone, layer 2 by block alone"
    assert record.class_share.tolist() == pytest.approx([1.0, 0.0], abs=1e-6), "each class is one sample"
    layer2 = [(0.5 * first(0), 0.75 * first(1)), (0.5 * first(1), 0.75 * first(0))]
    assert record.intact.loss == pytest.approx(loss(layer2), rel=1e-6)
    held = [(0.5 * (0 + middle), 0.75 * (1 + middle)), (0.5 * (1 + middle), 0.75 * (0 + middle))]
    assert record.static.loss == pytest.approx(loss(held), rel=1e-5)


def test_static_twins_do_not_look_at_the_input(images: Split) -> None:
    network = build_network(NetworkSpec(name="highway-a"), (1, 4, 4), 2, generator=torch.Generator().manual_seed(0)).eval()
    means = [torch.full((width,), 0.3, dtype=torch.float64) for width in (16, 16, 32, 32, 64, 64)]
    gates = static_twin(network, means, means)(images.inputs, return_gates=True)[1]
    assert all(torch.allclose(gate, torch.full_like(gate, 0.3), atol=1e-6) for gate in gates)
    assert not torch.allclose(network(images.inputs, return_gates=True)[1][0], torch.tensor(0.3), atol=1e-6), "the network is untouched"


def test_routes_of_maps_and_of_a_class_without_samples(images: Split, origin: Origin) -> None:
    network = build_network(NetworkSpec(name="highway-a"), (1, 4, 4), 2, generator=torch.Generator().manual_seed(0)).eval()
    record = analyse_routing(network, images, origin=origin)
    assert record.class_samples == (3, 3)
    assert record.convolutional
    wanted = network(images.inputs, return_gates=True)[1][3].detach()
    assert record.class_mean[1, 3, :32] == pytest.approx(wanted[1::2].mean(dim=(0, 2, 3)).numpy(), rel=1e-5)
    one = analyse_routing(network, images.head(1), origin=origin)
    assert one.class_samples == (1, 0)
    assert np.isnan(one.class_mean[1]).all()
    assert np.isnan(one.distance[0, 1])
    assert one.model_validate_json(one.model_dump_json()) == one


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_records_do_not_depend_on_the_batch_size(images: Split, origin: Origin, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    network = build_network(NetworkSpec(name="highway-a"), (1, 4, 4), 2, generator=torch.Generator().manual_seed(0)).eval()
    outputs = network(images.inputs)
    whole = (analyse_gates(network, images, origin=origin), analyse_routing(network, images, origin=origin))
    monkeypatch.setattr(watching, "CONVOLUTIONAL_BATCH", batch)
    parts = (analyse_gates(network, images, origin=origin), analyse_routing(network, images, origin=origin))
    for one, other in zip(whole, parts, strict=True):
        for name, value in one:
            if isinstance(value, np.ndarray):
                np.testing.assert_allclose(getattr(other, name), value, rtol=1e-6, atol=1e-6)
            else:
                assert getattr(other, name) == value
    assert torch.equal(network(images.inputs), outputs), "the network is as before"


def test_what_cannot_be_asked(two_by_two: DenseNetwork, split: Split, origin: Origin) -> None:
    network = build_network(NetworkSpec(name="fc-plain", depth=3, width=2), (2,), 2)
    with pytest.raises(ValueError, match="no transform gates"):
        analyse_gates(network, split, origin=origin)
    with pytest.raises(ValueError, match="sample = 2: there are 2 samples"):
        analyse_gates(two_by_two, split, origin=origin, sample=2)


def test_identical_images_take_one_route(images: Split, origin: Origin) -> None:
    network = build_network(NetworkSpec(name="highway-a"), (1, 4, 4), 2, generator=torch.Generator().manual_seed(0)).eval()
    same = replace(images, rows=torch.zeros(6, dtype=torch.int64), targets=torch.zeros(6, dtype=torch.int64))
    record = analyse_routing(network, same, origin=origin)
    assert record.input_share.tolist() == pytest.approx([0.0] * 6, abs=1e-6), "pixels are not the input"
    assert record.static.loss == pytest.approx(record.intact.loss, rel=0.2)


def test_gates_of_maps_are_counted_pixel_by_pixel(images: Split, origin: Origin) -> None:
    network = build_network(NetworkSpec(name="highway-a"), (1, 4, 4), 2, generator=torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, ConvHighway):
                module.gate_weight.mul_(20)
    record = analyse_gates(network, images, origin=origin)
    gates = [gate.detach() for gate in network(images.inputs, return_gates=True)[1]]
    assert record.closed_share == pytest.approx([(gate < 0.1).double().mean().item() for gate in gates], rel=1e-5)
    assert record.open_share == pytest.approx([(gate > 0.5).double().mean().item() for gate in gates], rel=1e-5)
    per_sample = torch.cat([(gate < 0.1).double().mean(dim=(2, 3)) for gate in gates], dim=1).mean(dim=1)
    assert record.sparsity[[0, -1]] == pytest.approx([per_sample.min().item(), per_sample.max().item()], rel=1e-5)


def test_an_independent_carry_is_held_too(split: Split) -> None:
    network = build_network(NetworkSpec(depth=3, width=2, carry="independent"), (2,), 2).eval()
    half = [torch.full((2,), 0.5, dtype=torch.float64)] * 2
    _, t, c = static_twin(network, half, [0.25 + one for one in half])(torch.rand(4, 2), return_gates=True)
    assert torch.allclose(t, torch.tensor(0.5))
    assert torch.allclose(c, torch.tensor(0.75))


class Own(nn.Module):
    """A user's model: a stack on sequences, and a highway around a layer of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = DenseHighway(2, layers=2, gate_bias=-3.0)
        self.last = Highway(nn.Tanh(), gate=nn.Linear(2, 2), gate_bias=-1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(self.stack(x[:, None].expand(-1, 3, -1))).mean(dim=1)
        return y


def test_gates_of_anyones_network(split: Split, origin: Origin) -> None:
    model = Own()
    model.stack.eval()
    record = analyse_gates(model, split, origin=origin)
    assert record.start_bias.tolist() == [-3.0, -3.0, -1.0]
    assert record.bias.shape == record.mean.shape == record.sample_gates.shape == (3, 2)
    assert not record.convolutional
    assert (model.training, model.stack.training) == (True, False), "each module is in its own mode again"
    with pytest.raises(ValueError, match="only those of DenseHighway and ConvHighway layers"):
        analyse_routing(model, split, origin=origin)


def test_the_mode_comes_back_when_something_raises(two_by_two: DenseNetwork, split: Split, origin: Origin) -> None:
    def stop(done: int, total: int) -> None:
        raise ZeroDivisionError

    two_by_two.train()
    for analyse in (analyse_gates, analyse_routing):
        with pytest.raises(ZeroDivisionError):
            analyse(two_by_two, split, origin=origin, progress=stop)
        assert two_by_two.training
        assert two_by_two.stack.observer is None
