"""Sequence to sequence with CBHG: an encoder as in Tacotron and a decoder with attention learn to write digits backwards."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet import CBHG


class Backwards(nn.Module):
    def __init__(self, size: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, size)  # ten digits, and 10 for the start of a sequence
        self.encoder = CBHG(size, bank_size=4, bank_channels=16, projection_channels=size, highway_features=size, gru_features=size // 2)
        self.decoder = nn.GRU(size, size, batch_first=True)
        self.attention = nn.MultiheadAttention(size, 1, batch_first=True)
        self.head = nn.Linear(2 * size, 10)

    def forward(self, source: Tensor, written: Tensor) -> Tensor:
        memory, (query, _) = self.encoder(self.embedding(source)), self.decoder(self.embedding(written))  # (batch, time, size)
        return self.head(torch.cat([query, self.attention(query, memory, memory)[0]], dim=-1))  # (batch, time, digits)


torch.manual_seed(0)
model = Backwards()
optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
for _ in range(200):
    source = torch.randint(10, (64, 6))
    written = F.pad(source.flip(1), (1, 0), value=10)  # before each place, the decoder sees the right digits
    loss = F.cross_entropy(model(source, written[:, :-1]).mT, written[:, 1:])
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

source, written = torch.randint(10, (200, 6)), torch.full((200, 1), 10)
for _ in range(6):  # now it sees what it wrote itself
    written = torch.cat([written, model.eval()(source, written)[:, -1:].argmax(-1)], dim=1)
accuracy = (written[:, 1:] == source.flip(1)).float().mean().item()
print(f"loss {loss.item():.3f}, right digits {accuracy:.1%} in 200 new sequences")
