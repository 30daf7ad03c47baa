"""Plans: stored as JSON and back, built into the same network, with layers removed as the modules are."""

import json

import pytest
import torch

from highwaynet import InputError, NetworkSpec, Plan, build_network, build_plan
from highwaynet.base.specs import parsed
from highwaynet.layers.lesion import count_layers
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.description import describe, describe_plan, title_of
from highwaynet.networks.presets import PRESETS

SMALL = [
    NetworkSpec(depth=7, width=5),
    NetworkSpec(depth=7, width=5, carry="independent", dropout=(0.1, 0.2), init="normal", init_std=0.3),
    NetworkSpec(name="fc-plain", depth=5, width=4),
    NetworkSpec(name="fc-residual", depth=5, width=4, dropout=(0.0, 0.2)),
    NetworkSpec(name="fc-lstm", depth=6, width=4, gate_bias=-2.0),
    NetworkSpec(depth=4, width=5, members=3, dropout=(0.1, 0.2)),
    NetworkSpec(name="fc-residual", depth=4, width=5, members=2),
    NetworkSpec(name="fc-lstm", depth=4, width=5, members=2),
]
IMAGES = [NetworkSpec(name=name, variant=variant) for name, preset in PRESETS.items() if preset.layers for variant in preset.origins]


def shape_of(spec: NetworkSpec) -> tuple[int, ...]:
    return spec.preset.made_for if spec.preset.layers else (1, 3, 2)


@pytest.mark.parametrize("spec", SMALL + IMAGES, ids=lambda spec: spec.label)
def test_a_plan_survives_json_and_builds_the_same_network(spec: NetworkSpec) -> None:
    network = build_network(spec, shape_of(spec), 10, generator=torch.Generator().manual_seed(0))
    plan = parsed(Plan, network.plan.model_dump_json(), "plan")
    assert plan == network.plan == plan_of(spec, shape_of(spec), 10)
    assert plan.outputs == 10
    again = build_plan(plan, generator=torch.Generator().manual_seed(0))
    assert str(again) == str(network)
    for (name, one), (other, two) in zip(network.state_dict().items(), again.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(one, two)


@pytest.mark.parametrize(
    ("spec", "removed"),
    [
        (SMALL[0], [2, 4]),
        (SMALL[1], [1, 6]),
        (SMALL[2], [1, 2, 3, 4]),
        (SMALL[3], [3]),
        (SMALL[4], [1, 4]),
        (SMALL[5], [2]),
        (SMALL[6], [1, 3]),
        (SMALL[7], [1, 3]),
        (NetworkSpec(name="highway-a"), [1, 6]),
        (NetworkSpec(name="mnist-highway-16"), [3]),
        (NetworkSpec(name="resnet-20"), [1, 2, 9]),
        (NetworkSpec(name="resnet-20", variant="2016"), [3]),
    ],
    ids=str,
)
def test_a_plan_without_layers_is_that_of_the_network_without_them(spec: NetworkSpec, removed: list[int]) -> None:
    shape = shape_of(spec)
    network = build_network(spec, shape, 10, generator=torch.Generator().manual_seed(0)).eval()
    shorter = network.without(removed)
    assert shorter.plan == network.plan.without(removed)
    assert shorter.plan.removable == network.plan.removable - len(removed)
    rebuilt = build_plan(shorter.plan).eval()
    rebuilt.load_state_dict(shorter.state_dict())
    x = torch.rand(3, *shape)
    assert torch.equal(rebuilt(x), shorter(x))
    assert describe_plan(shorter.plan).parameters == sum(parameter.numel() for parameter in shorter.parameters())
    assert count_layers(network) in {network.plan.removable, 0}  # plain stacks can be shortened, and not closed


def test_layers_that_cannot_be_removed() -> None:
    network = build_network(NetworkSpec(name="resnet-20"), (3, 32, 32), 10)
    with pytest.raises(ValueError, match=r"layers = \[4\]: this layer changes the shape of its maps"):
        network.without([4])
    with pytest.raises(ValueError, match=r"layers = \[0, 10\]: the network has 9 layers that can be removed, numbered from 1"):
        network.plan.without([0, 3, 10])


def test_titles_say_how_many_layers_are_left() -> None:
    dense, conv = NetworkSpec(depth=7, width=5), NetworkSpec(name="highway-a")
    plan = plan_of(dense, (4,), 2)
    assert title_of(dense, plan) == "7-layer highway"
    assert title_of(dense, plan.without([1, 2])) == "5-layer highway"
    assert title_of(conv, plan_of(conv, (3, 32, 32), 10).without([1])) == "highway-a (dense head), 10 of 11 layers"


def test_tables_come_from_plans() -> None:
    spec = NetworkSpec(name="highway-b")
    assert describe(spec, (3, 32, 32), 10) == describe_plan(plan_of(spec, (3, 32, 32), 10))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"parts": [{"part": "rocket"}]}, "is damaged"),
        ({"parts": [{"part": "dropout", "probability": 1.5}]}, "is damaged"),
        ({"parts": [{"part": "dense", "units": 2**40}]}, "is damaged"),
        ({"family": "recurrent"}, "is damaged"),
        ({"family": "convolutional"}, "a convolutional network cannot have a part 'dense-stack'"),
        ({"parts": []}, "a network needs exactly one part with head = true"),
        ({"parts": [{"part": "dense", "units": 2, "head": True}, {"part": "members", "count": 2}]}, "members are the first part"),
        ({"parts": [{"part": "members", "count": 1}, {"part": "dense", "units": 2, "head": True}]}, "is damaged"),
        ({"parts": [{"part": "conv", "channels": 3, "pieces": 2, "head": True}]}, "a maxout convolution has no stride"),
        ({"schema_version": 9}, "was written by a newer version of highwaynet (schema_version = 9, this one reads 1)"),
    ],
)
def test_damaged_plans_are_refused(change: dict[str, object], sentence: str) -> None:
    values = json.loads(plan_of(NetworkSpec(depth=3, width=4), (4,), 2).model_dump_json())
    with pytest.raises(InputError) as error:
        parsed(Plan, json.dumps(values | change), "plan.json")
    assert str(error.value).startswith("plan.json ")
    assert sentence in str(error.value)


def test_impossible_networks_are_refused_before_they_are_built() -> None:
    plan = plan_of(NetworkSpec(depth=1, width=40_000), (60_000,), 2)
    with pytest.raises(InputError, match="fc-highway would have"):
        build_plan(plan)
    parts = plan_of(NetworkSpec(depth=3, width=4), (4,), 2).parts
    with pytest.raises(InputError, match="is not a dense network's: it needs"):
        build_plan(plan.model_copy(update={"parts": parts[:1] + parts[2:]}))
