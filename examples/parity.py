"""n-bit parity with a recurrent highway layer, in a training loop of one's own: is the number of ones in a string odd?

    python examples/parity.py [--depth 3] [--seed 0]

Trains on strings of 1 to 20 bits until the loss of a batch is below 0.001, and then asks for the parity of much longer strings.
"""

import argparse
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import RecurrentHighway

LONGEST, BATCH, ENOUGH = 20, 128, 1e-3


class Strings(NamedTuple):
    """A padded batch of strings."""

    bits: Tensor  # (batch, longest, 1), −1 or 1
    lengths: Tensor  # (batch)
    parity: Tensor  # (batch), 0 or 1


def draw_strings(count: int, shortest: int, longest: int) -> Strings:
    """Draw random strings with lengths between `shortest` and `longest`."""
    lengths = torch.randint(shortest, longest + 1, (count,))
    ones = torch.randint(2, (count, longest)) * (torch.arange(longest) < lengths[:, None])
    return Strings(2.0 * ones[..., None] - 1, lengths, ones.sum(1) % 2)


class Parity(nn.Module):
    """Reads a string bit by bit; the last state decides."""

    def __init__(self, depth: int, width: int = 16) -> None:
        super().__init__()
        self.layer = RecurrentHighway(1, width, depth, gate_bias=-1.0, init_range=0.5, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, bits: Tensor, lengths: Tensor) -> Tensor:
        """Return a number for each string, positive for odd."""
        _, last = self.layer(bits, lengths=lengths)
        return self.head(last[0]).squeeze(1)  # type: ignore[no-any-return]


def train(model: Parity, most_steps: int) -> int:
    """Train until the model can do it; return the number of steps."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(1, most_steps + 1):
        strings = draw_strings(BATCH, 1, LONGEST)
        loss = F.binary_cross_entropy_with_logits(model(strings.bits, strings.lengths), strings.parity.float())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
        if loss.item() < ENOUGH:
            return step
    return most_steps


@torch.no_grad()
def accuracy(model: Parity, length: int, count: int = 1000) -> float:
    """Return the share of right answers for strings of one length."""
    strings = draw_strings(count, length, length)
    return ((model(strings.bits, strings.lengths) > 0) == strings.parity.bool()).double().mean().item()


def main(arguments: list[str] | None = None) -> dict[int, float]:
    """Train, then test on strings up to 500 times as long as those of training; return the accuracy by length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=3, help="micro-layers at each step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-steps", type=int, default=5000, help="stop after this many training steps")
    parser.add_argument("--factors", type=int, nargs="+", default=[1, 4, 16, 50, 500], help="how many times longer the tested strings are")
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    model = Parity(options.depth)
    print(f"trained on strings of 1 to {LONGEST} bits, {train(model, options.most_steps)} steps")
    found = {LONGEST * factor: accuracy(model, LONGEST * factor, count=1000 if factor < 50 else 100) for factor in options.factors}
    for length, share in found.items():
        print(f"{length:6,} bits: {share:.1%} right")
    return found


if __name__ == "__main__":
    main()
