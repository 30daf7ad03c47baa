"""Specs and networks: the paper's parameter counts, what is filled in, what is refused."""

import math

import pytest
import torch
from pydantic import ValidationError

from highwaynet import DenseHighway, DensePlain, DenseResidual, DepthLSTM, NetworkSpec, build_network, lesion
from highwaynet.base.errors import InputError
from highwaynet.base.specs import validated
from highwaynet.networks.build import count_parameters

PAPER_COUNTS = {
    ("fc-highway", 10): 85_660,
    ("fc-highway", 20): 136_660,
    ("fc-highway", 50): 289_660,
    ("fc-highway", 100): 544_660,
    ("fc-plain", 10): 102_463,
    ("fc-plain", 20): 153_583,
    ("fc-plain", 50): 306_943,
    ("fc-plain", 100): 562_543,
    ("fc-lstm", 10): 785 * 35 + 9 * 4 * 36 * 35 + 360,  # ours: the paper has no numbers
    ("fc-lstm", 100): 785 * 35 + 99 * 4 * 36 * 35 + 360,
}


@pytest.mark.parametrize(("name", "depth"), PAPER_COUNTS)
def test_parameter_counts_of_the_paper(name: str, depth: int) -> None:
    network = build_network(NetworkSpec(name=name, depth=depth), (1, 28, 28), 10)
    assert count_parameters(network) == PAPER_COUNTS[name, depth]


@pytest.mark.parametrize("name", ["fc-highway", "fc-plain", "fc-residual", "fc-lstm"])
@pytest.mark.parametrize("depth", [1, 2, 12])
def test_depth_counts_the_first_layer_and_not_the_head(name: str, depth: int) -> None:
    network = build_network(NetworkSpec(name=name, depth=depth, width=9), (1, 4, 4), 3)
    assert network.entry.num_layers == 1
    assert network.stack.num_layers == depth - 1


def test_each_kind_has_its_layers() -> None:
    for name, kind in (("fc-highway", DenseHighway), ("fc-plain", DensePlain), ("fc-residual", DenseResidual), ("fc-lstm", DepthLSTM)):
        assert type(build_network(NetworkSpec(name=name), (4,), 2).stack) is kind


def test_a_network_without_a_layer_equals_the_network_with_that_layer_closed() -> None:
    network, x = build_network(NetworkSpec(depth=8, width=6), (5,), 3), torch.rand(4, 5)
    shorter = network.without([3, 7])
    with lesion(network, [3, 7]):
        assert torch.equal(network(x), shorter(x))
    logits, gates = network(x, return_gates=True)
    torch.testing.assert_close(logits, network(x))
    with torch.no_grad():
        assert torch.equal(network(x, return_gates=True)[0], network(x))
    assert gates.shape == (7, 4, 6)


def test_what_is_left_out_is_filled_in() -> None:
    highway, plain = NetworkSpec(), NetworkSpec(name="fc-plain", activation="relu")
    assert (highway.width, highway.init, highway.gate_bias, highway.carry) == (50, "glorot-uniform", "auto", "coupled")
    assert (plain.width, plain.init, plain.gate_bias, plain.carry) == (71, "he", None, None)
    assert NetworkSpec(init="normal").init_std == 0.05
    assert NetworkSpec(**plain.model_dump()) == plain


def test_auto_gate_bias_is_that_of_the_whole_network() -> None:
    assert build_network(NetworkSpec(depth=50), (4,), 2).stack.start_gate_bias == pytest.approx(-1 - 3 * math.log10(5))
    assert build_network(NetworkSpec(depth=1000, width=2), (4,), 2).stack.start_gate_bias == -7.0
    assert build_network(NetworkSpec(gate_bias=-7), (4,), 2).stack.start_gate_bias == -7.0


def test_the_builder_passes_everything_on() -> None:
    spec = NetworkSpec(depth=4, width=200, activation="relu", init="normal", init_std=0.3, carry="independent", gate_bias=-2.5)
    network = build_network(spec, (30,), 5, generator=torch.Generator().manual_seed(0))
    stack = network.stack
    assert (stack.activation, stack.carry, stack.start_gate_bias, stack.num_layers) == ("relu", "independent", -2.5, 3)
    assert network.entry.activation == "relu"
    assert stack.weight.std().item() == pytest.approx(0.3, rel=0.02)
    assert network.entry.weight.std().item() == pytest.approx(0.3, rel=0.05)
    plain = build_network(NetworkSpec(name="fc-plain", depth=4, width=200, activation="relu"), (30,), 5)
    assert plain.stack.weight.std().item() == pytest.approx(math.sqrt(2 / 200), rel=0.02), "he by default for relu"


def test_a_spec_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        NetworkSpec().depth = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"name": "fc-higway"},
            "unknown network 'fc-higway': did you mean 'fc-highway'? Allowed: fc-highway, fc-plain",
        ),
        ({"depth": 0}, "depth = 0: should be greater than or equal to 1"),
        ({"depth": 2.5}, "depth = 2.5: should be a valid integer"),
        ({"width": -3}, "width = -3: should be greater than or equal to 1"),
        ({"activation": "swish"}, "activation = 'swish': should be 'tanh', 'relu', 'sigmoid' or 'identity'"),
        ({"dept": 3}, "unknown field 'dept': did you mean 'depth'?"),
        ({"name": "fc-plain", "gate_bias": -1}, "network.gate_bias = -1.0: fc-plain has no gates"),
        ({"name": "fc-residual", "carry": "coupled"}, "network.carry = 'coupled': fc-residual has no gates"),
        ({"name": "fc-lstm", "carry": "coupled"}, "network.carry = 'coupled': fc-lstm has no carry gate; leave it out"),
        ({"init_std": 0.1}, "network.init_std = 0.1: applies only to init = 'normal'"),
        ({"gate_bias": float("nan")}, "gate_bias = nan: should be a finite number"),
        ({"depth": 100_000, "width": 65_536}, "more than 2³¹ weights"),
        ({"depth": True}, "depth = True: should be a valid integer"),
        ({"gate_bias": 1e300}, "gate_bias = 1e+300: should be less than or equal to 1000"),
        ({"name": ["fc-plain"]}, "name = ['fc-plain']: should be a valid string"),
    ],
)
def test_impossible_values_are_refused_in_a_sentence(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        validated(NetworkSpec, values)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
