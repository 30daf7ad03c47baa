"""Affine maps in place of removed layers: they are the least-squares maps, and merging them changes nothing."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from highwaynet import DataSpec, NetworkSpec, Plan, RunSpec, TrainingSpec, build_network, build_plan, load, load_dataset, train
from highwaynet.base.specs import parsed
from highwaynet.data.dataset import Split
from highwaynet.layers.lesion import count_layers, lesion
from highwaynet.networks.description import describe_plan
from highwaynet.networks.layerwise import layerwise
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Affine
from highwaynet.shrinking.replacement import replace_spans


@pytest.fixture(scope="module")
def split() -> Split:
    return load_dataset(DataSpec()).train


def network(name: str = "fc-highway", seed: int = 1, **settings: object) -> Network:
    settings = {"depth": 9, "width": 16} | settings if name.startswith("fc") else settings
    made = build_network(NetworkSpec(name=name, **settings), (1, 8, 8), 10, generator=torch.Generator().manual_seed(seed)).eval()
    with torch.no_grad():
        for parameter in made.parameters():  # so that nothing is zero
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7)), alpha=0.05)
    return made


def states(one: Network, split: Split, number: int) -> torch.Tensor:
    """The output of the closable layer with this number; with 0 the input of the first one."""
    x, count = next(iter(split.batches(len(split))))[0], 0
    with torch.no_grad():
        for piece in layerwise(one):
            if hasattr(piece.module, "closed_layers"):
                if count == number:
                    return x
                count += 1
            elif count and count == number:
                return x
            x = piece.module(x)
    return x


@pytest.mark.parametrize("name", ["fc-highway", "fc-residual"])
def test_the_map_is_numpys_least_squares_map(name: str, split: Split) -> None:
    intact = network(name)
    samples = split.spread(1200)
    made = replace_spans(intact, [3, 4, 5], samples)
    affine = next(module for module in made.network.modules() if isinstance(module, nn.Linear) and module is not made.network.head)
    x, y = (states(intact, samples, number).double().numpy() for number in (2, 5))
    best, *_ = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)
    error = np.square(np.c_[x, np.ones(len(x))] @ best - y).sum()
    mine = np.square(affine(torch.tensor(x).float()).detach().double().numpy() - y).sum()
    dropped = np.square(y - x).sum()
    assert error <= mine < 1.1 * error + 0.01 * dropped, "fitted on three quarters of the samples"
    (span,) = made.spans
    assert (span.first, span.last, span.merged) == (3, 5, False)
    assert span.explained == pytest.approx(1 - mine / dropped, abs=0.1)
    assert made.network.plan.removable == 5
    assert Affine() in made.network.plan.parts


def test_the_network_computes_the_map(split: Split) -> None:
    """Replacement equals the affine map to 1e-5."""
    intact = network(depth=9)
    made = replace_spans(intact, [3, 4, 5], split.spread(800)).network
    affine = next(part for part in made.stack if isinstance(part, nn.Linear))
    x = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        pieces = [piece.module for piece in layerwise(intact)]
        first = next(place for place, piece in enumerate(pieces) if hasattr(piece, "closed_layers"))
        y = x
        for piece in pieces[: first + 2]:
            y = piece(y)
        y = y @ affine.weight.T + affine.bias
        for piece in pieces[first + 5 :]:
            y = piece(y)
        assert torch.allclose(made(x), y, atol=1e-5)


def test_a_map_before_the_head_is_merged_into_it(split: Split) -> None:
    intact = network()
    made = replace_spans(intact, range(4, 9), split.spread(800))
    assert made.spans[0].merged
    assert made.network.plan == intact.plan.without(range(4, 9)), "nothing is added"
    assert sum(value.numel() for value in made.network.parameters()) == sum(
        value.numel() for value in intact.without(range(4, 9)).parameters()
    )
    x, y = (states(intact, split.spread(800), number) for number in (3, 8))
    with torch.no_grad():
        wanted, mine, dropped = intact.head(y), made.network.head(x), intact.head(x)
    assert (mine - wanted).square().sum() < 0.5 * (dropped - wanted).square().sum()


@pytest.mark.parametrize(
    ("intact", "removed"),
    [
        (network(), [2, 6, 7, 8]),  # into the head
        (network(carry="independent"), [8]),
        (network("highway-a", head="gap"), [1, 5, 6]),  # into a 1×1 convolution
        (network("highway-a", head="dense"), [6]),  # past a mean over pixels, into a dense layer
    ],
    ids=lambda value: value.plan.name if isinstance(value, Network) else None,
)
def test_merging_is_exact(intact: Network, removed: list[int], split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    merged = replace_spans(intact, removed, split.spread(64))
    monkeypatch.setattr("highwaynet.shrinking.replacement._merge", lambda items: None)
    apart = replace_spans(intact, removed, split.spread(64))
    assert merged.spans[-1].merged
    assert not any(span.merged for span in (*merged.spans[:-1], *apart.spans))
    x = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        assert torch.allclose(merged.network(x), apart.network(x), atol=1e-5)


def test_maps_of_convolutional_networks(split: Split) -> None:
    intact = network("mnist-highway-16")
    made = replace_spans(intact, [1, 2, 4], split.spread(200))
    assert [(span.first, span.last) for span in made.spans] == [(1, 2), (4, 4)]
    assert count_layers(made.network) == 5
    assert describe_plan(made.network.plan).parameters == sum(value.numel() for value in made.network.parameters())
    x = torch.rand(50, 1, 8, 8, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        wanted, mine, dropped = intact(x), made.network(x), intact.without([1, 2, 4])(x)
    assert (mine - wanted).square().sum() < (dropped - wanted).square().sum()


def test_such_a_network_is_one_like_any_other(split: Split) -> None:
    made = replace_spans(network(), [2, 5, 6], split.spread(400)).network
    again = build_plan(parsed(Plan, made.plan.model_dump_json(), "plan"))
    again.load_state_dict(made.state_dict())
    x = torch.rand(6, 1, 8, 8)
    assert torch.equal(again.eval()(x), made(x))
    outputs, gates = made(x, return_gates=True)
    assert gates.shape == (5, 6, 16)
    assert torch.allclose(outputs, made(x), atol=1e-6)
    with lesion(made, [3]):
        closed = made(x)
    assert torch.equal(made.without([3])(x), closed)
    loss = made(x, targets=torch.zeros(6, dtype=torch.int64))[1]
    assert torch.allclose(loss, nn.functional.cross_entropy(made(x), torch.zeros(6, dtype=torch.int64)))
    twice = replace_spans(made, [2], split.spread(400)).network
    assert twice.plan.removable == 4


def test_it_can_be_saved_trained_and_loaded(tmp_path: Path) -> None:
    run = train(RunSpec(network=NetworkSpec(depth=6, width=12), training=TrainingSpec(epochs=2, threads=1)), tmp_path / "run")
    model = load(run.path)
    made = replace_spans(model.network, [2, 3], load_dataset(DataSpec()).train.spread(400)).network
    dataclasses.replace(model, network=made).save(tmp_path / "cut")
    inputs = np.random.default_rng(0).uniform(0, 16, (7, 8, 8)).astype(np.float32)
    expected = dataclasses.replace(model, network=made).predict_proba(inputs)
    assert np.array_equal(load(tmp_path / "cut").predict_proba(inputs), expected)
    child = train(RunSpec.from_run(tmp_path / "cut", training={"epochs": 1}), tmp_path / "child")
    assert load(child.path).network.plan == made.plan


def test_layers_that_do_not_exist(split: Split) -> None:
    with pytest.raises(ValueError, match=r"layers = \[9\]"):
        replace_spans(network(), [9], split)
