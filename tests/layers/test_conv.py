"""Convolutional layers against naive twins: two convolutions and h·t + x·(1 − t), a block written out, pieces one by one."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import ConvHighway, ConvMaxout, ConvPlain, ConvResidual, DenseMaxout, lesion
from highwaynet.layers.convolution import channels_last
from highwaynet.layers.lesion import Closable
from highwaynet.layers.shape_change import PadChannels, Subsample

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "identity": lambda x: x}


class NaiveHighway(nn.Module):
    """The textbook layer, in torch's default memory layout."""

    def __init__(self, layer: ConvHighway) -> None:
        super().__init__()
        channels, kernel = layer.channels, layer.kernel_size
        self.h, self.t = (nn.Conv2d(channels, channels, kernel) for _ in range(2))
        near, far = (kernel - 1) // 2, kernel // 2
        self.pad = nn.ZeroPad2d((near, far, near, far))
        self.act = ACTIVATIONS[layer.activation]
        with torch.no_grad():
            for convolution, weight, bias in zip((self.h, self.t), layer.weight.chunk(2), layer.bias.chunk(2), strict=True):
                convolution.weight.copy_(weight)
                convolution.bias.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        h, t = self.act(self.h(self.pad(x))), torch.sigmoid(self.t(self.pad(x)))
        return h * t + x * (1 - t)


@pytest.mark.parametrize("readable", [False, True], ids=["fast", "readable"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("channels", "kernel"), [(16, 3), (32, 3), (5, 3), (16, 1), (7, 5), (1, 3), (4, 2), (3, 4)])
def test_one_convolution_equals_two(channels: int, kernel: int, activation: str, readable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if readable:
        monkeypatch.setattr("highwaynet.layers.conv_highway.can_gate", lambda x, z: False)
    layer = ConvHighway(channels, kernel, activation=activation, generator=torch.Generator().manual_seed(0))
    naive = NaiveHighway(layer)
    torch.manual_seed(1)
    x, weights = torch.randn(3, channels, 9, 6), torch.randn(3, channels, 9, 6)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [module(value) for module, value in zip((layer, naive), inputs, strict=True)]
    torch.testing.assert_close(outputs[0], outputs[1], atol=1e-5, rtol=1e-5)
    for output in outputs:
        (output * weights).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, atol=1e-5, rtol=1e-4)
    weight = torch.cat([naive.h.weight.grad, naive.t.weight.grad])
    bias = torch.cat([naive.h.bias.grad, naive.t.bias.grad])
    torch.testing.assert_close(layer.weight.grad, weight, atol=1e-5 * weight.abs().max().item() + 1e-5, rtol=1e-4)
    torch.testing.assert_close(layer.bias.grad, bias, atol=1e-5 * bias.abs().max().item() + 1e-5, rtol=1e-4)


@pytest.mark.parametrize("carry", ["coupled", "independent"])
def test_gradients_against_finite_differences(carry: str) -> None:
    layer = ConvHighway(2, activation="tanh", carry=carry).double()
    x = torch.randn(2, 2, 3, 3, dtype=torch.float64, requires_grad=True)

    def function(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    assert torch.autograd.gradcheck(function, (x, layer.weight, layer.bias))


class TestConvHighway:
    """What holds of every highway layer, here for maps."""

    @pytest.mark.parametrize("bias", [-1.0, -2.0, -4.0])
    @pytest.mark.parametrize("init", ["he", "glorot-uniform", "glorot-normal", "orthogonal"])
    def test_fresh_gates_start_at_the_bias(self, bias: float, init: str) -> None:
        layer = ConvHighway(32, gate_bias=bias, init=init, generator=torch.Generator().manual_seed(0))
        x = torch.randn(20, 32, 8, 8, generator=torch.Generator().manual_seed(1))
        y, t = layer(x, return_gates=True)
        assert abs(t.mean() - torch.sigmoid(torch.tensor(bias))) < 0.05
        assert t.shape == y.shape == x.shape
        assert torch.equal(layer.gate_bias, torch.full((1, 32), bias))

    @pytest.mark.parametrize(("value", "expected"), [(-torch.inf, 0.0), (torch.inf, 1.0)])
    def test_both_ends_are_exact(self, value: float, expected: float) -> None:
        layer, x = ConvHighway(16), torch.randn(2, 16, 5, 5)
        with torch.no_grad():
            layer.gate_weight.zero_()
            layer.gate_bias.fill_(value)
        y, t = layer(x, return_gates=True)
        assert torch.equal(t, torch.full_like(x, expected))
        h = torch.relu(F.conv2d(channels_last(x), layer.weight, layer.bias, padding=1)[:, :16])
        assert torch.equal(y, h if expected else x)
        assert torch.equal(layer(x), y)

    def test_independent_carry_gate(self) -> None:
        layer, x = ConvHighway(4, carry="independent", gate_bias=-2.0), torch.randn(2, 4, 5, 5)
        y, t, c = layer(x, return_gates=True)
        h = torch.relu(F.conv2d(x, layer.weight[:4], layer.bias[:4], padding=1))
        torch.testing.assert_close(y, h * t + x * c)
        assert layer.bias.tolist() == [0.0] * 4 + [-2.0] * 4 + [2.0] * 4

    def test_auto_gate_bias_follows_the_depth(self) -> None:
        starts = [ConvHighway(2, depth=depth).start_gate_bias for depth in (None, 5, 10, 20, 30, 100)]
        assert starts == [-1.0, -1.0, -1.0, -2.0, -3.0, -4.0]

    @pytest.mark.parametrize("carry", ["coupled", "independent"])
    def test_a_closed_layer_copies_its_input(self, carry: str) -> None:
        layer, x = ConvHighway(4, carry=carry), torch.randn(2, 4, 5, 5)
        assert isinstance(layer, Closable)
        open_ = layer(x)
        with lesion(layer, [1]):
            y, t, *c = layer(x, return_gates=True)
            assert torch.equal(y, x)
            assert torch.equal(layer(x), x)
            assert not t.any()
            assert all(torch.equal(gate, torch.ones_like(x)) for gate in c)
        assert torch.equal(layer(x), open_)

    def test_return_gates_changes_nothing(self) -> None:
        layer, x = ConvHighway(16), torch.randn(4, 16, 8, 8)
        torch.testing.assert_close(layer(x, return_gates=True)[0], layer(x), atol=1e-6, rtol=1e-6)

    def test_mixed_precision_keeps_what_is_carried(self) -> None:
        layer, x = ConvHighway(16), torch.randn(4, 16, 8, 8)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(x)
        assert y.dtype == torch.float32
        torch.testing.assert_close(y, layer(x), atol=0.05, rtol=0.05)

    def test_gradients_of_each_sample(self) -> None:
        layer, x = ConvHighway(4), torch.randn(5, 4, 6, 6)
        parameters = dict(layer.named_parameters())

        def loss(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
            return torch.func.functional_call(layer, parameters, (sample[None],)).square().sum()

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
        layer(x).square().sum().backward()
        for name, parameter in layer.named_parameters():
            torch.testing.assert_close(each[name].sum(0), parameter.grad, atol=1e-3, rtol=1e-4)

    def test_exported(self) -> None:
        layer, x = ConvHighway(4).eval(), torch.randn(2, 4, 6, 6)
        program = torch.export.export(layer, (x,))
        assert not any("highwaynet" in str(node.target) for node in program.graph.nodes), "export goes through the torch version"
        torch.testing.assert_close(program.module()(x), layer(x), atol=1e-6, rtol=1e-6)

    @pytest.mark.parametrize(
        ("make", "sentence"),
        [
            (lambda: ConvHighway(4, carry="none"), "unknown carry 'none'"),
            (lambda: ConvHighway(4, 0), "kernel_size = 0: must be at least 1"),
            (lambda: ConvHighway(4, activation="swish"), "unknown activation 'swish'"),
            (
                lambda: ConvHighway(4)(torch.zeros(1, 3, 8, 8)),
                r"ConvHighway takes \(batch, 4, height, width\) or \(4, height, width\), but the input has shape \(1, 3, 8, 8\)",
            ),
            (lambda: ConvHighway(4)(torch.zeros(4, 8)), r"the input has shape \(4, 8\)"),
            (lambda: ConvPlain(4, 8)(torch.zeros(1, 3, 8, 8)), r"takes \(batch, 4"),
            (lambda: ConvPlain(4, 8, 2, stride=2), "padding 'same' needs an odd window"),
            (lambda: ConvMaxout(4, 8)(torch.zeros(1, 3, 8, 8)), r"takes \(batch, 4"),
            (lambda: DenseMaxout(4, 8, 0), "pieces = 0"),
            (lambda: ConvResidual(4, shortcut="none"), "unknown shortcut 'none'"),
            (
                lambda: PadChannels(2)(torch.zeros(1, 3, 2, 2)),
                r"PadChannels takes \(batch, at most 2, height, width\).*shape \(1, 3, 2, 2\)",
            ),
            (lambda: Subsample(0), "stride = 0"),
        ],
    )
    def test_what_cannot_be_is_said(self, make: object, sentence: str) -> None:
        with pytest.raises(ValueError, match=sentence):
            make()  # type: ignore[operator]


@pytest.mark.parametrize(("stride", "outputs", "shortcut"), [(1, None, "pad"), (2, 8, "pad"), (2, 8, "project"), (1, 6, "project")])
@pytest.mark.parametrize("norm", [True, False])
def test_residual_block_written_out(stride: int, outputs: int | None, shortcut: str, norm: bool) -> None:
    torch.manual_seed(0)
    block = ConvResidual(4, outputs, stride=stride, norm=norm, shortcut=shortcut)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # biases, too
    x, out = torch.randn(5, 4, 6, 6), outputs or 4

    def normed(z: Tensor, layer: ConvPlain) -> Tensor:
        return F.batch_norm(z, None, None, layer.norm.weight, layer.norm.bias, training=True) if norm else z + layer.bias[:, None, None]

    f = normed(F.conv2d(x, block.first.weight, stride=stride, padding=1), block.first)
    f = normed(F.conv2d(torch.relu(f), block.second.weight, padding=1), block.second)
    if shortcut == "project" and (stride, out) != (1, 4):
        carried = normed(F.conv2d(x, block.shortcut.weight, stride=stride), block.shortcut)
    else:
        carried = torch.zeros(5, out, *f.shape[2:])
        carried[:, :4] = x[:, :, ::stride, ::stride]
    torch.testing.assert_close(block(x), torch.relu(carried + f), atol=1e-5, rtol=1e-4)
    with lesion(block, [1]):
        torch.testing.assert_close(block(x), carried, atol=1e-5, rtol=1e-4)


def test_a_residual_block_starts_anew_as_it_started() -> None:
    block = ConvResidual(64, norm=False, start_scale=0.1)
    start = block.second.weight.std().item()
    with torch.no_grad():
        block.second.weight.fill_(1.0)
    block.reset_parameters()
    assert block.second.weight.std().item() == pytest.approx(start, rel=0.05)
    assert start == pytest.approx(0.1 * block.first.weight.std().item(), rel=0.05)


@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_maxout_is_the_largest_of_its_pieces(pieces: int) -> None:
    torch.manual_seed(0)
    dense, conv = DenseMaxout(6, 4, pieces), ConvMaxout(3, 4, 3, pieces)
    with torch.no_grad():
        for layer in (dense, conv):
            layer.bias.normal_()
    x = torch.randn(7, 6)
    expected = torch.stack([F.linear(x, w, b) for w, b in zip(dense.weight.chunk(pieces), dense.bias.chunk(pieces), strict=True)]).amax(0)
    torch.testing.assert_close(dense(x), expected)
    maps = torch.randn(2, 3, 5, 5)
    each = [F.conv2d(maps, w, b, padding=1) for w, b in zip(conv.weight.chunk(pieces), conv.bias.chunk(pieces), strict=True)]
    torch.testing.assert_close(conv(maps), torch.stack(each).amax(0))


@pytest.mark.parametrize("shape", [(2, 1, 5, 5), (2, 3, 1, 1), (1, 1, 1, 1), (0, 3, 4, 4), (2, 3, 4, 5)])
def test_channels_last_is_unambiguous(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    y = channels_last(x)
    assert torch.equal(x, y)
    assert y.stride() == (shape[1] * shape[2] * shape[3], 1, shape[1] * shape[3], shape[1])
    assert channels_last(y) is y
