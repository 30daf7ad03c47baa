"""Batches of sequences as packed rows, whatever form the caller has: time first, batch first, one sequence, padded with lengths, packed.

Packed rows are those of torch's `PackedSequence`: all rows of a time step together, and the longest sequence first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

SequenceForm = Literal["time-first", "batch-first", "single", "packed"]


@dataclass(frozen=True)
class PackedRows:
    """The rows of a batch of sequences."""

    data: Tensor
    """The rows, (rows, features)."""
    counts: Tensor
    """Number of rows of each step, int64 on the CPU."""
    form: SequenceForm
    """How the caller gave them, and gets the outputs."""
    batch: int
    """Number of sequences."""
    steps: int
    """Number of steps of the padded batch."""
    sorted_indices: Tensor | None = None
    """The sequence of each row of a step; None if they are in the caller's order."""
    unsorted_indices: Tensor | None = None
    """The inverse of `sorted_indices`."""
    padded: bool = False
    """Whether sequences may have different lengths."""

    def ordered(self, values: Tensor) -> Tensor:
        """Put values of each sequence, (batch, ...), into the order of the rows."""
        return values if self.sorted_indices is None else values.index_select(0, self.sorted_indices)

    def spread(self, values: Tensor) -> Tensor:
        """Give each row the values of its sequence: (batch, features) in the order of the rows to (rows, features)."""
        if not self.padded:
            return values.repeat(len(self.counts), 1)
        return torch.cat([values[:count] for count in self.counts.tolist()])

    def start(self, hx: Tensor | None, width: int, like: Tensor) -> Tensor:
        """Return the states before the first step, (batch, width), in the order of the rows."""
        if hx is None:
            return like.new_zeros(self.batch, width)
        wanted = (1, width) if self.form == "single" else (1, self.batch, width)
        if tuple(hx.shape) != wanted:
            raise ValueError(f"hx has shape {tuple(hx.shape)}: the state of this batch has shape {wanted}")
        return self.ordered(hx if self.form == "single" else hx[0])

    def last(self, y: Tensor) -> Tensor:
        """Return the state at the end of each sequence, (1, batch, width), or (1, width) for one sequence."""
        if self.padded:
            lengths = (self.counts[:, None] > torch.arange(self.batch)).sum(0)
            offsets = self.counts.cumsum(0) - self.counts
            y = y.index_select(0, (offsets[lengths - 1] + torch.arange(self.batch)).to(y.device))
        else:
            y = y[len(y) - self.batch :]
        y = y if self.unsorted_indices is None else y.index_select(0, self.unsorted_indices)
        return y if self.form == "single" else y[None]

    def back(self, y: Tensor) -> Tensor | PackedSequence:
        """Return rows (rows, width) in the caller's form."""
        if self.form == "packed":
            return PackedSequence(y, self.counts, self.sorted_indices, self.unsorted_indices)
        return self.back_data(y)

    def back_data(self, y: Tensor) -> Tensor:
        """Return rows (..., rows, width) in the caller's form; those of a packed sequence as they are."""
        if self.form in {"packed", "single"}:
            return y
        by_time = self._by_time(y)  # (..., time, batch, width)
        return by_time.transpose(-3, -2) if self.form == "batch-first" else by_time

    def by_sequence(self, y: Tensor) -> Tensor:
        """Return rows (..., rows, width) as (..., batch, time, width); 0 behind the end of a sequence."""
        return self._by_time(y).transpose(-3, -2)

    def real(self) -> Tensor | None:
        """Whether each step of each sequence exists, (batch, time); None if all do."""
        if not self.padded:
            return None
        real = self.counts[:, None] > torch.arange(self.batch)  # (time, batch)
        real = torch.nn.functional.pad(real, (0, 0, 0, self.steps - len(real)))
        return real.T if self.unsorted_indices is None else real.T[self.unsorted_indices.cpu()]

    def _by_time(self, y: Tensor) -> Tensor:
        if not self.padded:
            by_time: Tensor = y.unflatten(-2, (len(self.counts), self.batch))
            return by_time
        flat = y.movedim(-2, 0).flatten(1)  # (rows, ...)
        packed = PackedSequence(flat, self.counts, self.sorted_indices, self.unsorted_indices)
        padded, _ = pad_packed_sequence(packed, total_length=self.steps)  # (time, batch, ...)
        return padded.unflatten(-1, (*y.shape[:-2], y.shape[-1])).movedim((0, 1), (-3, -2)) if y.dim() > 2 else padded


def rows_of(x: Tensor | PackedSequence, lengths: Tensor | Sequence[int] | None, batch_first: bool, features: int) -> PackedRows:
    """Return the rows of a batch of sequences.

    Raises:
        ValueError: If the shape of x or the lengths do not fit.
    """
    if isinstance(x, PackedSequence):
        if lengths is not None:
            raise ValueError("lengths with a packed sequence: it already has its lengths; leave them out")
        _check_features(x.data, features)
        counts = x.batch_sizes
        return PackedRows(x.data, counts, "packed", int(counts[0]), len(counts), x.sorted_indices, x.unsorted_indices, padded=True)
    _check_features(x, features)
    if x.dim() not in {2, 3}:
        layout = "(batch, time, features)" if batch_first else "(time, batch, features)"
        raise ValueError(f"x has shape {tuple(x.shape)}: give {layout}, or (time, features) for one sequence")
    if x.dim() == 2:
        if lengths is not None:
            raise ValueError("lengths with a single sequence: cut the sequence instead, or give a batch")
        _check_size(x.shape[0], 1)
        return PackedRows(x, torch.ones(len(x), dtype=torch.int64), "single", 1, len(x))
    batch, steps = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
    _check_size(steps, batch)
    form: SequenceForm = "batch-first" if batch_first else "time-first"
    if lengths is None:
        data = (x.transpose(0, 1) if batch_first else x).reshape(steps * batch, features)
        return PackedRows(data, torch.full((steps,), batch, dtype=torch.int64), form, batch, steps)
    wanted = torch.as_tensor(lengths).cpu()
    if wanted.shape != (batch,) or wanted.is_floating_point() or wanted.min() < 1 or wanted.max() > steps:
        raise ValueError(f"lengths = {_shown(lengths)}: give {batch} whole numbers between 1 and {steps}, one for each sequence")
    packed = pack_padded_sequence(x, wanted.long(), batch_first=batch_first, enforce_sorted=False)
    return PackedRows(packed.data, packed.batch_sizes, form, batch, steps, packed.sorted_indices, packed.unsorted_indices, padded=True)


def _check_features(x: Tensor, features: int) -> None:
    if x.dim() and x.shape[-1] != features:
        raise ValueError(f"x has {x.shape[-1]} features: the layer was made for in_features = {features}")


def _check_size(steps: int, batch: int) -> None:
    if steps < 1 or batch < 1:
        raise ValueError(f"x has {steps} steps and {batch} sequences: give at least one of each")


def _shown(lengths: Any) -> list[Any]:
    values: list[Any] = torch.as_tensor(lengths).flatten().tolist()
    return [*values[:8], "…"] if len(values) > 8 else values
