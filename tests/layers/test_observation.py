"""observe(model): what is collected, in every kind of layer and model, and that nothing of it stays."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from highwaynet import ConvHighway, ConvPlain, ConvResidual, DenseHighway, DensePlain, DenseResidual, Highway, lesion, observe, recompute
from highwaynet.layers.maxout import ConvMaxout, DenseMaxout
from highwaynet.layers.observation import QUANTITIES, Observable, Recording


class OwnModel(nn.Module):
    """A user's model with layers of ours inside."""

    def __init__(self) -> None:
        super().__init__()
        self.start = DensePlain(6, 4)
        self.body = nn.ModuleDict({"deep": DenseHighway(4, layers=3, gate_bias=0.0), "last": DenseResidual(4, layers=2)})
        self.wrapped = Highway(nn.Sequential(DensePlain(4), nn.Dropout(0.5)), gate=nn.Linear(4, 4))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.wrapped(self.body["last"](self.body["deep"](self.start(x)))))
        return y


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "own": (OwnModel, (6,), 7),
    "stack": (lambda: DenseHighway(5, layers=3), (5,), 3),
    "independent": (lambda: DenseHighway(5, layers=3, carry="independent"), (5,), 3),
    "plain": (lambda: DensePlain(5, layers=2), (5,), 2),
    "residual": (lambda: DenseResidual(5, layers=2), (5,), 2),
    "maxout": (lambda: DenseMaxout(5, 4), (5,), 1),
    "conv": (lambda: nn.Sequential(ConvPlain(2, 3), ConvHighway(3), ConvResidual(3, norm=False), ConvMaxout(3, 2)), (2, 6, 6), 4),
    "conv independent": (lambda: ConvHighway(3, carry="independent"), (3, 4, 4), 1),
}


@pytest.fixture(params=MODELS)
def model_and_input(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor, int]:
    torch.manual_seed(3)
    make, shape, layers = MODELS[request.param]
    return make().eval(), torch.randn(9, *shape), layers


@pytest.mark.parametrize("grad", [False, True])
def test_outputs_stay_the_same_and_every_layer_is_seen(model_and_input: tuple[nn.Module, Tensor, int], grad: bool) -> None:
    model, x, layers = model_and_input
    with torch.set_grad_enabled(grad):
        before = model(x)
        with observe(model) as seen:
            during = model(x)
        after = model(x)
    torch.testing.assert_close(during, before, rtol=1e-6, atol=1e-6)
    assert torch.equal(before, after)
    assert len(seen.layers) == layers
    assert all(layer["output"].values.shape[0] == 9 for layer in seen.layers)
    assert not any(layer["output"].values.requires_grad for layer in seen.layers)
    assert all(module.observer is None for module in model.modules() if isinstance(module, Observable))


def test_the_equation_holds_in_what_is_seen(model_and_input: tuple[nn.Module, Tensor, int]) -> None:
    model, x, _ = model_and_input
    with torch.no_grad(), observe(model) as seen:
        model(x)
    inputs = [x, *(layer["output"].values for layer in seen.layers)]
    for layer, own in zip(seen.gated, [inputs[seen.layers.index(layer)] for layer in seen.gated], strict=True):
        h, t, c, y = (layer[quantity].values for quantity in ("state", "transform", "carry", "output"))
        torch.testing.assert_close(y, h * t + own * c, rtol=1e-5, atol=1e-6)
    assert all("transform" not in layer for layer in seen.layers if not isinstance(layer.module, DenseHighway | ConvHighway | Highway))


def test_names_and_numbers_are_those_of_lesion() -> None:
    model = OwnModel()
    with observe(model) as seen:
        pass
    inside = [
        "body.deep, layer 1",
        "body.deep, layer 2",
        "body.deep, layer 3",
        "body.last, layer 1",
        "body.last, layer 2",
    ]
    assert [layer.name for layer in seen.layers] == ["start", *inside, "wrapped"]
    assert [layer.number for layer in seen.layers] == [None, 1, 2, 3, 4, 5, 6]
    assert repr(seen.layers[0]) == "ObservedLayer('start': nothing recorded)"
    x = torch.randn(4, 6)
    with torch.no_grad(), lesion(model, [2, 5, 6]), observe(model) as seen:
        model(x)
    for number, layer in enumerate(seen.layers):
        if layer.number in {2, 5, 6}:
            assert torch.equal(layer["output"].values, seen.layers[number - 1]["output"].values), "a closed layer copies"
            assert layer["state"].values.count_nonzero() == 0
    closed = seen.layers[2]
    assert closed["transform"].values.count_nonzero() == 0
    assert (closed["carry"].values == 1).all()


@pytest.mark.parametrize("name", ["own", "independent", "conv"])
@pytest.mark.parametrize("sizes", [(9,), (4, 5), (1,) * 9])
def test_streaming_equals_full_collection_whatever_the_batches(name: str, sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    make, shape, _ = MODELS[name]
    model, x, labels = make().eval(), torch.randn(9, *shape), torch.tensor([0, 2, 2, 0, 2, 0, 0, 2, 4])
    with torch.no_grad(), observe(model) as full:
        model(x)
    with torch.no_grad(), observe(model, streaming=True) as streamed:
        for part, own in zip(x.split(list(sizes)), labels.split(list(sizes)), strict=True):
            streamed.labels = own
            model(part)
    for whole, parts in zip(full.layers, streamed.layers, strict=True):
        for quantity in QUANTITIES:
            assert (quantity in whole) == (quantity in parts)
            if quantity not in whole:
                continue
            values = whole[quantity].values.double()
            rows = values.flatten(2).transpose(1, 2) if values.dim() == 4 else values[:, None]  # (samples, pixels, width)
            flat = rows.flatten(0, 1)
            recording = parts[quantity]
            assert recording.count == len(flat)
            torch.testing.assert_close(recording.mean, flat.mean(0), rtol=1e-6, atol=1e-7)
            torch.testing.assert_close(recording.variance, flat.var(0, correction=0), rtol=1e-5, atol=1e-9)
            assert recording.class_mean.shape == (5, flat.shape[1])
            assert recording.class_mean[1].isnan().all()
            torch.testing.assert_close(recording.class_mean[2], rows[labels == 2].mean(dim=(0, 1)), rtol=1e-6, atol=1e-7)
            assert recording.class_count[4] == rows.shape[1]
            with pytest.raises(ValueError, match="streaming"):
                _ = recording.values


def test_moments_by_hand() -> None:
    recording = Recording(keep=True)
    recording.add(torch.tensor([[1.0, 10.0]]), torch.tensor([1]))
    recording.add(torch.tensor([[3.0, 10.0], [5.0, 40.0]]), torch.tensor([0, 1]))
    assert recording.mean.tolist() == [3.0, 20.0]
    assert recording.variance.tolist() == pytest.approx([8 / 3, 200.0])
    assert recording.class_mean.tolist() == [[3.0, 10.0], [3.0, 25.0]]
    assert recording.values.tolist() == [[1.0, 10.0], [3.0, 10.0], [5.0, 40.0]]


def test_nothing_stays_when_the_users_code_raises() -> None:
    model = OwnModel()
    state = copy.deepcopy(model.state_dict())
    with pytest.raises(ZeroDivisionError), observe(model), lesion(model, [1, 2]):
        _ = 1 / 0
    with pytest.raises(ValueError, match="DensePlain takes"), observe(model):
        model(torch.randn(2, 5))
    assert all(module.observer is None for module in model.modules() if isinstance(module, Observable))
    assert model.body["deep"].closed_layers == frozenset()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_an_observation_within_another_lets_both_see() -> None:
    stack = DenseHighway(3, layers=2)
    with observe(stack) as outer:
        stack(torch.zeros(1, 3))
        with observe(stack) as inner:
            stack(torch.zeros(2, 3))
        stack(torch.zeros(4, 3))
    assert (outer.layers[0]["output"].count, inner.layers[0]["output"].count) == (7, 2)


def test_what_cannot_be_observed_is_refused() -> None:
    with pytest.raises(ValueError, match="contains no layer that can be observed"), observe(nn.Linear(2, 2)):
        pass
    with pytest.raises(ValueError, match="choose from transform, carry, state, output"), observe(DenseHighway(2), ["gates"]):  # type: ignore[list-item]
        pass
    stack = DenseHighway(2)
    with observe(stack) as seen:
        seen.labels = torch.tensor([0, 1, 0])
        with pytest.raises(ValueError, match="3 labels were set for a batch of"):
            stack(torch.zeros(2, 2))
    with observe(stack, ["output"]) as seen:
        stack(torch.zeros(2, 2))
    with pytest.raises(KeyError, match="carry was not recorded; recorded: output"):
        _ = seen.layers[0]["carry"]


def test_gradients_flow_while_observed_and_recomputation_tells_once() -> None:
    torch.manual_seed(0)
    stack, x = DenseHighway(4, layers=3), torch.randn(5, 4)
    stack(x).sum().backward()
    expected = stack.weight.grad
    stack.zero_grad()
    recompute(stack)
    with observe(stack) as seen:
        stack(x).sum().backward()
    torch.testing.assert_close(stack.weight.grad, expected, rtol=1e-5, atol=1e-6)
    assert [layer["output"].count for layer in seen.layers] == [5, 5, 5]


def test_gates_are_returned_while_observed() -> None:
    stack = DenseHighway(4, layers=3)
    x = torch.randn(2, 4)
    with torch.no_grad():
        y, t = stack(x, return_gates=True)
        with observe(stack) as seen:
            y2, t2 = stack(x, return_gates=True)
    assert torch.equal(y, y2)
    assert torch.equal(t, t2)
    assert torch.equal(torch.stack([layer["transform"].values for layer in seen.layers]), t)


def test_numbers_in_nested_models_are_those_of_lesion() -> None:
    model = nn.Sequential(Highway(DenseHighway(4, layers=3), gate=nn.Linear(4, 4)), DenseHighway(4, layers=2))
    with observe(model) as seen:
        pass
    assert [(layer.name, layer.number) for layer in seen.layers] == [("0", 1), ("1, layer 1", 5), ("1, layer 2", 6)]
    x = torch.randn(3, 4)
    with torch.no_grad(), lesion(model, [6]), observe(model) as seen:
        model(x)
    assert torch.equal(seen.layers[2]["output"].values, seen.layers[1]["output"].values)


@pytest.mark.parametrize("grad", [False, True])
def test_inputs_of_other_forms(grad: bool) -> None:
    stack = DenseHighway(4, layers=2)
    with torch.set_grad_enabled(grad):
        for shape in ((4,), (0, 4), (2, 5, 4), (2, 3, 5, 4)):
            x = torch.randn(shape)
            y, t = stack(x, return_gates=True)
            assert (y.shape, t.shape) == (shape, (2, *shape))
            with observe(stack) as seen:
                stack(x)
            if x.numel():
                assert seen.layers[1]["output"].mean.shape == (4,)
                torch.testing.assert_close(seen.layers[1]["output"].mean, y.detach().double().reshape(-1, 4).mean(0), rtol=1e-6, atol=1e-7)
    layer = Highway(nn.Conv1d(4, 4, 3, padding=1), gate=nn.Conv1d(4, 4, 3, padding=1))
    with observe(layer) as seen:
        layer(torch.randn(2, 4, 9))
        layer(torch.randn(2, 4, 7))
    assert seen.layers[0]["transform"].mean.shape == (4,)
    assert seen.layers[0]["transform"].count == 2 * 9 + 2 * 7
    with pytest.raises(ValueError, match="different shapes"):
        _ = seen.layers[0]["transform"].values


def test_copies_made_inside_are_not_observed() -> None:
    stack, x = DenseHighway(4, layers=3), torch.randn(2, 4)
    with observe(stack) as seen:
        twin, shorter = copy.deepcopy(stack), stack.without([1])
        again = pickle.loads(pickle.dumps(stack))
        for each in (twin, shorter, again):
            each(x)
        watch = stack.observer
    assert seen.layers[0].name == "layer 1"
    assert "output" not in seen.layers[0]
    assert twin.observer is shorter.observer is again.observer is None
    stack.observer = watch  # somebody kept it
    stack(x)
    stack.observer = None
    assert "output" not in seen.layers[0], "nothing is counted after the end"


def test_activations_that_are_computed_again_count_once() -> None:
    stack, x = DenseHighway(4, layers=3), torch.randn(3, 4, requires_grad=True)
    with observe(stack) as seen:
        checkpoint(stack, x, use_reentrant=False).sum().backward()
    assert [layer["output"].count for layer in seen.layers] == [3, 3, 3]


@pytest.mark.parametrize("labels", [torch.tensor([0.5]), torch.tensor([-1]), torch.tensor([[1]])])
def test_labels_that_are_none(labels: Tensor) -> None:
    with observe(DenseHighway(2)) as seen, pytest.raises(ValueError, match="integers from 0"):
        seen.labels = labels


def test_labels_of_small_types() -> None:
    layer = DenseHighway(2)
    with observe(layer, streaming=True) as seen:
        seen.labels = torch.tensor([1, 0], dtype=torch.uint8)
        layer(torch.zeros(2, 2))
    assert seen.layers[0]["output"].class_count.tolist() == [1, 1]
