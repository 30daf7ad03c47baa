"""Members: several networks in one that share all weights but the factors of their inputs and the last layer.

Each learns on its own; the answer is the mean of their answers. After BatchEnsemble (Wen et al. 2020, https://arxiv.org/abs/2002.06715) and
TabM (Gorishniy et al. 2024, https://arxiv.org/abs/2410.24210).
"""

import torch
from torch import Generator, Tensor, nn


class Members(nn.Module):
    """Makes a copy of the input for each member, scaled by factors of its own; they start at +1 or −1.

    Args:
        features: Size of the input.
        count: Number of members.
        generator: Random generator for the signs; torch's global generator if None.
    """

    def __init__(self, features: int, count: int, generator: Generator | None = None) -> None:
        super().__init__()
        signs = torch.randint(2, (1, count, features), generator=generator) * 2.0 - 1
        self.factors = nn.Parameter(signs)  # (1, members, features)

    @property
    def count(self) -> int:
        """Number of members."""
        return self.factors.shape[1]

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, features) to (batch, members, features)."""
        return x.unsqueeze(1) * self.factors

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return f"features={self.factors.shape[2]}, count={self.count}"


class MemberJoin(nn.Module):
    """Puts the states of all members side by side, divided by their number, so that the last layer computes the mean of their answers.

    Args:
        count: Number of members.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, members, width) to (batch, members·width)."""
        return x.flatten(1) / self.count
