"""The generic wrapper: any module, and what it refuses."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from highwaynet import Highway, lesion, observe


def test_wraps_a_convolution() -> None:
    torch.manual_seed(0)
    layer = Highway(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()), nn.Conv2d(4, 4, 3, padding=1), gate_bias=-3.0)
    y, t = layer(torch.randn(2, 4, 6, 6), return_gates=True)
    assert y.shape == t.shape == (2, 4, 6, 6)
    assert abs(t.mean() - torch.sigmoid(torch.tensor(-3.0))) < 0.05


def test_keeps_the_gates_bias_when_told_to() -> None:
    gate = nn.Linear(3, 3)
    before = gate.bias.detach().clone()
    Highway(nn.Identity(), gate, gate_bias=None)
    assert torch.equal(gate.bias, before)


@pytest.mark.parametrize("squash", [nn.Sigmoid(), nn.Softmax(-1)])
def test_refuses_a_gate_that_squashes_itself(squash: nn.Module) -> None:
    with pytest.raises(ValueError, match=f"gate ends in {type(squash).__name__}"):
        Highway(nn.Identity(), nn.Sequential(nn.Linear(3, 3), squash))


def test_refuses_a_gate_without_bias() -> None:
    with pytest.raises(ValueError, match="gate ends in Linear, which has no bias to start at -2"):
        Highway(nn.Identity(), nn.Linear(3, 3, bias=False))
    with pytest.raises(ValueError, match="carry ends in Linear, which has no bias to start at 2"):
        Highway(nn.Identity(), nn.Linear(3, 3), nn.Linear(3, 3, bias=False))
    with pytest.raises(ValueError, match="gate ends in Linear, which has no bias"):  # not the bias of a layer before
        Highway(nn.Identity(), nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3, bias=False)))


def test_refuses_what_is_no_module_and_the_same_module_twice() -> None:
    linear = nn.Linear(3, 3)
    with pytest.raises(TypeError, match="carry = 'independent': give a module"):
        Highway(nn.Linear(3, 3), linear, "independent")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the same one was given twice"):
        Highway(linear, linear)


def test_auto_gate_bias_follows_the_depth_and_the_kind_of_gate() -> None:
    dense, conv = nn.Linear(3, 3), nn.Conv2d(3, 3, 1)
    Highway(nn.Identity(), nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), dense)), gate_bias="auto", depth=100)
    Highway(nn.Identity(), conv, gate_bias="auto", depth=20)
    assert torch.equal(dense.bias, torch.full((3,), -4.0))
    assert torch.equal(conv.bias, torch.full((3,), -2.0))
    with pytest.raises(ValueError, match="gate_bias = nan"):
        Highway(nn.Identity(), nn.Linear(3, 3), gate_bias=float("nan"))


@pytest.mark.parametrize(
    ("layer", "part"),
    [
        (Highway(nn.Linear(3, 4), nn.Linear(3, 3)), "transform"),
        (Highway(nn.Linear(3, 3), nn.Linear(3, 1)), "gate"),
        (Highway(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)), "carry"),
    ],
)
def test_refuses_shapes_that_differ(layer: Highway, part: str) -> None:
    with pytest.raises(ValueError, match=f"{part} returns shape"):
        layer(torch.zeros(2, 3))


# --- around modules that take or return more than one tensor


def mixed(x: Tensor, h: Tensor, gate: nn.Module) -> Tensor:
    """The highway equation, written out."""
    t = torch.sigmoid(gate(x))
    return h * t + x * (1 - t)


def same_gradients(layer: nn.Module, mine: Tensor, theirs: Tensor) -> None:
    parameters = list(layer.parameters())
    for a, b in zip(*(torch.autograd.grad(y.square().sum(), parameters) for y in (mine, theirs)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("both", [False, True])
def test_recurrent_networks_hand_on_their_state(kind: type[nn.RNNBase], both: bool) -> None:
    torch.manual_seed(0)
    recurrent, gate = kind(6, 3 if both else 6, batch_first=True, bidirectional=both), nn.Linear(6, 6)
    layer, x = Highway(recurrent, gate), torch.randn(2, 5, 6)
    y, state = layer(x)
    h, expected = recurrent(x)
    torch.testing.assert_close(y, mixed(x, h, gate))
    torch.testing.assert_close(state, expected)
    same_gradients(layer, y, mixed(x, h, gate))
    torch.testing.assert_close(layer(x, state)[0], mixed(x, recurrent(x, state)[0], gate))
    y, t, state = layer(x, return_gates=True)
    torch.testing.assert_close(t, torch.sigmoid(gate(x)))
    torch.testing.assert_close(state, expected)


def test_packed_sequences() -> None:
    torch.manual_seed(0)
    gru, gate = nn.GRU(4, 4, batch_first=True), nn.Linear(4, 4)
    x, lengths = torch.randn(3, 6, 4), torch.tensor([6, 2, 4])
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    y, state = Highway(gru, gate)(packed)
    opened, ends = pad_packed_sequence(y, batch_first=True)
    assert torch.equal(ends, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = x[row : row + 1, :length]
        torch.testing.assert_close(opened[row : row + 1, :length], mixed(alone, gru(alone)[0], gate))
        torch.testing.assert_close(state[:, row : row + 1], gru(alone)[1])


def test_attention_with_masks_and_keyword_arguments() -> None:
    torch.manual_seed(0)
    attention, gate = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 8)
    layer, x, memory = Highway(attention, gate), torch.randn(2, 4, 8), torch.randn(2, 6, 8)
    padded = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    y, weights = layer(x, memory, memory, key_padding_mask=padded)
    h, expected = attention(x, memory, memory, key_padding_mask=padded)
    torch.testing.assert_close(y, mixed(x, h, gate))
    torch.testing.assert_close(weights, expected)
    assert not weights[1, :, 4:].any()
    same_gradients(layer, y, mixed(x, h, gate))
    y, nothing = layer(x, memory, memory, need_weights=False)
    assert nothing is None


@pytest.mark.parametrize("training", [True, False])
def test_transformer_layers(training: bool) -> None:
    torch.manual_seed(0)
    inner, gate = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 8)
    layer, x = Highway(inner, gate).train(training), torch.randn(2, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    padded = torch.tensor([[0.0] * 5, [0.0] * 3 + [-torch.inf] * 2])
    y = layer(x, src_mask=mask, src_key_padding_mask=padded)
    torch.testing.assert_close(y, mixed(x, inner(x, mask, padded), gate))
    decoder, memory = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True), torch.randn(2, 3, 8)
    torch.testing.assert_close(Highway(decoder, gate, gate_bias=None)(x, memory), mixed(x, decoder(x, memory), gate))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("batched", [True, False])
def test_convolutions_of_one_to_three_axes(axes: int, batched: bool) -> None:
    torch.manual_seed(0)
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
    inner, gate = kind(3, 3, 3, padding=1), kind(3, 3, 1)
    layer, x = Highway(inner, gate, gate_bias="auto", depth=20), torch.randn(*([2] if batched else []), 3, *[4] * axes)
    assert torch.equal(gate.bias, torch.full((3,), -2.0)), "the rule of convolutional networks"
    with observe(layer) as seen:
        y = layer(x)
    torch.testing.assert_close(y, mixed(x, inner(x), gate))
    same_gradients(layer, y, mixed(x, inner(x), gate))
    recorded = seen.layers[0]["transform"]
    batch = 2 if batched else 1
    assert recorded.count == batch * 4**axes
    expected = torch.sigmoid(gate(x)).reshape(batch, 3, -1).mean((0, 2))
    torch.testing.assert_close(recorded.mean.float(), expected.detach())


def test_a_closed_layer_still_hands_on_the_rest() -> None:
    layer, x = Highway(nn.GRU(4, 4, batch_first=True), nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(2, 3, 4)
    with lesion(layer, [1]):
        y, t, c, state = layer(x, return_gates=True)
        assert torch.equal(y, x)
        assert not t.any()
        assert torch.equal(c, torch.ones_like(x))
        assert torch.equal(state, layer.transform(x)[1])
        assert len(layer(x)) == 2


def test_what_is_neither_a_tensor_nor_begins_with_one_is_refused() -> None:
    class Names(nn.Module):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"last_hidden_state": x}

    with pytest.raises(TypeError, match=r"transform \(Names\) returns dict: give a module that returns a tensor first"):
        Highway(Names(), nn.Linear(3, 3))(torch.zeros(1, 3))
    with pytest.raises(TypeError, match="Highway takes a tensor, but got list"):
        Highway(nn.Linear(3, 3), nn.Linear(3, 3))([1.0, 2.0, 3.0])


def test_the_old_position_of_return_gates_still_works() -> None:
    layer, x = Highway(nn.Linear(3, 3), nn.Linear(3, 3)), torch.zeros(1, 3)
    with pytest.warns(FutureWarning, match=r"Highway\(…\)\(x, True\) is deprecated.*return_gates=True"):
        y, t = layer(x, True)
    assert y.shape == t.shape == (1, 3)
