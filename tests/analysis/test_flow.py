"""The flow of signals and gradients, against values by hand and against torch's own gradients."""

import copy
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import NetworkSpec, build_network, lesion
from highwaynet.analysis import flow as flow_module
from highwaynet.analysis.analysis_records import Flow, FlowRecord, Origin
from highwaynet.analysis.flow import analyse_flow, measure_flow, name_failures
from highwaynet.data.dataset import Split
from highwaynet.data.preparation import Preparation
from highwaynet.data.record import DataRecord
from highwaynet.layers.observation import observe
from highwaynet.networks.dense import DenseNetwork
from highwaynet.networks.network import Network

INPUTS, TARGETS = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 1])


def data_record(shape: tuple[int, ...], classes: int = 2) -> DataRecord:
    kind, task = "features" if len(shape) == 1 else "images", "classification" if classes else "regression"
    names = tuple(map(str, range(classes)))
    return DataRecord(found="noise", kind=kind, task=task, input_shape=shape, class_names=names, train=2, validation=0, test=0)


def noise(shape: tuple[int, ...], samples: int, classes: int = 2) -> Split:
    """Dark images with some bright pixels, as handwritten digits are."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(samples, *shape, generator=generator) * (torch.rand(samples, *shape, generator=generator) < 0.2)
    return Split(inputs, torch.arange(samples) % classes, torch.arange(samples), Preparation.restore(data_record(shape, classes), {}))


def built(values: dict[str, object], shape: tuple[int, ...], outputs: int = 2) -> Network:
    return build_network(NetworkSpec(**values), shape, outputs, generator=torch.Generator().manual_seed(0))


def test_values_by_hand(two_by_two: DenseNetwork) -> None:
    names, flow = measure_flow(two_by_two, INPUTS, TARGETS, data_record((2,)))
    assert names == ("layer 1 (DensePlain)", "layer 2 (DenseHighway)", "layer 3 (DenseHighway)")
    low, high = 0.5, 1 + 1 / (1 + math.exp(-1))  # x + sigmoid(x) of x = 0 and 1
    outputs = [[0, 1, 1, 0], [low, high, high, low], [0.5 * low, 0.75 * high, 0.5 * high, 0.75 * low]]
    assert flow.mean == pytest.approx([np.mean(values) for values in outputs], rel=1e-6)
    assert flow.variance == pytest.approx([np.var(values) for values in outputs], rel=1e-6)
    assert flow.dead.tolist() == [0, 0, 0]
    a0, a1, b0, b1 = outputs[2]
    assert flow.loss == pytest.approx((math.log(1 + math.exp(a1 - a0)) + math.log(1 + math.exp(b0 - b1))) / 2, rel=1e-6)
    assert flow.findings == ()


def test_gradients_of_a_readable_copy(two_by_two: DenseNetwork) -> None:
    _, flow = measure_flow(two_by_two, INPUTS, TARGETS, data_record((2,)))

    def leaf(values: Tensor) -> Tensor:
        return values.detach().double().requires_grad_()

    first, head = leaf(two_by_two.entry.weight[0]), two_by_two.head.weight.double()
    weights, biases = [leaf(weight) for weight in two_by_two.stack.weight], two_by_two.stack.bias.double()
    outputs = [INPUTS.double() @ first.T]
    for weight, bias in zip(weights, biases, strict=True):
        h, z = (outputs[-1] @ weight.T + bias).split(2, dim=1)
        t = 1 / (1 + torch.exp(-z))
        outputs.append(h * t + outputs[-1] * (1 - t))
    loss = F.cross_entropy(outputs[-1] @ head.T, TARGETS)
    lengths = [gradient.norm().item() for gradient in torch.autograd.grad(loss, [first, *weights, *outputs])]
    assert flow.gradient == pytest.approx(lengths[:3], rel=1e-5)
    assert flow.signal_gradient == pytest.approx(lengths[3:], rel=1e-5)


KINDS = [
    ({"name": "fc-highway", "depth": 4, "width": 5, "carry": "independent"}, (6,)),
    ({"name": "fc-plain", "depth": 4, "width": 5, "activation": "relu", "dropout": (0.5, 0.5)}, (6,)),
    ({"name": "fc-residual", "depth": 4, "width": 5}, (6,)),
    ({"name": "fc-lstm", "depth": 4, "width": 5}, (6,)),
    ({"name": "highway-a"}, (1, 4, 4)),
    ({"name": "plain-a", "deep_supervision": True}, (1, 4, 4)),
    ({"name": "resnet-20"}, (1, 8, 8)),
    ({"name": "fitnet-a"}, (3, 32, 32)),
]


@pytest.mark.parametrize(("values", "shape"), KINDS, ids=lambda value: value.get("name") if isinstance(value, dict) else None)
def test_every_kind_of_network(values: dict[str, object], shape: tuple[int, ...]) -> None:
    network, split = built(values, shape), noise(shape, 4)
    inputs, targets = next(split.batches(4))
    names, flow = measure_flow(network, inputs, targets, data_record(shape))
    twin = copy.deepcopy(network).eval()
    with observe(twin, ["output"]) as seen:
        loss = F.cross_entropy(twin(inputs), targets)
    loss.backward()
    layers = [layer for layer in seen.layers if "output" in layer]
    assert len(layers) == len(names) == (11 if values["name"] == "resnet-20" else NetworkSpec(**values).depth)
    assert flow.loss == pytest.approx(loss.item(), rel=1e-5)
    assert flow.mean == pytest.approx([layer["output"].values.mean().item() for layer in layers], rel=1e-4, abs=1e-6)
    assert flow.variance == pytest.approx([layer["output"].values.var(correction=0).item() for layer in layers], rel=1e-4)
    assert flow.gradient == pytest.approx(
        [length for module in dict.fromkeys(layer.module for layer in layers) for length in lengths(module)]
    )


def lengths(module: nn.Module) -> list[float]:
    """Lengths of the gradients of a module's weights, layer by layer if it is a stack."""
    gradients = [own.grad for name, own in module.named_parameters() if name.endswith("weight") and own.dim() > 1]
    if gradients[0].dim() == 3:
        return [gradient.norm().item() for gradient in gradients[0]]
    return [math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))]


def test_a_regression_and_closed_layers() -> None:
    network = built({"depth": 4, "width": 5}, (6,), 1)
    inputs, targets = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)), torch.linspace(-1, 1, 8)
    with lesion(network, [2]):
        _, flow = measure_flow(network, inputs, targets, data_record((6,), 0))
        assert flow.loss == pytest.approx(F.mse_loss(network(inputs).squeeze(1), targets).item(), rel=1e-6)
    assert flow.gradient[2] == 0
    assert flow.variance[2] == flow.variance[1]
    assert flow.signal_gradient[2] == flow.signal_gradient[1]
    assert (flow.gradient[[0, 1, 3]] > 0).all()


def test_the_result_does_not_depend_on_the_batch_size(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    for values, shape in KINDS[:5]:
        split, records = noise(shape, 30), []
        network, trained = built(values, shape), built(values, shape)
        with torch.no_grad():
            for parameter in trained.parameters():
                parameter.mul_(1.5)
        for size in (7, 30):
            monkeypatch.setattr(flow_module, "BATCH", size)
            records.append(analyse_flow(trained, split.spread(29), origin=origin, start=network, spec=NetworkSpec(**values)))
        some, whole = records
        assert (some.samples, some.kind, some.init) == (29, NetworkSpec(**values).kind, NetworkSpec(**values).init)
        assert some.start.loss != some.trained.loss
        for one, other in ((some.start, whole.start), (some.trained, whole.trained)):
            assert one.loss == pytest.approx(other.loss, rel=1e-6)
            for field in ("mean", "variance", "dead", "gradient", "signal_gradient"):
                np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=1e-6, atol=1e-7)


def state(network: Network) -> list[object]:
    """All that an analysis might leave behind."""

    def content(tensor: Tensor | None) -> bytes | None:
        return None if tensor is None else tensor.detach().numpy().tobytes()

    parameters = [(own.requires_grad, content(own), content(own.grad)) for own in network.parameters()]
    modules = [(module.training, getattr(module, "observer", None)) for module in network.modules()]
    return [parameters, modules, [content(buffer) for buffer in network.buffers()]]


@pytest.mark.parametrize(("values", "shape"), [KINDS[1], KINDS[6]], ids=["dense", "conv"])
def test_the_network_stays_as_it_is(values: dict[str, object], shape: tuple[int, ...]) -> None:
    network, (inputs, targets) = built(values, shape), next(noise(shape, 4).batches(4))
    F.cross_entropy(network(inputs), targets).backward()
    next(network.parameters()).requires_grad_(False)
    before = state(network.train())
    with torch.no_grad(), observe(network) as seen:
        measure_flow(network, inputs, targets, data_record(shape))
    assert not any("output" in layer for layer in seen.layers), "whoever observes the network is not told"
    assert state(network) == before
    with pytest.raises(ValueError, match="batch_size"):
        measure_flow(network, inputs, targets[:3], data_record(shape))
    assert state(network) == before


def test_dead_units() -> None:
    network = built({"name": "fc-plain", "depth": 2, "width": 4, "activation": "relu"}, (2,))
    with torch.no_grad():
        network.entry.weight[0] = torch.tensor([[1.0, 0.0], [0.0, 0.0], [-1.0, -1.0], [1e-9, 0.0]])
        network.entry.bias[0] = torch.tensor([0.0, 0.3, 0.0, 1.0])
    _, flow = measure_flow(network, INPUTS, TARGETS, data_record((2,)))
    assert flow.dead[0] == 0.75, "the second is 0.3, the third 0, and the fourth 1 up to rounding"


def test_there_must_be_samples(two_by_two: DenseNetwork) -> None:
    with pytest.raises(ValueError, match="no samples"):
        measure_flow(two_by_two, INPUTS[:0], TARGETS[:0], data_record((2,)))


def test_one_sample_says_nothing_about_dead_units(two_by_two: DenseNetwork) -> None:
    _, flow = measure_flow(two_by_two, INPUTS[:1], TARGETS[:1], data_record((2,)))
    assert np.isnan(flow.dead).all()
    assert flow.findings == ()


@pytest.mark.parametrize("depth", [200, 400])
def test_numbers_beyond_float32_are_survived(origin: Origin, depth: int) -> None:
    network, (inputs, targets) = (
        built({"name": "fc-residual", "depth": depth, "width": 20, "activation": "relu"}, (30,)),
        next(noise((30,), 20).batches(20)),
    )
    _, flow = measure_flow(network, inputs, targets, data_record((30,)))
    assert not np.isfinite(flow.variance[-1])
    assert len(flow.findings) == 1
    assert flow.findings[0].startswith("Exploding activations: from layer ")
    record = FlowRecord(**origin.fields(20), kind="residual", activation="relu", init="he", layers=(), start=flow, trained=flow)
    assert np.isnan(FlowRecord.model_validate_json(record.model_dump_json()).start.variance[-1])


def test_a_record_is_read_back(origin: Origin) -> None:
    values, shape = KINDS[4]
    record = analyse_flow(built(values, shape), noise(shape, 6), origin=origin, start=built(values, shape), spec=NetworkSpec(**values))
    assert FlowRecord.model_validate_json(record.model_dump_json()) == record
    assert record.layers[0] == "layer 1 (ConvPlain)"
    assert record.layers[-1] == "layer 11 (DensePlain)"
    assert (record.kind, record.activation, record.samples, record.fingerprint) == ("highway", "relu", 6, "x")


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"name": "fc-plain", "activation": "relu", "init": "glorot-uniform"}, ["Dead ReLU"]),
        ({"name": "fc-plain", "activation": "relu"}, []),
        ({"name": "fc-plain", "activation": "sigmoid"}, ["Lost signal", "Vanishing gradient"]),
        ({"name": "fc-plain", "activation": "tanh"}, []),
        ({"name": "fc-plain", "activation": "tanh", "init": "normal", "init_std": 0.5}, ["Exploding gradient"]),
        ({"name": "fc-highway", "gate_bias": -2}, []),
        ({"name": "fc-highway", "activation": "relu"}, []),
        ({"name": "fc-residual", "activation": "relu"}, ["Exploding activations"]),
        ({"name": "fc-residual", "activation": "tanh"}, []),
    ],
    ids=str,
)
def test_fresh_networks_of_50_layers(values: dict[str, object], names: list[str]) -> None:
    network, (inputs, targets) = built({"depth": 50, **values}, (784,), 10), next(noise((784,), 200, 10).batches(200))
    _, flow = measure_flow(network, inputs, targets, data_record((784,), 10))
    assert [finding.partition(":")[0] for finding in flow.findings] == names


def made(**columns: Callable[[np.ndarray], np.ndarray]) -> Flow:
    """A healthy flow of 20 layers with some columns as functions of the layer, from 1."""
    layer = np.arange(1.0, 21.0)
    healthy = {
        "mean": 0 * layer,
        "variance": 0 * layer + 0.25,
        "dead": 0 * layer,
        "gradient": 0 * layer + 0.1,
        "signal_gradient": 0 * layer + 0.1,
    }
    return Flow(**healthy | {name: function(layer) for name, function in columns.items()}, loss=2.3, findings=())


def test_failures_by_their_numbers() -> None:
    assert name_failures(made(), "relu", "plain") == ()
    assert name_failures(made(variance=lambda n: 4.0**-n), "relu", "plain") == (
        "Dead ReLU: from layer 12 on the signal is gone; "
        "the standard deviation of the outputs falls from 0.38 in layers 1 to 2 to 9.5e-07 in layer 20.",
    )
    assert name_failures(made(dead=lambda n: np.where(n > 7, 0.95, 0.5)), "relu", "plain") == (
        "Dead ReLU: from layer 8 on the signal is gone; 95.00\u00a0% of the units of layer 20 give the same number for every sample.",
    )
    assert name_failures(made(dead=lambda n: np.where(n == 7, 1.0, 0.5)), "relu", "plain") == ()
    assert name_failures(made(gradient=lambda n: 10.0 ** (n - 20)), "tanh", "plain") == (
        "Vanishing gradient: that of the weights has a length of 0.55 in layers 19 to 20 and of 5.5e-19 in layers 1 to 2.",
    )
    assert name_failures(made(gradient=lambda n: 10.0**-n), "tanh", "highway")[0].startswith("Exploding gradient")
    assert name_failures(made(gradient=np.zeros_like), "tanh", "highway") == (), "a network that is perfect"
    (grown,) = name_failures(made(variance=lambda n: 4.0**n), "relu", "residual")
    assert "grows from 3 in layers 1 to 2 to 7.9e+05 in layers 19 to 20; every layer adds" in grown


def test_what_shrank_does_not_come_back() -> None:
    (finding,) = name_failures(made(variance=lambda n: np.where(n == 9, 1e-9, 0.25)), "relu", "plain")
    assert finding.startswith("Dead ReLU: from layer 9 on")
    assert finding.endswith("to 3.2e-05 in layer 9.")


def test_saturation_is_the_mean_slope() -> None:
    (finding,) = name_failures(made(variance=lambda n: np.where(n > 5, 0.97, 0.5)), "tanh", "plain")
    assert finding.startswith("Saturated units: in 15 of 20 layers the mean slope of tanh is below 5.00\u00a0%")
    assert finding.endswith("layer 6 with 3.00\u00a0%.")
    assert name_failures(made(variance=lambda n: np.where(n > 5, 0.97, 0.5)), "tanh", "residual") == ()
    assert name_failures(made(mean=lambda n: 0 * n + 0.99, variance=lambda n: 0 * n + 0.001), "sigmoid", "plain") != ()
    assert name_failures(made(mean=lambda n: 0 * n + 0.5, variance=lambda n: 0 * n + 0.01), "sigmoid", "plain") == ()


def test_what_is_not_finite() -> None:
    (forward,) = name_failures(made(variance=lambda n: np.where(n > 4, np.nan, 1)), "relu", "plain")
    assert forward.startswith("Exploding activations: from layer 5 on")
    (backward,) = name_failures(made(gradient=lambda n: np.where(n < 4, np.inf, 1)), "relu", "plain")
    assert backward.startswith("Exploding gradient: from layer 3 down")
    (loss,) = name_failures(made().model_copy(update={"loss": None}), "relu", "plain")
    assert loss.startswith("The loss")
