"""What a teacher answers to the samples of a batch. If the inputs are the same in every epoch, it is asked only once."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from highwaynet.networks.network import Network
from highwaynet.training.objective import Batch

LIMIT = 600_000_000
"""Answers to all training samples are kept if they take at most this many bytes."""


class TeacherAnswers:
    """The outputs, or hidden states, of a teacher that is not trained and stays in evaluation mode.

    Args:
        teacher: The trained network.
        answer: Computes the answers of the teacher to inputs.
    """

    def __init__(self, teacher: Network, answer: Callable[[Network, Tensor], Tensor]) -> None:
        self._teacher, self._answer = teacher.eval().requires_grad_(False), answer
        self._kept: Tensor | None = None

    def keep(self, inputs: Iterator[Tensor], count: int) -> None:
        """Compute the answers to all training samples, and keep them if they are not too large.

        They are computed in the order of the samples, and depend neither on the order of an epoch nor on the number of processes.
        """
        self._kept, done = None, 0
        for batch in inputs:
            found = self._asked(batch)
            if self._kept is None:
                if found[0].numel() * found.element_size() * count > LIMIT:
                    return
                self._kept = found.new_empty(count, *found.shape[1:])
            self._kept[done : done + len(found)] = found
            done += len(found)

    def __call__(self, batch: Batch) -> Tensor:
        """Return the answers to the inputs of a batch, (samples, ...)."""
        if self._kept is None or batch.samples is None:
            return self._asked(batch.inputs)
        return self._kept.index_select(0, batch.samples.to(self._kept.device))

    @torch.no_grad()
    def _asked(self, inputs: Tensor) -> Tensor:
        return self._answer(self._teacher.to(inputs.device, inputs.dtype), inputs)
