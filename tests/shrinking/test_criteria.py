"""Rankings of layers, against formulas and against closing layers one by one."""

import copy
import math

import pytest
import torch
from torch import Tensor

from highwaynet import DataSpec, NetworkSpec, build_network, load_dataset
from highwaynet.base.errors import InputError
from highwaynet.data.dataset import Split
from highwaynet.layers.lesion import lesion
from highwaynet.networks.network import Network
from highwaynet.shrinking.criteria import Ranking, rank, removable_layers
from highwaynet.shrinking.names import CRITERIA
from highwaynet.shrinking.states import measure_states
from highwaynet.training.evaluation import evaluate


@pytest.fixture(scope="module")
def digits() -> Split:
    return load_dataset(DataSpec()).train.spread(120)


def network_of(name: str = "fc-highway", **settings: object) -> Network:
    spec = NetworkSpec(name=name, **({"depth": 7, "width": 10, "gate_bias": -1.0} if name == "fc-highway" else {}) | settings)
    return build_network(spec, (1, 8, 8), 10, generator=torch.Generator().manual_seed(4)).eval()


def states_of(network: Network, x: Tensor) -> list[Tensor]:
    """Input of the first highway layer, and the output of each."""
    found = [network.entry(x.flatten(1))]
    for number in range(network.stack.num_layers):
        one = copy.deepcopy(network.stack).without([other + 1 for other in range(network.stack.num_layers) if other != number])
        found.append(one(found[-1]))
    return found


def test_directions_and_gates_by_hand(digits: Split) -> None:
    network = network_of()
    measured = measure_states(network, digits, 50)
    inputs = torch.cat([x for x, _ in digits.batches(500)])
    with torch.no_grad():
        states = states_of(network, inputs)
        _, gates = network(inputs, return_gates=True)
    for place in range(6):
        cosine = torch.nn.functional.cosine_similarity(states[place].double(), states[place + 1].double())
        assert measured.influence[place] == pytest.approx((1 - cosine).mean().item(), abs=1e-6)
        assert measured.opening[place] == pytest.approx(gates[place].mean().item(), abs=1e-6)
        for end in range(place + 1, 7):
            angle = torch.nn.functional.cosine_similarity(states[place].double(), states[end].double()).clamp(-1, 1).arccos() / math.pi
            assert measured.angles[place, end].item() == pytest.approx(angle.mean().item(), abs=1e-5)
    assert measured.rows == ((1, 2, 3, 4, 5, 6),)


def test_taylor_is_the_first_order_of_closing_a_layer(digits: Split) -> None:
    network = network_of(gate_bias=-6.0)  # layers that change little
    one = digits.head(1)
    measured = measure_states(network, one, 1, gradients=True)
    intact = evaluate(network, one).loss
    for number in range(1, 7):
        with lesion(network, [number]):
            change = evaluate(network, one).loss - intact
        assert measured.taylor[number - 1] == pytest.approx(abs(change), rel=0.1)


def test_greedy_removes_the_cheapest_again_and_again(digits: Split) -> None:
    network = network_of()
    order, left = [], set(range(1, 7))
    while left:
        losses = {}
        for number in left:
            with lesion(network, [*order, number]):
                losses[number] = evaluate(network, digits).loss
        order.append(min(losses, key=losses.__getitem__))
        left.remove(order[-1])
    assert rank("greedy", network, digits) == Ranking.of("greedy", order)


def test_lesions_rank_by_the_loss_without_each(digits: Split) -> None:
    network = network_of()
    losses = {}
    for number in range(1, 7):
        with lesion(network, [number]):
            losses[number] = evaluate(network, digits).loss
    assert rank("lesion", network, digits) == Ranking.of("lesion", sorted(losses, key=losses.__getitem__))


def test_angular_takes_the_span_that_turns_least(digits: Split) -> None:
    network = network_of()
    angles = measure_states(network, digits, 50).angles
    removed = rank("angular", network, digits).removed
    assert [len(layers) for layers in removed] == list(range(7))
    for count in range(1, 7):
        starts = {first: angles[first - 1, first + count - 1].item() for first in range(1, 8 - count)}
        first = min(starts, key=starts.__getitem__)
        assert removed[count] == tuple(range(first, first + count))


def test_angular_takes_several_spans_if_other_modules_stand_between(digits: Split) -> None:
    network = network_of("mnist-highway-16")
    removed = rank("angular", network, digits).removed
    assert [len(layers) for layers in removed] == list(range(9))
    assert removed[8] == tuple(range(1, 9))
    assert all(len(set(layers)) == len(layers) for layers in removed)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("name", ["fc-highway", "highway-a", "mnist-highway-16", "fc-residual", "fc-lstm", "resnet-20"])
def test_every_criterion_ranks_every_removable_layer(criterion: str, name: str, digits: Split) -> None:
    network = network_of(name, **({"depth": 5, "width": 8, "gate_bias": None} if name == "fc-residual" else {}))
    if name in {"highway-a", "resnet-20"}:
        data = load_dataset(DataSpec())
        network = build_network(network_spec(name), data.preparation.record.input_shape, 10).eval()
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    layers = removable_layers(network.plan)
    if criterion == "gates" and name in {"fc-residual", "resnet-20"}:
        with pytest.raises(InputError, match="criterion = 'gates': the network has residual layers, which have no gates"):
            rank(criterion, network, digits.head(20))
        return
    ranking = rank(criterion, network, digits.head(20))  # type: ignore[arg-type]
    assert [len(removed) for removed in ranking.removed] == list(range(len(layers) + 1))
    assert ranking.removed[-1] == tuple(layers)
    assert all(torch.equal(tensor, before[key]) for key, tensor in network.state_dict().items())
    shorter = network.without(ranking.removed[2])
    assert shorter.plan.removable == network.plan.removable - 2


def network_spec(name: str) -> NetworkSpec:
    return NetworkSpec(name=name)


def test_blocks_that_change_the_shape_are_not_ranked() -> None:
    network = build_network(NetworkSpec(name="resnet-20"), (3, 32, 32), 10)
    assert removable_layers(network.plan) == [1, 2, 3, 5, 6, 8, 9]


@pytest.mark.parametrize("name", ["mnist-plain-16", "nin"])
def test_a_network_without_such_layers_is_refused(name: str, digits: Split) -> None:
    with pytest.raises(InputError, match=f"{name} has no layer that can be removed"):
        rank("lesion", build_network(NetworkSpec(name=name), (1, 32, 32), 10), digits)
    with pytest.raises(InputError, match="fc-plain has plain layers"):
        rank("lesion", network_of("fc-plain"), digits)


def test_random_orders_follow_the_seed(digits: Split) -> None:
    network = network_of()
    assert rank("random", network, digits, seed=1) == rank("random", network, digits, seed=1)
    orders = {rank("random", network, digits, seed=seed).removed for seed in range(5)}
    assert len(orders) > 1
