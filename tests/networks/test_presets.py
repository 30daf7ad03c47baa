"""Every preset: published parameter counts, one contract for all, and the quirks of the released files."""

import math
from collections.abc import Iterator

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import NetworkSpec, build_network, lesion
from highwaynet.base.errors import InputError
from highwaynet.base.specs import validated
from highwaynet.data.record import DataRecord
from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.convolution import channels_last
from highwaynet.layers.dropout import Dropout
from highwaynet.layers.lesion import count_layers
from highwaynet.networks.build import count_parameters
from highwaynet.networks.description import describe
from highwaynet.networks.network import Network
from highwaynet.networks.presets import PRESETS
from highwaynet.runs.training_spec import TrainingSpec
from highwaynet.training.objective import Batch, Classification, Companions, objective_for

MNIST, CIFAR = (1, 28, 28), (3, 32, 32)

PUBLISHED = [
    ({"name": "mnist-highway-16"}, MNIST, 10, 38_986),
    ({"name": "mnist-highway-32"}, MNIST, 10, 151_690),
    ({"name": "highway-a", "head": "gap"}, CIFAR, 10, 222_378),
    ({"name": "highway-a", "head": "dense"}, CIFAR, 10, 236_328),
    ({"name": "highway-b"}, CIFAR, 10, 2_256_838),
    ({"name": "highway-b"}, CIFAR, 100, 2_256_838 + 90 * 101),
    ({"name": "highway-b", "head": "dense"}, CIFAR, 10, 2_312_438),
    ({"name": "highway-c"}, CIFAR, 10, 1_264_502),
    ({"name": "fitnet-a"}, CIFAR, 10, 251_194),
    ({"name": "fitnet-b"}, CIFAR, 10, 2_548_602),
    ({"name": "fitnet-b", "variant": "released"}, CIFAR, 10, 2_742_102),
    ({"name": "mnist-fitnet"}, MNIST, 10, 36_226),
    ({"name": "mnist-maxout"}, MNIST, 10, 361_066),
    ({"name": "resnet-20"}, CIFAR, 10, 269_722),
    ({"name": "resnet-32"}, CIFAR, 10, 464_154),
    ({"name": "resnet-44"}, CIFAR, 10, 658_586),
    ({"name": "resnet-20", "variant": "2016"}, CIFAR, 10, 269_034),
    ({"name": "resnet-32", "variant": "2016"}, CIFAR, 10, 463_018),
    ({"name": "resnet-44", "variant": "2016"}, CIFAR, 10, 657_002),
    ({"name": "nin"}, CIFAR, 10, 966_986),
    ({"name": "all-cnn"}, CIFAR, 10, 1_369_738),
]


@pytest.mark.parametrize(("values", "shape", "outputs", "count"), PUBLISHED)
def test_published_parameter_counts(values: dict[str, str], shape: tuple[int, ...], outputs: int, count: int) -> None:
    spec = NetworkSpec(**values)
    assert count_parameters(build_network(spec, shape, outputs)) == count
    assert describe(spec, shape, outputs).parameters == count


def every_network() -> Iterator[dict[str, object]]:
    """Each preset in each variant, with each head, shortcut, carry gate and companion that it admits."""
    for name, preset in PRESETS.items():
        for variant in preset.origins if preset.traits.has_variants else [None]:
            yield {"name": name, "variant": variant}
        if "head" in preset.settings:
            yield {"name": name, "head": "gap" if preset.defaults["head"] == "dense" else "dense"}
        if "shortcut" in preset.settings:
            yield {"name": name, "shortcut": "project"}
        if "carry" in preset.settings:
            yield {"name": name, "carry": "independent"}
        if "deep_supervision" in preset.settings:
            yield {"name": name, "deep_supervision": True}
    yield {"name": "fc-highway", "depth": 1}
    yield {"name": "fc-plain", "depth": 2, "width": 9}


def label(values: dict[str, object]) -> str:
    return "-".join(str(value) for value in values.values() if value is not None)


def build(values: dict[str, object], seed: int = 0) -> tuple[NetworkSpec, tuple[int, ...], Network]:
    spec = NetworkSpec(**values)
    shape = spec.preset.made_for
    return spec, shape, build_network(spec, shape, 10, generator=torch.Generator().manual_seed(seed))


RECORD = DataRecord.model_construct(task="classification")


def whole_loss(network: Network, x: Tensor, targets: Tensor) -> Tensor:
    """What training minimises, with the same dropout each time."""
    torch.manual_seed(0)
    return objective_for(network.plan, RECORD, TrainingSpec())(network, Batch(x, targets)).minimised


@pytest.mark.parametrize("values", list(every_network()), ids=label)
class TestEveryNetwork:
    """The contract."""

    def test_output_loss_gradients_and_a_step_that_helps(self, values: dict[str, object]) -> None:
        _, shape, network = build(values)
        x, targets = torch.randn(4, *shape, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 9])
        network.train()
        assert network(x).shape == (4, 10)
        before = whole_loss(network, x, targets)
        assert torch.isfinite(before)
        before.backward()
        for key, parameter in network.named_parameters():
            if parameter.numel():  # at depth 1 a stack is empty
                assert parameter.grad is not None, key
                assert parameter.grad.abs().sum() > 0, key
        with torch.no_grad():  # a short step along the gradient
            norm = math.sqrt(sum(parameter.grad.square().sum().item() for parameter in network.parameters() if parameter.numel()))
            for parameter in network.parameters():
                if parameter.numel():
                    parameter.sub_(1e-3 / norm * parameter.grad)
        assert whole_loss(network, x, targets) < before

    def test_saved_and_loaded_to_the_bit(self, values: dict[str, object]) -> None:
        _, shape, first = build(values, seed=1)
        second, x = build(values, seed=2)[2].eval(), torch.randn(2, *shape)
        first.train()(x)  # statistics of batch norm are part of what is saved
        first.eval()
        assert not torch.equal(first(x), second(x))
        content = safetensors.torch.save({key: tensor.contiguous() for key, tensor in first.state_dict().items()})
        second.load_state_dict(safetensors.torch.load(content))
        assert torch.equal(first(x), second(x))

    def test_the_table_is_that_of_the_module(self, values: dict[str, object]) -> None:
        spec, shape, network = build(values)
        table = describe(spec, shape, 10)
        assert table.parameters == count_parameters(network)
        assert table.layers == spec.depth
        gated = [row for row in table.rows if row.gate_bias is not None]
        starts = [module.start_gate_bias for module in network.modules() if hasattr(module, "start_gate_bias")]
        assert {row.gate_bias for row in gated} == (set(starts) if spec.depth > 1 else set())
        if spec.preset.traits.has_variants:  # a row for each module, with the shape that it really gives
            x, shapes = torch.zeros(1, *shape), []
            for layer in network.eval().layers:
                y = layer(x)
                shapes.append(tuple(y.shape[1:]))
                x = x if "Companion" in type(layer).__name__ else y
            assert shapes == [row.shape for row in table.rows]

    def test_multiply_adds_are_those_that_torch_counts(self, values: dict[str, object]) -> None:
        from torch.utils.flop_counter import FlopCounterMode

        spec, shape, network = build(values)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            network.eval()(torch.zeros(1, *shape))
        assert counter.get_total_flops() == 2 * describe(spec, shape, 10).multiply_adds

    def test_a_spec_says_everything(self, values: dict[str, object]) -> None:
        spec = build(values)[0]
        assert NetworkSpec(**spec.model_dump()) == spec
        assert spec.origin


def test_feature_maps_of_mnist_go_24_12_6_3() -> None:
    sizes = [row.shape[1] for row in describe(NetworkSpec(name="mnist-highway-16"), MNIST, 10).rows if len(row.shape) == 3]
    assert sorted(set(sizes), reverse=True) == [24, 12, 6, 3]


@pytest.mark.parametrize(("name", "bias"), [("mnist-highway-16", -1.0), ("highway-a", -1.0), ("highway-b", -2.0), ("highway-c", -3.0)])
def test_gate_biases_start_as_published_and_auto_follows_the_depth(name: str, bias: float) -> None:
    _, _, network = build({"name": name})
    assert {module.start_gate_bias for module in network.modules() if isinstance(module, ConvHighway)} == {bias}
    auto = build_network(NetworkSpec(name=name, gate_bias="auto"), PRESETS[name].made_for, 10)
    start = next(module.start_gate_bias for module in auto.modules() if isinstance(module, ConvHighway))
    assert start == pytest.approx(-PRESETS[name].layers / 10)
    assert abs(start - bias) < 0.25


class TestReleasedFiles:
    """The traps in the authors' files, each there in the variant released and absent in paper."""

    @staticmethod
    def layers(name: str, variant: str, outputs: int = 10) -> list[nn.Module]:
        spec = NetworkSpec(name=name, variant=variant)
        network = build_network(spec, spec.preset.made_for, outputs, generator=torch.Generator().manual_seed(0))
        return list(network.layers)

    @pytest.mark.parametrize("name", ["mnist-highway-32", "highway-b"])
    def test_gate_weights_start_as_those_of_h(self, name: str) -> None:
        for variant, factor in (("released", 2), ("paper", 1)):  # He's variance, Glorot's with equal fans
            layer = [layer for layer in self.layers(name, variant) if isinstance(layer, ConvHighway)][-1]
            fan_in = layer.weight[0].numel()
            assert layer.gate_weight.std().item() == pytest.approx(math.sqrt(factor / fan_in), rel=0.03)
            assert layer.weight[: layer.channels].std().item() == pytest.approx(math.sqrt(2 / fan_in), rel=0.03)

    def test_first_convolution_of_cifar_has_deviation_one(self) -> None:
        first = {variant: next(m for m in self.layers("highway-b", variant) if hasattr(m, "weight")) for variant in ("paper", "released")}
        assert first["released"].weight.std().item() == pytest.approx(1.0, rel=0.06)
        assert first["paper"].weight.std().item() == pytest.approx(math.sqrt(2 / 27), rel=0.06)

    @pytest.mark.parametrize(
        ("name", "outputs", "std"), [("mnist-highway-32", 10, 0.1), ("highway-b", 10, 0.05), ("highway-b", 100, math.sqrt(2 / 100))]
    )
    def test_start_of_the_last_layer(self, name: str, outputs: int, std: float) -> None:
        head = self.layers(name, "released", outputs)[-1]
        weight = next(parameter for key, parameter in head.named_parameters() if key.endswith("weight"))
        assert weight.std().item() == pytest.approx(std, rel=0.05)

    def test_dropout_of_each_stage(self) -> None:
        def rates(name: str, variant: str) -> list[float]:
            return [layer.p for layer in self.layers(name, variant) if isinstance(layer, Dropout)]

        assert rates("mnist-highway-16", "released") == [0.2, 0.3, 0.4, 0.5]
        assert rates("mnist-highway-16", "paper") == [0.05, 0.1, 0.2]
        assert rates("highway-b", "released") == [0.2, 0.2, 0.2, 0.2]

    def test_a_spec_that_names_dropout_keeps_it(self) -> None:
        assert NetworkSpec(name="highway-b", variant="released", dropout=(0.0, 0.0, 0.0, 0.5)).dropout == (0.0, 0.0, 0.0, 0.5)


def test_residual_variant_2016_pools_and_drops_out_where_he_strides_and_normalises() -> None:
    he, other = build({"name": "resnet-20"})[2], build({"name": "resnet-20", "variant": "2016"})[2]
    kinds = [type(module).__name__ for module in other.modules()]
    assert kinds.count("MaxPool2d") == kinds.count("Dropout") == 2
    assert "BatchNorm2d" not in kinds
    assert sum(isinstance(module, nn.BatchNorm2d) for module in he.modules()) == 19
    assert not any(isinstance(module, nn.MaxPool2d) for module in he.modules())


@pytest.mark.parametrize("name", ["resnet-20", "resnet-44"])
def test_without_batch_norm_residual_blocks_do_not_blow_up(name: str) -> None:
    network = build({"name": name, "variant": "2016"})[2].eval()
    x = torch.randn(8, *CIFAR, generator=torch.Generator().manual_seed(0))
    assert network(x).abs().max() < 30, "with He's weights alone it would be in the thousands at 44 layers"


def test_a_plain_twin_has_the_layers_of_its_highway_network() -> None:
    for letter in "abc":
        highway, plain = (describe(NetworkSpec(name=f"{kind}-{letter}"), CIFAR, 10) for kind in ("highway", "plain"))
        assert [row.shape for row in highway.rows] == [row.shape for row in plain.rows]
        assert all(h.label.replace("highway", "plain") == p.label for h, p in zip(highway.rows, plain.rows, strict=True))


@pytest.mark.parametrize("name", ["mnist-highway-16", "highway-a", "resnet-20"])
def test_removing_layers_equals_closing_them(name: str) -> None:
    _, shape, network = build({"name": name})
    network.eval()
    x, layers = torch.randn(3, *shape), [2, 3]
    with lesion(network, layers):
        closed = network(x)
    shorter = network.without(layers)
    assert count_layers(shorter) == count_layers(network) - 2
    torch.testing.assert_close(shorter(x), closed, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(network(x), closed)
    with lesion(network, [1, 2]):
        shorter = network.without([2])
    torch.testing.assert_close(shorter(x), network.without([2])(x)), "the copy is open"


def test_what_changes_the_shape_cannot_be_removed() -> None:
    network = build({"name": "resnet-20"})[2]
    with pytest.raises(ValueError, match=r"layers = \[4\]: this layer changes the shape"):
        network.without([4])
    with pytest.raises(ValueError, match=r"layers = \[10\]: the network has 9 layers"):
        network.without([10])


def test_gates_come_layer_by_layer() -> None:
    _, shape, network = build({"name": "highway-a"})
    logits, gates = network(torch.randn(2, *shape), return_gates=True)
    assert [tuple(gate.shape) for gate in gates] == [(2, c, s, s) for c, s in ((16, 32), (32, 16), (64, 8)) for _ in range(2)]
    assert logits.shape == (2, 10)
    _, gates, carries = build({"name": "highway-a", "carry": "independent"})[2](torch.randn(2, *shape), return_gates=True)
    assert len(gates) == len(carries) == 6


def test_companions_speak_while_training_and_cost_nothing_afterwards() -> None:
    _, shape, network = build({"name": "plain-a", "deep_supervision": True})
    x = torch.randn(2, *shape)
    logits, companions = network(x, return_companions=True)
    assert [companion.shape for companion in companions] == [(2, 10), (2, 10)]
    assert torch.equal(logits, network(x))
    plain, with_companions = (describe(NetworkSpec(name="plain-a", deep_supervision=deep), CIFAR, 10) for deep in (False, True))
    assert plain.multiply_adds == with_companions.multiply_adds
    targets = torch.tensor([1, 2])
    _, loss, minimised = Companions(Classification(), 0.5)(network, Batch(x, targets))
    torch.testing.assert_close(minimised, loss + 0.5 * sum(F.cross_entropy(companion, targets) for companion in companions))


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.traits.has_variants])
def test_all_networks_are_channels_last_inside(name: str) -> None:
    _, shape, network = build({"name": name})
    x = channels_last(torch.randn(2, *shape))
    for layer in network.eval().layers:
        x = layer(x)
        assert x.ndim == 2 or x.is_contiguous(memory_format=torch.channels_last), layer


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"name": "highway-d"}, "unknown network 'highway-d': did you mean 'highway-"),
        ({"name": "highway-b", "depth": 50}, "network.depth = 50: highway-b has 19 layers"),
        ({"name": "highway-b", "width": 50}, "network.width = 50: highway-b has no such setting"),
        ({"name": "highway-c", "variant": "released"}, "network.variant = 'released': highway-c comes as 'paper'"),
        ({"name": "highway-c", "head": "dense"}, "network.head = 'dense': highway-c has no such setting"),
        ({"name": "resnet-20", "gate_bias": -1}, "network.gate_bias = -1.0: resnet-20 has no gates"),
        ({"name": "resnet-20", "dropout": [0.1, 0.1]}, "network.dropout = [0.1, 0.1]: resnet-20 has no dropout"),
        ({"name": "mnist-highway-16", "dropout": [0.5]}, "network.dropout = [0.5]: mnist-highway-16 needs 4 numbers, one for each place"),
        ({"name": "highway-a", "dropout": [0, 0, 0, 1.0]}, "less than 1"),
        ({"name": "highway-a", "deep_supervision": True}, "network.deep_supervision = True: highway-a has no such setting"),
        ({"name": "fc-plain", "variant": "released"}, "network.variant = 'released': fc-plain has no such setting"),
        ({"name": "fitnet-a", "activation": "relu"}, "network.activation = 'relu': fitnet-a has no such setting"),
    ],
)
def test_impossible_settings_are_refused_in_a_sentence(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        validated(NetworkSpec, values)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


class TestInputsThatDoNotFit:
    """Images that are too small, no images at all, other channels than those it was built for."""

    @pytest.mark.parametrize(
        ("name", "least"), [("mnist-highway-16", 8), ("highway-a", 1), ("fitnet-a", 32), ("maxout-teacher", 15), ("all-cnn", 9)]
    )
    def test_too_small(self, name: str, least: int) -> None:
        spec = NetworkSpec(name=name)
        network = build_network(spec, (3, least, least), 2)
        assert network.eval()(torch.zeros(1, 3, least, least)).shape == (1, 2)
        if least > 1:
            sentence = f"images of {least - 1}×{least - 1} are too small for {name}: it needs at least {least}×{least}"
            with pytest.raises(InputError, match=sentence):
                build_network(spec, (3, least - 1, least - 1), 2)

    def test_no_images(self) -> None:
        with pytest.raises(InputError, match="highway-a takes images, not samples of 64 values"):
            build_network(NetworkSpec(name="highway-a"), (64,), 2)

    def test_other_channels(self) -> None:
        network = build_network(NetworkSpec(name="highway-a"), CIFAR, 10)
        with pytest.raises(ValueError, match=r"images of shape \(2, 1, 32, 32\): this network takes \(batch, 3, 32, 32\)"):
            network(torch.zeros(2, 1, 32, 32))


def test_start_weights_of_the_released_fitnets() -> None:
    for name in ("fitnet-a", "fitnet-b"):
        spec = NetworkSpec(name=name, variant="released")
        assert (spec.init, spec.init_range) == ("uniform", 0.005)
        network = build_network(spec, CIFAR, 10, generator=torch.Generator().manual_seed(0))
        for key, parameter in network.named_parameters():
            largest = float(parameter.detach().abs().max())
            assert (0.0045 < largest <= 0.005 * (1 + 1e-6)) if key.endswith("weight") else largest == 0, key
    assert NetworkSpec(name="fitnet-a", variant="released", init="he").init_range is None
    assert NetworkSpec(name="fc-plain", init="uniform").init_range == 0.05
    with pytest.raises(ValueError, match=r"network.init_range = 0.1: applies only to init = 'uniform', not to 'he'"):
        NetworkSpec(name="fc-plain", init="he", init_range=0.1)


@pytest.mark.parametrize("name", ["maxout-5", "maxout-7", "maxout-9", "fitnet-a"])
def test_thin_maxout_networks_are_within_both_limits_and_use_them(name: str) -> None:
    from highwaynet.experiments.thin_maxout import MULTIPLY_ADDS, PARAMETERS

    table = describe(NetworkSpec(name=name), CIFAR, 10)
    assert 0.99 * PARAMETERS < table.parameters <= PARAMETERS
    assert 0.99 * MULTIPLY_ADDS < table.multiply_adds <= MULTIPLY_ADDS
