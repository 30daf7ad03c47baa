"""A text classifier that reads characters: a character CNN with highway layers, on texts in four invented languages."""

import random

import torch
from torch import Tensor, nn

from highwaynet import CharacterCNN

random.seed(0)
torch.manual_seed(0)
ENDINGS = {"-an": ("ika", "ona", "ela"), "-en": ("sch", "keit", "ung"), "-is": ("ibus", "orum", "tas"), "-on": ("aki", "oru", "emi")}


def text(language: int) -> list[str]:
    """Six words, of which two have an ending of the language."""
    words = ["".join(random.choices("abcdefghijklmnoprstuvz", k=random.randint(3, 7))) for _ in range(6)]
    for place in random.sample(range(6), 2):
        words[place] += random.choice([*ENDINGS.values()][language])
    return words


def batch(size: int) -> tuple[Tensor, Tensor]:
    """Numbers of characters (texts, words, 12), 0 where a word has ended, and numbers of languages."""
    languages = [random.randrange(4) for _ in range(size)]
    numbers = [[[ord(c) - 96 for c in word.ljust(12, "`")] for word in text(language)] for language in languages]
    return torch.tensor(numbers), torch.tensor(languages)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = CharacterCNN(27, filters=[(2, 16), (3, 32), (4, 32)], highway_layers=2)
        self.head = nn.Linear(self.words.out_features, 4)

    def forward(self, characters: Tensor) -> Tensor:
        return self.head(self.words(characters).amax(dim=1))  # (texts, words, 80) → (texts, 4)


model = Classifier()
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(60):
    characters, languages = batch(64)
    loss = nn.functional.cross_entropy(model(characters), languages)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

characters, languages = batch(500)
with torch.no_grad():
    accuracy = (model.eval()(characters).argmax(1) == languages).float().mean().item()
print(f"loss {loss.item():.3f}, right languages {accuracy:.1%} of 500 new texts")
