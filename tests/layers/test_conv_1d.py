"""Highway layers on sequences: against two convolutions, causal where they say so, and what they refuse."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import ConvHighway1d, lesion

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "identity": lambda x: x}


class Naive(nn.Module):
    """The textbook layer: one convolution for each part, and explicit zeros."""

    def __init__(self, layer: ConvHighway1d) -> None:
        super().__init__()
        channels, kernel = layer.channels, layer.kernel_size
        parts = len(layer.bias) // channels
        self.parts = nn.ModuleList(nn.Conv1d(channels, channels, kernel, dilation=layer.dilation) for _ in range(parts))
        reach = (kernel - 1) * layer.dilation
        self.zeros = nn.ZeroPad1d((reach, 0) if layer.causal else (reach // 2, reach - reach // 2))
        self.act = ACTIVATIONS[layer.activation]
        with torch.no_grad():
            for part, weight, bias in zip(self.parts, layer.weight.chunk(parts), layer.bias.chunk(parts), strict=True):
                part.weight.copy_(weight)
                part.bias.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        h, t, *c = (part(self.zeros(x)) for part in self.parts)
        t = torch.sigmoid(t)
        return self.act(h) * t + x * (torch.sigmoid(c[0]) if c else 1 - t)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("carry", ["coupled", "independent"])
@pytest.mark.parametrize(("kernel", "dilation", "causal"), [(3, 1, False), (3, 4, True), (1, 1, True), (2, 3, False), (5, 2, False)])
def test_equals_its_naive_twin(kernel: int, dilation: int, causal: bool, carry: str, activation: str) -> None:
    torch.manual_seed(0)
    layer = ConvHighway1d(4, kernel, dilation=dilation, causal=causal, carry=carry, activation=activation)
    twin = Naive(layer)
    x, weights = torch.randn(3, 4, 11), torch.randn(3, 4, 11)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [module(value) for module, value in zip((layer, twin), inputs, strict=True)]
    torch.testing.assert_close(*outputs)
    for output in outputs:
        (output * weights).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    torch.testing.assert_close(layer.weight.grad, torch.cat([part.weight.grad for part in twin.parts]))
    torch.testing.assert_close(layer.bias.grad, torch.cat([part.bias.grad for part in twin.parts]))


@pytest.mark.parametrize("carry", ["coupled", "independent"])
def test_causal_layers_do_not_look_ahead(carry: str) -> None:
    torch.manual_seed(0)
    stack = nn.Sequential(*(ConvHighway1d(3, dilation=step, causal=True, carry=carry, gate_bias=0.0) for step in (1, 3, 9)))
    x = torch.randn(2, 3, 40, requires_grad=True)
    y = stack(x)
    for place in (0, 7, 39):
        (gradient,) = torch.autograd.grad(y[:, :, place].sum(), x, retain_graph=True)
        assert not gradient[:, :, place + 1 :].any(), "no later step has an influence"
        assert gradient[:, :, place].abs().min() > 0
        assert not gradient[:, :, : max(0, place - 26)].any(), "three layers reach back 2·(1 + 3 + 9) steps"
    assert torch.autograd.grad(y[:, :, 39].sum(), x)[0][:, :, 13].abs().sum() > 0
    torch.testing.assert_close(stack(x[:, :, :17]), y[:, :, :17])
    changed = x.detach().clone()
    changed[:, :, 20:] = 100.0
    assert torch.equal(stack(changed)[:, :, :20], y[:, :, :20])
    assert not torch.equal(ConvHighway1d(3)(changed)[:, :, 19], ConvHighway1d(3)(x)[:, :, 19])


def test_the_layer_of_dc_tts() -> None:
    """Their layer: the first half of one convolution is the gate, the second the candidate, without an activation."""
    torch.manual_seed(0)
    layer, x = ConvHighway1d(4, 3, dilation=2, causal=True, activation="identity"), torch.randn(2, 4, 9)
    weight, bias = torch.cat(layer.weight.chunk(2)[::-1]), torch.cat(layer.bias.chunk(2)[::-1])
    first, second = F.conv1d(F.pad(x, (4, 0)), weight, bias, dilation=2).chunk(2, dim=1)
    torch.testing.assert_close(layer(x), torch.sigmoid(first) * second + (1 - torch.sigmoid(first)) * x)


def test_start_lesion_and_parameters() -> None:
    layer = ConvHighway1d(16, 5, depth=30)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 2 * (16 * 16 * 5 + 16)
    assert torch.equal(layer.gate_bias, torch.full((1, 16), -3.0))
    assert layer.gate_weight.shape == (1, 16, 16, 5)
    x = torch.randn(2, 16, 7)
    with lesion(layer, [1]):
        y, t = layer(x, return_gates=True)
        assert torch.equal(y, x)
        assert not t.any()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ConvHighway1d(0), "channels = 0: must be at least 1"),
        (lambda: ConvHighway1d(4, 0), "kernel_size = 0"),
        (lambda: ConvHighway1d(4, dilation=0), "dilation = 0"),
        (lambda: ConvHighway1d(4, depth=0), "depth = 0"),
        (lambda: ConvHighway1d(4, carry="none"), "unknown carry 'none'"),
        (
            lambda: ConvHighway1d(4)(torch.zeros(2, 7, 4)),
            r"ConvHighway1d takes \(batch, 4, time\) or \(4, time\), but the input has shape \(2, 7, 4\)",
        ),
    ],
)
def test_what_cannot_be_is_said(make: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()  # type: ignore[operator]
