"""A small language model of characters: a recurrent highway layer with tied embeddings, in a training loop of one's own.

    python examples/characters.py FILE.txt [--minutes 2] [--width 256] [--depth 5]

The first nine tenths of the file are for training, the rest for validation. At the end the model writes some text of its own.
"""

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import RecurrentHighway

STEPS, BATCH, CLIP, RESTART = 64, 32, 1.0, 0.02


class Characters(nn.Module):
    """Predicts the next character. The head uses the weights of the embedding: a character has one vector, on the way in and out."""

    def __init__(self, characters: int, width: int, depth: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)  # of length 1, so that the head starts with logits of a useful size
        self.layer = RecurrentHighway(
            width, width, depth, gate_bias=-4.0, input_dropout=dropout, state_dropout=dropout, output_dropout=dropout
        )
        self.head = nn.Linear(width, characters)
        self.head.weight = self.embedding.weight  # weight tying

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Map characters (time, batch) to logits (time, batch, characters) and the last state."""
        outputs, state = self.layer(self.embedding(x), state)
        return self.head(outputs), state


def batches(text: Tensor, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Cut a text into `batch` long columns; yield inputs and targets of STEPS characters, one piece after the other."""
    length = (len(text) - 1) // batch
    x, y = (text[shift : shift + length * batch].view(batch, length).T for shift in (0, 1))
    for start in range(0, length, STEPS):
        yield x[start : start + STEPS], y[start : start + STEPS]


@torch.no_grad()
def bits(model: Characters, text: Tensor) -> float:
    """Return the bits that the model needs for each character of a text."""
    model.eval()
    state, total, count = None, 0.0, 0
    for x, y in batches(text, min(BATCH, len(text) - 1)):
        logits, state = model(x, state)
        total += F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum").item()
        count += y.numel()
    model.train()
    return total / count / math.log(2)


@torch.no_grad()
def write(model: Characters, names: str, start: str, count: int) -> str:
    """Let the model continue a text, character by character."""
    model.eval()
    text, state = start, None
    x = torch.tensor([[names.index(character)] for character in start])
    for _ in range(count):
        logits, state = model(x, state)
        x = torch.multinomial(logits[-1, 0].softmax(0), 1)[None]
        text += names[int(x)]
    return text


def train(model: Characters, training: Tensor, validation: Tensor, minutes: float, epochs: float = math.inf) -> float:
    """Train for some minutes, or epochs if they end before; print and return the bits per character of the validation text."""
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    began, epoch = time.monotonic(), 0
    while True:
        epoch, state = epoch + 1, None
        for x, y in batches(training, BATCH):
            logits, state = model(x, state)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
            # Gradients end here, the state goes on. A few columns begin anew, as validation and writing do.
            state = state.detach() * (torch.rand(BATCH, 1) > RESTART)
            if time.monotonic() - began > 60 * minutes:
                break
        found = bits(model, validation)
        seconds, last = time.monotonic() - began, loss.item() / math.log(2)
        print(f"epoch {epoch}, {seconds:.0f} s: last batch {last:.2f} bits per character, validation {found:.2f}")
        if epoch >= epochs or time.monotonic() - began > 60 * minutes:
            return found


def main(arguments: list[str] | None = None) -> float:
    """Read the file, train, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a text file, UTF-8")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to train")
    parser.add_argument("--epochs", type=float, default=math.inf, help="stop after this many passes through the text")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=5, help="micro-layers at each step")
    parser.add_argument("--dropout", type=float, default=0.0, help="variational, for inputs, states and outputs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        text = options.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"{options.file} cannot be read as text: {error}")
    if len(text) < 2000:
        parser.error(f"{options.file} has {len(text)} characters; give a text of at least 2,000")
    torch.manual_seed(options.seed)
    names = "".join(sorted(set(text)))
    numbers = {character: number for number, character in enumerate(names)}
    data = torch.tensor([numbers[character] for character in text])
    share = len(data) * 9 // 10
    model = Characters(len(names), options.width, options.depth, options.dropout)
    print(f"{len(text):,} characters, {len(names)} different ones, {sum(own.numel() for own in model.parameters()):,} parameters")
    found = train(model, data[:share], data[share:], options.minutes, options.epochs)
    print(write(model, names, text[0], 300))
    return found


if __name__ == "__main__":
    main()
