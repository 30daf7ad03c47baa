"""The engine of the page computes what torch computes: every preset, every kind of part, closed and swapped layers, preprocessing."""

import base64
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from highwaynet import Plan, lesion, load_dataset, observe
from highwaynet.analysis.closing import exchangeable
from highwaynet.base.errors import InputError
from highwaynet.data.preprocessing import Preprocessing
from highwaynet.data.spec import DataSpec
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.build import build_plan
from highwaynet.networks.description import describe_plan
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Affine, Dense, DenseStack
from highwaynet.networks.presets import PRESETS
from highwaynet.networks.spec import NetworkSpec
from highwaynet.web.contents import MOST_NUMBERS, network_rows, preprocessing_steps
from highwaynet.web.lowering import Weights, lowered
from highwaynet.web.page import page_source
from holding import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CLOSE = 1e-4
Compute = Callable[..., dict[str, Any]]

ASK = """
({ description, numbers, raw, closed, order }) => {
  const decoded = (text) => new Float32Array(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)).buffer);
  let found;
  const receive = serve((message) => { found = message; });
  receive({ type: "start", description, floats: decoded(numbers), inputs: new Float32Array(0), targets: [] });
  receive({ type: "answer", id: 1, raw: decoded(raw), closed, route: order });
  const list = (values) => Array.from(values, (value) => (Number.isNaN(value) ? null : value));
  return { outputs: list(found.outputs), gates: list(found.gates), states: list(found.states), values: list(found.values),
           estimates: found.estimates.map(list) };
}
"""


@pytest.fixture(scope="module")
def tab(browser: "Browser") -> Iterator["Page"]:
    """A page with nothing but the engine."""
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.set_content(f"<script>{page_source('engine.js')}</script><script>{page_source('serve.js')}</script>")
    yield page
    page.close()


@pytest.fixture
def compute(tab: "Page") -> Compute:
    """Let the engine answer for one raw sample."""

    def answer(network: Network, x: Tensor, closed: list[int] | None = None, swap: tuple[int, int] | None = None) -> dict[str, Any]:
        weights = Weights()
        steps = lowered(network, weights)
        rows = network_rows(steps)
        columns = max(row["width"] for row in rows)
        description = {"steps": steps, "rows": rows, "columns": columns, "inputs": x.numel(), "preprocessing": []}
        order = list(range(len(steps)))
        if swap:
            one, two = (next(place for place, step in enumerate(steps) if step.get("number") == number) for number in swap)
            order[one], order[two] = two, one
        found = tab.evaluate(ASK, _message(description, weights, x) | {"closed": closed or [], "order": order})
        shape = (len(rows), columns)
        return {
            "outputs": torch.tensor(found["outputs"]),
            "estimates": torch.tensor(found["estimates"]),
            "rows": rows,
            **{name: _numbers(found[name]).view(shape) for name in ("gates", "states", "values")},
        }

    return answer


def _message(description: dict[str, Any], weights: Weights, x: Tensor) -> dict[str, Any]:
    raw = x.flatten().to(torch.float32).numpy().tobytes()
    return {"description": description, "numbers": _text(weights.packed()), "raw": _text(raw)}


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _numbers(values: list[float | None]) -> Tensor:
    return torch.tensor([math.nan if value is None else value for value in values])


def trained(plan: Plan, seed: int = 0) -> Network:
    """A network in which every number counts: biases and the statistics of batch norm are not those of a new one."""
    generator = torch.Generator().manual_seed(seed)
    network = build_plan(plan, generator=generator).eval()
    for name, value in network.state_dict().items():
        if name.endswith("running_var"):
            value.copy_(torch.rand(value.shape, generator=generator) + 0.5)
        elif name.endswith(("bias", "running_mean")):
            value.add_(torch.randn(value.shape, generator=generator) * 0.1)
    return network


def plan_for(name: str, **settings: object) -> Plan:
    preset = PRESETS[name]
    depth = {"depth": 50} if preset.family == "dense" else {}
    return plan_of(NetworkSpec(name=name, **(depth | settings)), preset.made_for, 10)


def sample_for(plan: Plan, seed: int = 1) -> Tensor:
    return torch.rand(1, *plan.input_shape, generator=torch.Generator().manual_seed(seed))


def close(found: Tensor, wanted: Tensor) -> bool:
    return bool(((found - wanted).abs() <= CLOSE * wanted.abs().clamp(min=1)).all())


FITTING = [name for name in PRESETS if describe_plan(plan_for(name)).parameters <= MOST_NUMBERS]


@pytest.mark.parametrize("name", FITTING)
def test_every_preset_that_fits_has_torchs_outputs(name: str, compute: Compute) -> None:
    network = trained(plan_for(name))
    x = sample_for(network.plan)
    with torch.inference_mode():
        assert close(compute(network, x)["outputs"], network(x)[0])


def test_only_the_teacher_does_not_fit() -> None:
    assert set(PRESETS) - set(FITTING) == {"maxout-teacher"}


CASES = {
    "dense highway": (plan_for("fc-highway", depth=12), [2, 5, 11]),
    "independent carry": (plan_for("fc-highway", depth=6, carry="independent", activation="relu"), [3]),
    "dense residual": (plan_for("fc-residual", depth=8), [1, 7]),
    "dense plain": (plan_for("fc-plain", depth=5, activation="sigmoid"), []),
    "members": (plan_for("fc-highway", depth=6, members=3, activation="relu"), [2, 4]),
    "members, independent carry": (plan_for("fc-highway", depth=4, members=2, carry="independent"), [1]),
    "plain members": (plan_for("fc-plain", depth=4, members=2), []),
    "LSTM cells over depth": (plan_for("fc-lstm", depth=7), [1, 4]),
    "convolutional highway": (plan_for("mnist-highway-16"), [2, 8]),
    "convolutional, independent carry": (plan_for("mnist-highway-16", carry="independent", activation="tanh"), [4]),
    "residual blocks with padding": (plan_for("resnet-20"), [2, 4, 9]),
    "residual blocks with projections": (plan_for("resnet-20", shortcut="project"), [4, 5]),
    "residual blocks without batch norm": (plan_for("resnet-20", variant="2016"), [3]),
}


@pytest.mark.parametrize("name", CASES)
def test_gates_states_and_outputs_of_every_layer_are_torchs(name: str, compute: Compute) -> None:
    plan, closed = CASES[name]
    network = trained(plan)
    x = sample_for(plan)
    with torch.inference_mode(), lesion(network, closed), observe(network) as seen:
        wanted = network(x)[0]
    found = compute(network, x, closed)
    assert close(found["outputs"], wanted)
    head = set(network.get_submodule(network.head_name).modules())
    layers = [layer for layer in seen.layers if layer.module not in head]
    assert len(layers) == len(found["rows"])
    for row, layer in enumerate(layers):
        for quantity, name_here in (("output", "values"), ("transform", "gates"), ("state", "states")):
            if quantity == "output" or (quantity in layer and "transform" in layer):
                mean = layer[quantity].mean.float()
                assert close(found[name_here][row, : len(mean)], mean), (quantity, row)
                assert found[name_here][row, len(mean) :].isnan().all()


@pytest.mark.parametrize("name", ["dense highway", "members", "convolutional highway", "residual blocks with padding"])
def test_an_estimate_is_the_answer_with_all_later_layers_closed(name: str, compute: Compute) -> None:
    plan, closed = CASES[name]
    network = trained(plan)
    x = sample_for(plan)
    found = compute(network, x, closed)
    numbers = [row["number"] for row in found["rows"]]
    last = max(number for number in numbers if number is not None)
    for row, number in enumerate(numbers):
        with torch.inference_mode(), lesion(network, {*closed, *range((number or 0) + 1, last + 1)}):
            assert close(found["estimates"][row], network(x)[0]), row


@pytest.mark.parametrize("name", ["dense highway", "members", "convolutional highway", "residual blocks with padding"])
def test_two_layers_change_places(name: str, compute: Compute) -> None:
    network = trained(CASES[name][0])
    x = sample_for(network.plan)
    one, two = exchangeable(network)[-1][:2]
    found = compute(network, x, swap=(one, two))["outputs"]
    if network.plan.family == "dense":
        with torch.no_grad():
            for values in (network.stack.weight, network.stack.bias):  # type: ignore[union-attr]
                values[[one - 1, two - 1]] = values[[two - 1, one - 1]]
    else:
        places = [place for place, layer in enumerate(network.layers) if hasattr(layer, "closed_layers")]  # type: ignore[arg-type]
        layers = network.layers
        first, second = places[one - 1], places[two - 1]
        layers[first], layers[second] = layers[second], layers[first]  # type: ignore[index]
    with torch.inference_mode():
        assert close(found, network(x)[0])


def test_affine_maps_in_place_of_removed_layers(compute: Compute) -> None:
    dense = plan_for("fc-highway", depth=6)
    first, stack, head = dense.parts
    assert isinstance(first, Dense)
    assert isinstance(stack, DenseStack)
    dense = dense.model_copy(update={"parts": (first, stack, Affine(), stack, head)})
    maps = plan_for("mnist-highway-16")
    maps = maps.model_copy(update={"parts": (*maps.parts[:2], Affine(), *maps.parts[3:])})
    members = plan_for("fc-highway", depth=6, members=3)
    members = members.model_copy(update={"parts": (*members.parts[:3], Affine(), *members.parts[2:])})
    for plan in (dense, maps, members):
        network = trained(plan)
        with torch.no_grad():
            for value in network.parameters():
                value.add_(torch.randn(value.shape, generator=torch.Generator().manual_seed(3)) * 0.05)
        x = sample_for(plan)
        with torch.inference_mode():
            found = compute(network, x)
            assert close(found["outputs"], network(x)[0])
            assert "affine" in {row["kind"] for row in found["rows"]}


def prepared(fitted: Preprocessing, x: Tensor, tab: "Page") -> Tensor:
    """The inputs of the network that the engine makes of one raw sample."""
    weights = Weights()
    description = {"steps": [], "rows": [], "columns": 1, "inputs": x.numel(), "preprocessing": preprocessing_steps(fitted, weights)}
    description["steps"] = [{"op": "mean", "in": [64], "out": [64], "head": True}]
    ask = """({ description, numbers, raw }) => {
      const decoded = (text) => new Float32Array(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)).buffer);
      return Array.from(new Engine.Network(description, decoded(numbers)).prepare(decoded(raw)));
    }"""
    return torch.tensor(tab.evaluate(ask, _message(description, weights, x)))


@pytest.mark.parametrize(
    "steps", [(), ("scale",), ("scale", "standardise"), ("gcn",), ("scale", "mean-image", "gcn"), ("scale", "zca")], ids="-".join
)
def test_preprocessing_is_torchs(steps: tuple[str, ...], tab: "Page") -> None:
    data = load_dataset(DataSpec(name="digits", preprocessing=steps))
    fitted = data.preparation.preprocessing
    x = data.test.inputs[data.test.rows[:1]]
    assert close(prepared(fitted, x, tab), fitted.apply(x).flatten())


@pytest.mark.parametrize("steps", [("standardise", "piecewise"), ("piecewise", "standardise"), ("piecewise", "zca")])
def test_bins_are_torchs(steps: tuple[str, str], tab: "Page") -> None:
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    x[:, 1] = (x[:, 1] > 0).float()
    data = load_dataset(DataSpec(name="memory", preprocessing=steps, bins=5), data=(x, torch.arange(60) % 2))
    fitted = data.preparation.preprocessing
    for row in range(3):
        found = prepared(fitted, x[row : row + 1], tab)
        assert len(found) == 3 + 2 * 5
        assert close(found, fitted.apply(x[row : row + 1]).flatten())


def test_a_layer_that_the_engine_does_not_know_is_named() -> None:
    network = trained(plan_for("fc-highway", depth=3))
    network.entry_dropout = torch.nn.Softplus()  # type: ignore[assignment]
    with pytest.raises(InputError, match=r"cannot compute layer 1 \(Softplus\) of fc-highway"):
        lowered(network, Weights())
