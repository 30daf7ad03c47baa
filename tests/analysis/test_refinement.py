"""How layers refine an estimate, against values by hand."""

import math

import numpy as np
import pytest
import torch

from highwaynet import NetworkSpec, build_network
from highwaynet.analysis import watching
from highwaynet.analysis.analysis_records import Origin, RefinementRecord
from highwaynet.analysis.refinement import analyse_refinement
from highwaynet.data.dataset import Split
from highwaynet.layers.observation import observe
from highwaynet.networks.network import Network


def built(shape: tuple[int, ...], **values: object) -> Network:
    return build_network(NetworkSpec(**values), shape, 2, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def by_hand() -> Network:
    """Two units: x, then x + x, then 2x + 1."""
    network = built((2,), name="fc-residual", depth=3, width=2, activation="identity")
    with torch.no_grad():
        network.entry.weight[0] = network.stack.weight[0] = torch.eye(2)
        network.stack.weight[1] = 0
        network.stack.bias[1] = 1
    return network


def test_values_by_hand(by_hand: Network, split: Split, origin: Origin) -> None:
    record = analyse_refinement(by_hand, split, origin=origin)
    # The last output is 1 or 3, from which the first is away by −1 or −2 and the second by −1.
    assert record.bias == pytest.approx([-1.5, -1, 0])
    assert record.spread == pytest.approx([0.5, 0, 0])
    assert record.error == pytest.approx([math.sqrt(2.5 / 5), math.sqrt(1 / 5), 0])
    assert (record.stages, record.stage, record.samples, record.part) == (("2 units",), (0, 0, 0), 2, "train")
    assert RefinementRecord.model_validate_json(record.model_dump_json()) == record


def test_an_error_needs_an_output(by_hand: Network, split: Split, origin: Origin) -> None:
    with torch.no_grad():
        for parameter in by_hand.parameters():
            parameter.zero_()
    record = analyse_refinement(by_hand, split, origin=origin)
    assert np.isnan(record.error).all()
    assert record.bias.tolist() == record.spread.tolist() == [0, 0, 0]


@pytest.mark.parametrize("head", ["dense", "gap"])
def test_stages_of_maps(images: Split, origin: Origin, head: str) -> None:
    network = built((1, 4, 4), name="highway-a", head=head).eval()
    record = analyse_refinement(network, images, origin=origin)
    assert record.stages == ("16 maps of 4×4", "32 maps of 2×2", "64 maps of 1×1")
    assert record.stage == (0, 0, 0, 1, 1, 1, 2, 2, 2), "without the layers behind the last highway layer"
    with observe(network, ["output"]) as seen:
        network(images.inputs)
    outputs = [layer["output"].values.double() for layer in seen.layers]
    for place in range(9):
        last = outputs[3 * (place // 3) + 2]
        difference = outputs[place] - last
        assert record.bias[place] == pytest.approx(difference.mean().item(), rel=1e-5)
        assert record.spread[place] == pytest.approx(difference.std(correction=0).item(), rel=1e-5)
        assert record.error[place] == pytest.approx((difference.norm() / last.norm()).item(), rel=1e-5)


@pytest.mark.parametrize("name", ["plain-a", "resnet-20"])
def test_stages_of_other_networks(images: Split, origin: Origin, name: str) -> None:
    network = built((1, 4, 4), name=name, **({"deep_supervision": True} if name == "plain-a" else {}))
    record = analyse_refinement(network, images, origin=origin)
    assert [record.stage.count(number) for number in range(len(record.stages))] == ([3, 3, 3] if name == "plain-a" else [4, 3, 3])


def test_the_result_does_not_depend_on_the_batch_size(images: Split, origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    networks = built((1, 4, 4), name="highway-a"), built((16,), depth=20, width=10)
    for network in networks:
        records = []
        for size in (4, 6):
            monkeypatch.setattr(watching, "BATCH", size)
            records.append(analyse_refinement(network, images, origin=origin))
        for field in ("bias", "spread", "error"):
            np.testing.assert_allclose(*(getattr(record, field) for record in records), rtol=1e-6, atol=1e-7)


def test_the_network_stays_as_it_is(by_hand: Network, split: Split, origin: Origin) -> None:
    inputs, _ = next(split.batches(2))
    before = by_hand.train()(inputs)
    before.sum().backward()
    gradients = [parameter.grad.clone() for parameter in by_hand.parameters()]
    told: list[tuple[int, int]] = []
    analyse_refinement(by_hand, split, origin=origin, progress=lambda *numbers: told.append(numbers))
    assert told == [(2, 2)]

    def fails(done: int, count: int) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        analyse_refinement(by_hand, split, origin=origin, progress=fails)
    assert by_hand.training
    assert torch.equal(by_hand(inputs), before)
    assert all(torch.equal(parameter.grad, gradient) for parameter, gradient in zip(by_hand.parameters(), gradients, strict=True))
    assert by_hand.entry.observer is None
    assert by_hand.stack.observer is None


def test_a_single_layer_refines_nothing(split: Split, origin: Origin) -> None:
    with pytest.raises(ValueError, match="no two consecutive layers"):
        analyse_refinement(built((2,), depth=1, width=2), split, origin=origin)
    with pytest.raises(ValueError, match="there are no samples"):
        analyse_refinement(built((2,), depth=3, width=2), split.head(0), origin=origin)
