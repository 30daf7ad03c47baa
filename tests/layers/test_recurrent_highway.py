"""RecurrentHighway: against a loop written from the paper's formulas, nn.GRU's conventions, lengths, dropout, lesion, observation."""

import itertools

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

from highwaynet import RecurrentHighway, lesion, observe, recompute
from highwaynet.layers import recurrent_highway


def layer_of(inputs: int = 3, width: int = 7, depth: int = 3, **settings: object) -> RecurrentHighway:
    return RecurrentHighway(inputs, width, depth, init_range=0.6, gate_bias=-1.0, generator=torch.Generator().manual_seed(1), **settings)  # type: ignore[arg-type]


def by_hand(layer: RecurrentHighway, x: Tensor, state: Tensor, closed: tuple[int, ...] = ()) -> Tensor:
    """One sequence (time, inputs) and its first state (width): the states after each step, from the formulas in the paper."""
    w, found = layer.width, []
    for step in x:
        for number in range(layer.num_layers):
            if number + 1 in closed:
                continue
            r, b = layer.weight[number], layer.bias[number]
            own = layer.input_weight @ step if number == 0 else torch.zeros_like(b)
            h = torch.tanh(own[:w] + r[:w] @ state + b[:w])
            t = torch.sigmoid(own[w : 2 * w] + r[w : 2 * w] @ state + b[w : 2 * w])
            c = 1 - t if layer.carry == "coupled" else torch.sigmoid(own[2 * w :] + r[2 * w :] @ state + b[2 * w :])
            state = h * t + state * c
        found.append(state)
    return torch.stack(found)


@pytest.mark.parametrize("carry", ["coupled", "independent"])
@pytest.mark.parametrize(("depth", "steps", "batch"), [(1, 1, 1), (1, 6, 3), (3, 5, 2), (10, 4, 5)])
def test_it_is_the_formula_of_the_paper_forward_and_backward(carry: str, depth: int, steps: int, batch: int) -> None:
    layer, x, start = layer_of(depth=depth, carry=carry), torch.randn(steps, batch, 3), torch.randn(1, batch, 7)
    gradient = torch.randn(steps, batch, 7)
    y, last = layer(x, start)
    found = torch.autograd.grad(y, list(layer.parameters()), gradient)
    exact = layer_of(depth=depth, carry=carry).double()
    expected = torch.stack([by_hand(exact, x[:, i].double(), start[0, i].double()) for i in range(batch)], dim=1)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(last, y[-1:])
    for mine, right in zip(found, torch.autograd.grad(expected, list(exact.parameters()), gradient.double()), strict=True):
        torch.testing.assert_close(mine.double(), right, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(exact(x.double(), start.double())[0], expected)  # the readable version


def test_start_values_are_those_of_the_paper() -> None:
    layer = RecurrentHighway(20, 50, 4)
    assert (layer.gate_bias == -2).all()
    for weight in (layer.weight, layer.input_weight):
        assert 0.0395 < weight.abs().max() <= 0.04
    assert not layer.bias[:, :50].any()
    independent = RecurrentHighway(20, 50, 4, gate_bias=-4, carry="independent")
    assert (independent.bias[:, 50:100] == -4).all()
    assert (independent.bias[:, 100:] == 4).all()
    assert sum(own.numel() for own in layer.parameters()) == 2 * 50 * 20 + 4 * 2 * 50 * 51


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("form", ["batch", "single", "packed", "sorted"])
def test_it_returns_what_gru_returns(batch_first: bool, form: str) -> None:
    ours, gru = layer_of(batch_first=batch_first), nn.GRU(3, 7, batch_first=batch_first)
    x, start = torch.randn((4, 6, 3) if batch_first else (6, 4, 3)), torch.randn(1, 4, 7)
    if form == "single":
        x, start = torch.randn(6, 3), torch.randn(1, 7)
    if form == "packed":
        x = pack_padded_sequence(x, [2, 6, 1, 4], batch_first=batch_first, enforce_sorted=False)
    if form == "sorted":
        x = pack_sequence([torch.randn(n, 3) for n in (5, 3, 3, 1)])
    for arguments in ((x,), (x, start)):
        for mine, theirs in zip(ours(*arguments), gru(*arguments), strict=True):
            assert type(mine) is type(theirs)
            if isinstance(mine, PackedSequence):
                assert torch.equal(mine.batch_sizes, theirs.batch_sizes)
                assert mine.data.shape == theirs.data.shape
            else:
                assert mine.shape == theirs.shape


@pytest.mark.parametrize("carry", ["coupled", "independent"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_padded_batch_gives_what_each_sequence_gives_alone(carry: str, batch_first: bool) -> None:
    layer, lengths = layer_of(carry=carry, batch_first=batch_first), [3, 8, 1, 5, 8]
    x, start = torch.randn(5, 9, 3), torch.randn(1, 5, 7)
    y, last = layer(x if batch_first else x.transpose(0, 1), start, lengths=lengths)
    y = y if batch_first else y.transpose(0, 1)
    assert y.shape == (5, 9, 7)
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    from_packed, last_packed = layer(packed, start)
    assert torch.equal(last_packed, last)
    assert torch.equal(pad_packed_sequence(from_packed, batch_first=True, total_length=9)[0], y)
    for row, length in enumerate(lengths):
        alone, end = layer(x[row, :length], start[:, row])
        assert torch.equal(y[row, :length], alone)
        assert torch.equal(last[0, row], end[0])
        assert not y[row, length:].any()


def test_padding_gets_no_gradient_and_gives_none() -> None:
    layer, x = layer_of(batch_first=True), torch.randn(3, 6, 3)
    x[0, 2:], x[2, 5:] = float("nan"), float("inf")
    x.requires_grad_()
    y, last = layer(x, lengths=[2, 6, 5])
    (y.sum() + last.sum()).backward()
    assert x.grad is not None
    assert not x.grad[0, 2:].any()
    assert x.grad[1].all()
    assert all(own.grad is not None and own.grad.isfinite().all() for own in layer.parameters())


@pytest.mark.parametrize("carry", ["coupled", "independent"])
def test_gradcheck(carry: str) -> None:
    layer = layer_of(2, 3, 2, carry=carry).double()
    x, start = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True), torch.randn(1, 2, 3, dtype=torch.float64, requires_grad=True)
    names, values = zip(*layer.named_parameters(), strict=True)

    def call(x: Tensor, start: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x, start), {"lengths": [4, 2]})  # type: ignore[no-any-return]

    assert torch.autograd.gradcheck(call, (x, start, *values))


def test_sequences_can_be_continued() -> None:
    layer, x = layer_of(), torch.randn(9, 2, 3)
    whole, last = layer(x)
    state, parts = None, []
    for part in x.split(4):
        y, state = layer(part, state)
        parts.append(y)
    assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(state, last)


# ----- Dropout


def test_dropout_masks_are_one_for_each_sequence_and_the_same_at_all_steps() -> None:
    x = torch.randn(6, 40, 3)
    layer = layer_of(output_dropout=0.4)
    ratio = layer(x)[0] / layer.eval()(x)[0]
    assert torch.allclose(ratio, ratio[:1].expand_as(ratio), atol=1e-5)
    assert {round(value, 3) for value in ratio.unique().tolist()} == {0.0, round(1 / 0.6, 3)}
    for settings in ({"input_dropout": 0.5}, {"state_dropout": 0.5}):
        layer = layer_of(**settings)  # type: ignore[arg-type]
        start = torch.randn(1, 40, 7)
        torch.manual_seed(3)
        y, _ = layer(x, start)
        torch.manual_seed(3)
        mask = torch.empty(40, 3 if "input_dropout" in settings else 7).bernoulli_(0.5) * 2
        for row in range(3):
            own = layer.double()
            if "input_dropout" in settings:
                expected = by_hand(own, (x[:, row] * mask[row]).double(), start[0, row].double())
            else:
                masked = by_hand_masked(own, x[:, row].double(), start[0, row].double(), mask[row].double())
                expected = masked
            layer.float()
            torch.testing.assert_close(y[:, row].double(), expected, rtol=1e-5, atol=1e-5)
        layer.eval()
        torch.testing.assert_close(layer(x, start)[0], layer_of()(x, start)[0])


def by_hand_masked(layer: RecurrentHighway, x: Tensor, state: Tensor, mask: Tensor) -> Tensor:
    """The mask applies to what the weights see of the state, not to what is carried."""
    found, w = [], layer.width
    for step in x:
        for number in range(layer.num_layers):
            z = layer.weight[number] @ (state * mask) + layer.bias[number] + (layer.input_weight @ step if number == 0 else 0)
            t = torch.sigmoid(z[w:])
            state = torch.tanh(z[:w]) * t + state * (1 - t)
        found.append(state)
    return torch.stack(found)


def test_dropout_of_a_padded_batch_follows_the_sequence() -> None:
    layer, x = layer_of(batch_first=True, input_dropout=0.3, state_dropout=0.3, output_dropout=0.3), torch.randn(4, 6, 3)
    torch.manual_seed(5)
    y, _ = layer(x, lengths=[2, 6, 4, 6])
    torch.manual_seed(5)
    whole, _ = layer(x)
    for row, length in enumerate([2, 6, 4, 6]):
        assert torch.equal(y[row, :length], whole[row, :length])


# ----- Lesion and observation


@pytest.mark.parametrize("carry", ["coupled", "independent"])
@pytest.mark.parametrize("kernel", [True, False])
def test_closed_micro_layers_copy_the_state(carry: str, kernel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernel:
        monkeypatch.setattr(recurrent_highway, "can_recur", lambda *arguments: False)
    layer, x, start = layer_of(depth=4, carry=carry), torch.randn(5, 2, 3), torch.randn(1, 2, 7)
    with lesion(layer, [2, 4]):
        closed, _ = layer(x, start)
        expected = torch.stack([by_hand(layer, x[:, i], start[0, i], (2, 4)) for i in range(2)], dim=1)
        torch.testing.assert_close(closed, expected, rtol=1e-5, atol=1e-6)
        assert torch.equal(layer.without([2, 4])(x, start)[0], closed)
        with torch.no_grad():
            _, _, *gates = layer(x, start, return_gates=True)
        assert not gates[0][[1, 3]].any()
        assert carry == "coupled" or (gates[1][[1, 3]] == 1).all()
    with lesion(layer, [1, 2, 3, 4]):
        assert torch.equal(layer(x, start)[0], start.expand(5, 2, 7))
    with pytest.raises(ValueError, match="only it sees the input"):
        layer.without([1])


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("carry", ["coupled", "independent"])
def test_gates_and_what_is_observed(carry: str, grad: bool) -> None:
    layer, x, start = layer_of(carry=carry), torch.randn(6, 4, 3), torch.randn(1, 4, 7)
    with torch.set_grad_enabled(grad):
        y, last, *gates = layer(x, start, return_gates=True)
        with observe(layer) as seen:
            again, _ = layer(x, start)
    torch.testing.assert_close(y, layer(x, start)[0])
    assert torch.equal(again, y)
    assert torch.equal(last, y[-1:])
    assert [gate.shape for gate in gates] == [(3, 6, 4, 7)] * (1 if carry == "coupled" else 2)
    assert [layer.name for layer in seen.gated] == ["layer 1", "layer 2", "layer 3"]
    state = start[0]
    for step, number in itertools.product(range(6), range(3)):
        h, t, c, out = (seen.layers[number][what].values[:, step] for what in ("state", "transform", "carry", "output"))
        torch.testing.assert_close(t, gates[0][number, step].detach())
        torch.testing.assert_close(out, h * t + state * c, rtol=1e-5, atol=1e-6)
        state = out
    torch.testing.assert_close(state, y[-1].detach())


def test_steps_after_the_end_of_a_sequence_are_not_counted() -> None:
    layer, x, lengths = layer_of(batch_first=True), torch.randn(3, 6, 3), [2, 6, 1]
    with torch.no_grad(), observe(layer, streaming=True) as streamed, observe(layer) as seen:
        seen.labels = streamed.labels = [0, 1, 0]
        _, _, t = layer(x, lengths=lengths, return_gates=True)
    real = torch.tensor([[step < length for step in range(6)] for length in lengths])
    for number in range(3):
        for found in (seen.layers[number]["transform"], streamed.layers[number]["transform"]):
            assert found.count == sum(lengths)
            torch.testing.assert_close(found.mean, t[number][real].double().mean(0))
            torch.testing.assert_close(found.class_mean[1], t[number, 1].double().mean(0))
            assert found.class_count.tolist() == [3, 6]
        assert seen.layers[number]["transform"].values.shape == (3, 6, 7)


@pytest.mark.parametrize("lengths", [None, [9, 3, 16, 16, 1]])
def test_recomputation_gives_the_same(lengths: list[int] | None) -> None:
    layer, x = layer_of(batch_first=True, state_dropout=0.3), torch.randn(5, 16, 3, requires_grad=True)

    def step() -> list[Tensor]:
        torch.manual_seed(2)
        y, last = layer(x, lengths=lengths)
        return [y, *torch.autograd.grad(y.square().sum() + last.sum(), [x, *layer.parameters()])]

    plain = step()
    recompute(layer)
    for mine, theirs in zip(step(), plain, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


# ----- Use


def test_mixed_precision_and_half_a_state() -> None:
    layer, x = layer_of(), torch.randn(5, 4, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, _ = layer(x.bfloat16())
    torch.testing.assert_close(y.float(), layer(x)[0], atol=0.05, rtol=0.05)


def test_exported_models_need_no_kernel_of_ours() -> None:
    program = torch.export.export(layer_of(), (torch.randn(3, 2, 3),))
    assert "highwaynet" not in str(program.graph)
    x = torch.randn(3, 2, 3)
    torch.testing.assert_close(program.module()(x)[0], layer_of()(x)[0])


def test_a_state_dict_survives_and_the_layer_prints_its_sizes() -> None:
    first, second, x = layer_of(), RecurrentHighway(3, 7, 3), torch.randn(4, 2, 3)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(x)[0], second(x)[0])
    assert "in_features=3, width=7, depth=3" in repr(first)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda layer: layer(torch.zeros(5, 2, 4)), "x has 4 features: the layer was made for in_features = 3"),
        (lambda layer: layer(torch.zeros(5, 2, 1, 3)), r"x has shape \(5, 2, 1, 3\): give \(time, batch, features\)"),
        (lambda layer: layer(torch.zeros(0, 2, 3)), "x has 0 steps and 2 sequences"),
        (
            lambda layer: layer(torch.zeros(5, 2, 3), torch.zeros(2, 7)),
            r"hx has shape \(2, 7\): the state .* has shape \(1, 2, 7\)",
        ),
        (lambda layer: layer(torch.zeros(5, 2, 3), lengths=[5, 6]), r"lengths = \[5, 6\]: give 2 whole numbers between 1 and 5"),
        (lambda layer: layer(torch.zeros(5, 2, 3), lengths=[5]), "give 2 whole numbers"),
        (lambda layer: layer(torch.zeros(5, 2, 3), lengths=[5.0, 1.0]), "give 2 whole numbers"),
        (lambda layer: layer(torch.zeros(5, 3), lengths=[5]), "lengths with a single sequence"),
        (lambda layer: layer(pack_sequence([torch.zeros(5, 3)]), lengths=[5]), "it already has its lengths"),
        (lambda layer: RecurrentHighway(3, 7, 0), "depth = 0: must be at least 1"),
        (lambda layer: RecurrentHighway(3, 0), "width = 0: must be at least 1"),
        (lambda layer: RecurrentHighway(3, 7, carry="both"), "unknown carry 'both'"),
        (lambda layer: RecurrentHighway(3, 7, state_dropout=1.0), "p = 1.0: must be at least 0 and below 1"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(call: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call(layer_of())  # type: ignore[operator]
