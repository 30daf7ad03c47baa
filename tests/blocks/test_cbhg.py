"""CBHG: against a naive twin, forward and backward, and with padded sequences."""

import pytest
import torch
from torch import Tensor, nn

from highwaynet import CBHG, lesion, observe


class Naive(nn.Module):
    """The block step by step, as Tacotron's paper describes it (sections 3.1 and 4, table 1), with the weights of another one."""

    def __init__(self, block: CBHG) -> None:
        super().__init__()
        self.block = block

    def convolved(self, part: nn.Module, x: Tensor, *, activated: bool) -> Tensor:
        """(batch, time, in) → (batch, time, out): convolution, ReLU, batch norm, one step at a time."""
        weight, bias = part.convolution.weight, part.convolution.bias  # (out, in, width)
        width, steps = weight.shape[-1], x.shape[1]
        before = (width - 1) // 2
        columns = []
        for step in range(steps):
            total = bias
            for offset in range(width):
                place = step - before + offset
                if 0 <= place < steps:
                    total = total + x[:, place] @ weight[:, :, offset].T
            columns.append(total)
        z = torch.stack(columns, dim=1)
        z = torch.relu(z) if activated else z
        if part.training:
            mean, variance = z.mean((0, 1)), z.var((0, 1), unbiased=False)
        else:
            mean, variance = part.norm.running_mean, part.norm.running_var
        return (z - mean) / (variance + part.norm.eps).sqrt() * part.norm.weight + part.norm.bias

    def forward(self, x: Tensor) -> Tensor:
        block = self.block
        z = torch.cat([self.convolved(part, x, activated=True) for part in block.bank], dim=-1)
        z = torch.cat([torch.maximum(z[:, :-1], z[:, 1:]), z[:, -1:]], dim=1)
        z = self.convolved(block.projections[0], z, activated=True)
        y = block.resize(self.convolved(block.projections[1], z, activated=False) + x)
        for weight, bias in zip(block.highway.weight, block.highway.bias, strict=True):
            (wh, wt), (bh, bt) = weight.chunk(2), bias.chunk(2)
            t = torch.sigmoid(y @ wt.T + bt)
            y = torch.relu(y @ wh.T + bh) * t + y * (1 - t)
        return torch.cat([self.recurrent(y, ""), self.recurrent(y.flip(1), "_reverse").flip(1)], dim=-1)

    def recurrent(self, x: Tensor, end: str) -> Tensor:
        gru = self.block.gru
        wx, wh, bx, bh = (getattr(gru, f"{name}_l0{end}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        state, states = x.new_zeros(len(x), gru.hidden_size), []
        for step in x.unbind(1):
            (rx, zx, nx), (rh, zh, nh) = (step @ wx.T + bx).chunk(3, -1), (state @ wh.T + bh).chunk(3, -1)
            r, z = torch.sigmoid(rx + rh), torch.sigmoid(zx + zh)
            state = (1 - z) * torch.tanh(nx + r * nh) + z * state
            states.append(state)
        return torch.stack(states, dim=1)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("features", [6, 8])
def test_equals_its_naive_twin(features: int, training: bool) -> None:
    torch.manual_seed(0)
    block = CBHG(features, bank_size=4, bank_channels=3, projection_channels=5, highway_layers=2, highway_features=8, gru_features=4)
    block = block.double().train(training)
    assert isinstance(block.resize, nn.Identity if features == 8 else nn.Linear)
    with torch.no_grad():
        for buffer in block.buffers():
            if buffer.is_floating_point():
                buffer.add_(torch.rand_like(buffer))
    x = torch.randn(3, 7, features, dtype=torch.float64, requires_grad=True)
    mine, theirs = block(x), Naive(block)(x)
    torch.testing.assert_close(mine, theirs)
    inputs = [x, *block.parameters()]
    weights = torch.randn_like(mine)
    for a, b in zip(*(torch.autograd.grad((y * weights).sum(), inputs, retain_graph=True) for y in (mine, theirs)), strict=True):
        torch.testing.assert_close(a, b)


def test_padded_sequences_give_what_they_give_alone() -> None:
    torch.manual_seed(0)
    block = CBHG(6, bank_size=5, bank_channels=4, highway_features=8, gru_features=4).eval()
    with torch.no_grad():
        for module in block.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.running_mean.normal_()
                module.bias.normal_()
    x, lengths = torch.randn(3, 9, 6), [9, 1, 5]
    y = block(x, lengths)
    assert y.shape == (3, 9, 8)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(y[row, :length], block(x[row : row + 1, :length])[0])
        assert not y[row, length:].any()
    torch.testing.assert_close(block(x, torch.tensor([9, 9, 9])), block(x))


def test_sizes_of_tacotron() -> None:
    encoder, post = CBHG(128), CBHG(80, bank_size=8, projection_channels=256)
    bank = sum(128 * 128 * width + 128 for width in range(1, 17))
    assert sum(p.numel() for p in encoder.bank.parameters()) == bank + 16 * 2 * 128
    assert sum(p.numel() for p in encoder.highway.parameters()) == 4 * 2 * (128 * 128 + 128)
    assert encoder(torch.zeros(1, 5, 128)).shape == post(torch.zeros(1, 5, 80)).shape == (1, 5, 256)


def test_its_highway_layers_are_seen_and_closed() -> None:
    block, x = CBHG(6, bank_size=2, bank_channels=4, highway_features=8, gru_features=4).eval(), torch.randn(2, 5, 6)
    with observe(block) as seen:
        whole = block(x)
    assert [layer["transform"].values.shape for layer in seen] == [(2, 5, 8)] * 4
    with lesion(block, [1, 2, 3, 4]):
        assert not torch.equal(block(x), whole)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: CBHG(6, bank_size=0), "bank_size = 0"),
        (lambda: CBHG(6, highway_layers=0), "layers = 0"),
        (lambda: CBHG(6)(torch.zeros(2, 5, 7)), r"CBHG takes \(\.\.\., 6\), but the input has shape \(2, 5, 7\)"),
        (lambda: CBHG(6)(torch.zeros(5, 6)), r"CBHG takes \(batch, time, 6\), but the input has shape \(5, 6\)"),
        (lambda: CBHG(6)(torch.zeros(2, 5, 6), [5]), r"lengths = \[5\]: give 2 integers from 1 to 5"),
        (lambda: CBHG(6)(torch.zeros(2, 5, 6), [5, 6]), r"lengths = \[5, 6\]: give 2 integers from 1 to 5"),
    ],
)
def test_what_cannot_be_is_said(make: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()  # type: ignore[operator]
