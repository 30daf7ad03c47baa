"""Character CNN with highway layers: words from their characters (Kim et al. 2016, https://arxiv.org/abs/1508.06615).

ELMo uses the same block with other sizes (Peters et al. 2018, https://arxiv.org/abs/1802.05365).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet.layers.activations import activation_function
from highwaynet.layers.checks import check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.gate_bias import GateBias
from highwaynet.layers.names import Activation

KIM_SMALL = tuple((width, 25 * width) for width in range(1, 7))
KIM_LARGE = tuple((width, min(200, 50 * width)) for width in range(1, 8))
ELMO = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


class CharacterCNN(nn.Module):
    """Vectors of words from their characters: embedding, convolutions of several widths, maximum over time, highway layers.

    Characters are numbers (..., length); number `padding` is an empty place, whose embedding is 0. The result is (..., out_features).

    Args:
        num_characters: Number of different characters, with the padding.
        embedding_dim: Size of the characters' embedding.
        filters: Width and number of the filters of each convolution.
        activation: Activation of the convolutions.
        highway_layers: Number of highway layers; their width is the number of all filters.
        highway_activation: Activation of the highway layers.
        gate_bias: Initial bias of their transform gates. Both papers use −2.
        out_features: Size of a linear projection behind the highway layers; None for no projection.
        padding: Number of the empty character; None if there is none.

    >>> words = CharacterCNN.kim_small(num_characters=51)
    >>> words(torch.randint(1, 51, (2, 10, 21))).shape  # 2 sentences of 10 words with up to 21 characters
    torch.Size([2, 10, 525])
    """

    def __init__(
        self,
        num_characters: int,
        *,
        embedding_dim: int = 15,
        filters: Sequence[tuple[int, int]] = KIM_SMALL,
        activation: Activation = "tanh",
        highway_layers: int = 1,
        highway_activation: Activation = "relu",
        gate_bias: GateBias = -2.0,
        out_features: int | None = None,
        padding: int | None = 0,
    ) -> None:
        super().__init__()
        check_sizes(num_characters=num_characters, embedding_dim=embedding_dim)
        if not filters:
            raise ValueError("filters is empty: give width and number of each convolution's filters, for instance [(3, 50), (5, 50)]")
        for width, count in filters:
            check_sizes(**{"width of filters": width, "number of filters": count})
        self.activation = activation
        self._act = activation_function(activation)
        features, self.widest = sum(count for _, count in filters), max(width for width, _ in filters)
        self.embedding = nn.Embedding(num_characters, embedding_dim, padding_idx=padding)
        self.convolutions = nn.ModuleList(nn.Conv1d(embedding_dim, count, width) for width, count in filters)
        self.highway = DenseHighway(features, layers=highway_layers, activation=highway_activation, gate_bias=gate_bias)
        self.projection = nn.Identity() if out_features is None else nn.Linear(features, out_features)
        self.out_features = features if out_features is None else out_features

    @classmethod
    def kim_small(cls, num_characters: int) -> Self:
        """Return the block of LSTM-Char-Small: 525 filters of width 1 to 6, one highway layer."""
        return cls(num_characters, filters=KIM_SMALL, highway_layers=1)

    @classmethod
    def kim_large(cls, num_characters: int) -> Self:
        """Return the block of LSTM-Char-Large: 1,100 filters of width 1 to 7, two highway layers."""
        return cls(num_characters, filters=KIM_LARGE, highway_layers=2)

    @classmethod
    def elmo(cls, num_characters: int = 262) -> Self:
        """Return the block of ELMo: 2,048 filters of width 1 to 7, two highway layers, projected to 512."""
        return cls(num_characters, embedding_dim=16, filters=ELMO, activation="relu", highway_layers=2, out_features=512)

    def forward(self, characters: Tensor) -> Tensor:
        """Map numbers of characters (..., length) to (..., out_features)."""
        if is_foreign(characters):
            return not_a_tensor(self, characters)
        if characters.is_floating_point() or not characters.dim() or not characters.shape[-1]:
            came = f"{characters.dtype} of shape {tuple(characters.shape)}"
            raise ValueError(f"CharacterCNN takes numbers of characters, integers (..., length), but the input is {came}")
        words = characters.reshape(-1, characters.shape[-1])  # (words, length)
        x = self._embedded(words).mT  # (words, embedding, length)
        x = F.pad(x, (0, max(0, self.widest - words.shape[-1])))  # short words get as many empty places as the widest filter needs
        found = [self._act(convolution(x)).amax(dim=-1) for convolution in self.convolutions]  # (words, filters) each
        y: Tensor = self.projection(self.highway(torch.cat(found, dim=-1)))
        return y.view(*characters.shape[:-1], self.out_features)

    def _embedded(self, words: Tensor) -> Tensor:
        try:
            embedded: Tensor = self.embedding(words)
        except IndexError:
            most = self.embedding.num_embeddings
            message = f"characters from {int(words.min())} to {int(words.max())}: CharacterCNN has {most}, numbered from 0 to {most - 1}"
            raise ValueError(message) from None
        return embedded

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward
