"""Character CNN: against a naive twin, and with the parameter counts of the papers."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import CharacterCNN, observe


class Naive(nn.Module):
    """Word by word, filter by filter, position by position, and separate linear layers for H and T."""

    def __init__(self, block: CharacterCNN) -> None:
        super().__init__()
        self.block = block

    def forward(self, words: Tensor) -> Tensor:
        block, rows = self.block, []
        act = {"tanh": torch.tanh, "relu": torch.relu}[block.activation]
        for word in words:
            letters = torch.stack([block.embedding.weight[c] for c in word])  # (length, embedding)
            values = []
            for convolution in block.convolutions:
                width = convolution.kernel_size[0]
                padded = torch.cat([letters, letters.new_zeros(max(0, 10 - len(letters)), letters.shape[1])])[
                    : max(len(letters), self.widest())
                ]
                windows = [padded[start : start + width] for start in range(len(padded) - width + 1)]
                each = [torch.einsum("oew,we->o", convolution.weight, window) + convolution.bias for window in windows]
                values.append(act(torch.stack(each)).max(dim=0).values)
            x = torch.cat(values)
            for weight, bias in zip(block.highway.weight, block.highway.bias, strict=True):
                (wh, wt), (bh, bt) = weight.chunk(2), bias.chunk(2)
                t = torch.sigmoid(wt @ x + bt)
                x = torch.relu(wh @ x + bh) * t + x * (1 - t)
            rows.append(block.projection(x))
        return torch.stack(rows)

    def widest(self) -> int:
        return max(convolution.kernel_size[0] for convolution in self.block.convolutions)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("length", [2, 4, 9])
@pytest.mark.parametrize("out", [None, 3])
def test_equals_its_naive_twin(activation: str, length: int, out: int | None) -> None:
    torch.manual_seed(0)
    block = CharacterCNN(
        11, embedding_dim=5, filters=[(1, 2), (3, 4), (4, 3)], activation=activation, highway_layers=2, out_features=out
    ).double()
    words = torch.randint(0, 11, (6, length))
    mine, theirs = block(words), Naive(block)(words)
    torch.testing.assert_close(mine, theirs)
    assert block.embedding.weight[0].eq(0).all()
    parameters = [parameter for name, parameter in block.named_parameters() if name != "embedding.weight"]
    for a, b in zip(*(torch.autograd.grad(y.square().sum(), parameters, retain_graph=True) for y in (mine, theirs)), strict=True):
        torch.testing.assert_close(a, b)
    (a,), (b,) = (torch.autograd.grad(y.square().sum(), [block.embedding.weight]) for y in (mine, theirs))
    torch.testing.assert_close(a[1:], b[1:])
    assert not a[0].any(), "the padding stays 0"


def test_axes_and_padding() -> None:
    torch.manual_seed(0)
    block = CharacterCNN(20, filters=[(2, 4), (3, 4)])
    words = torch.randint(1, 20, (2, 3, 7))
    assert block(words).shape == (2, 3, 8)
    torch.testing.assert_close(block(words[0, 1]), block(words)[0, 1])
    with observe(block) as seen:
        block(words[0])
    assert seen.layers[0]["transform"].values.shape == (3, 8)
    assert seen.layers[0]["transform"].mean.mean() == pytest.approx(torch.sigmoid(torch.tensor(-2.0)).item(), abs=0.05)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def lstm(inputs: int, units: int) -> int:
    """Parameters of one layer of Kim's LSTM, which has one bias vector."""
    return 4 * units * (inputs + units + 1)


def test_parameter_counts_of_the_papers() -> None:
    words, characters = 10_000, 51  # the vocabularies of Penn Treebank
    small = count(CharacterCNN.kim_small(characters)) + lstm(525, 300) + lstm(300, 300) + 300 * words + words
    large = count(CharacterCNN.kim_large(characters)) + lstm(1100, 650) + lstm(650, 650) + 650 * words + words
    assert round(small / 1e6) == 5, "LSTM-Char-Small: 5 million (Kim et al., table 3)"
    assert round(large / 1e6) == 19, "LSTM-Char-Large: 19 million"
    # ELMo's language model: two layers in both directions, 4,096 cells projected to 512 (Peters et al., section 3.4).
    directions = 4 * (4 * 4096 * (512 + 512) + 4 * 4096 + 4096 * 512)
    assert round((count(CharacterCNN.elmo()) + directions) / 1e6, 1) == 93.6, "ELMo's original model: 93.6 million"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: CharacterCNN(0), "num_characters = 0"),
        (lambda: CharacterCNN(9, filters=[]), "filters is empty"),
        (lambda: CharacterCNN(9, filters=[(0, 3)]), "width of filters = 0"),
        (lambda: CharacterCNN(9, highway_layers=0), "layers = 0"),
        (lambda: CharacterCNN(9)(torch.zeros(2, 5)), r"integers \(\.\.\., length\), but the input is torch\.float32 of shape \(2, 5\)"),
        (lambda: CharacterCNN(9)(torch.zeros(2, 0).long()), r"of shape \(2, 0\)"),
        (lambda: CharacterCNN(9)(torch.tensor([[3, 9]])), "characters from 3 to 9: CharacterCNN has 9, numbered from 0 to 8"),
    ],
)
def test_what_cannot_be_is_said(make: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()  # type: ignore[operator]


def test_short_words_are_not_cut() -> None:
    torch.manual_seed(0)
    block = CharacterCNN(9, filters=[(4, 3)])
    short = torch.tensor([[1, 2]])
    torch.testing.assert_close(block(short), block(F.pad(short, (0, 2))))
