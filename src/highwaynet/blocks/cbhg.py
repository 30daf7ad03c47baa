"""CBHG of Tacotron: a bank of convolutions, highway layers and a bidirectional GRU (Wang et al. 2017, https://arxiv.org/abs/1703.10135)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from highwaynet.layers.checks import check_features, check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.gate_bias import GateBias

T = TypeVar("T", Tensor, PackedSequence)


class CBHG(nn.Module):
    """Features of a sequence, (batch, time, in_features) → (batch, time, 2·gru_features).

    Convolutions of width 1 to `bank_size`, each with ReLU and batch norm, are concatenated and max-pooled over two steps. Two convolutions
    of width 3 project the result to the size of the input, which is added. Highway layers and a bidirectional GRU follow.

    Args:
        in_features: Size of the input at each step.
        bank_size: Number of convolutions in the bank, and the largest width. Tacotron's encoder has 16, its post-processing net 8.
        bank_channels: Channels of each convolution in the bank.
        projection_channels: Channels of the first projection; the second has `in_features`. The post-processing net has 256.
        highway_layers: Number of highway layers.
        highway_features: Width of the highway layers. If it is not `in_features`, a linear layer before them changes the size.
        gate_bias: Initial bias of their transform gates, or "auto".
        gru_features: Units of the GRU in each direction.

    >>> encoder = CBHG(128)
    >>> encoder(torch.zeros(2, 30, 128)).shape
    torch.Size([2, 30, 256])
    >>> post_net = CBHG(80, bank_size=8, projection_channels=256)
    >>> post_net(torch.zeros(2, 30, 80), lengths=torch.tensor([30, 12])).shape
    torch.Size([2, 30, 256])
    """

    def __init__(
        self,
        in_features: int,
        *,
        bank_size: int = 16,
        bank_channels: int = 128,
        projection_channels: int = 128,
        highway_layers: int = 4,
        highway_features: int = 128,
        gate_bias: GateBias = "auto",
        gru_features: int = 128,
    ) -> None:
        super().__init__()
        check_sizes(in_features=in_features, bank_size=bank_size, bank_channels=bank_channels, projection_channels=projection_channels)
        check_sizes(highway_features=highway_features, gru_features=gru_features)
        self.in_features = in_features
        self.bank = nn.ModuleList(_Convolution(in_features, bank_channels, width) for width in range(1, bank_size + 1))
        self.projections = nn.ModuleList(
            [
                _Convolution(bank_size * bank_channels, projection_channels, 3),
                _Convolution(projection_channels, in_features, 3, activated=False),
            ]
        )
        self.resize = nn.Identity() if in_features == highway_features else nn.Linear(in_features, highway_features)
        self.highway = DenseHighway(highway_features, layers=highway_layers, activation="relu", gate_bias=gate_bias)
        self.gru = nn.GRU(highway_features, gru_features, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, lengths: Tensor | Sequence[int] | None = None) -> Tensor:
        """Compute the features of sequences.

        Args:
            x: Sequences (batch, time, in_features).
            lengths: Number of steps of each sequence (batch), if they are padded. In evaluation mode, each sequence then gives what it
                gives alone, and 0 behind its end.
        """
        if is_foreign(x):
            return not_a_tensor(self, x, lengths=lengths)
        check_features(self, x, next(self.bank[0].parameters()), self.in_features)
        if x.dim() != 3:
            raise ValueError(f"CBHG takes (batch, time, {self.in_features}), but the input has shape {tuple(x.shape)}")
        ends = None if lengths is None else _checked(lengths, x)
        mask = None if ends is None else (torch.arange(x.shape[1], device=x.device) < ends[:, None])[:, None]  # (batch, 1, time)
        z = _cleared(x.mT, mask)  # (batch, in_features, time)
        z = torch.cat([convolution(z) for convolution in self.bank], dim=1)  # (batch, bank_size·bank_channels, time)
        z = F.max_pool1d(F.pad(_cleared(z, mask, -torch.inf), (0, 1), value=-torch.inf), 2, stride=1)
        for projection in self.projections:
            z = projection(_cleared(z, mask))
        y = self.highway(self.resize(z.mT + x))  # (batch, time, highway_features)
        if ends is None:
            return self._recurrent(y)
        packed = self._recurrent(pack_padded_sequence(y, ends.cpu(), batch_first=True, enforce_sorted=False))
        return pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])[0]

    def _recurrent(self, y: T) -> T:
        """Return the states of the GRU in both directions."""
        states: T
        states, _ = self.gru(y)
        return states

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward


class _Convolution(nn.Module):
    """A convolution over time that keeps the length, then ReLU and batch norm, in Tacotron's order."""

    def __init__(self, in_channels: int, out_channels: int, width: int, *, activated: bool = True) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(in_channels, out_channels, width)
        self.norm = nn.BatchNorm1d(out_channels)
        self.activated = activated
        self.zeros = (width - 1) // 2, width // 2  # before and after

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, in_channels, time) to (batch, out_channels, time)."""
        z = self.convolution(F.pad(x, self.zeros))
        y: Tensor = self.norm(torch.relu(z) if self.activated else z)
        return y


def _cleared(x: Tensor, mask: Tensor | None, value: float = 0.0) -> Tensor:
    """Return x (batch, channels, time) with this value behind the ends of the sequences."""
    return x if mask is None else x.masked_fill(~mask, value)


def _checked(lengths: Tensor | Sequence[int], x: Tensor) -> Tensor:
    ends = torch.as_tensor(lengths, device=x.device)
    if ends.shape != x.shape[:1] or ends.is_floating_point() or not bool(((ends >= 1) & (ends <= x.shape[1])).all()):
        raise ValueError(f"lengths = {ends.tolist()}: give {len(x)} integers from 1 to {x.shape[1]}, the steps of each sequence")
    return ends
