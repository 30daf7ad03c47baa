"""Settings that validation data choose: each is tried with the first seed, and only the best one is repeated with the other seeds."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from highwaynet.experiments.claims import Run
from highwaynet.runs.run_records import EpochRecord

Tried = TypeVar("Tried")
CHOSEN = "the highest validation accuracy with the first seed"
"""How a setting is chosen, for the texts of rules."""


def tried(contest: str, values: Sequence[Tried], seeds: Sequence[int], make: Callable[[Tried, int], Run]) -> Iterator[Run]:
    """Yield the runs of a contest: all values of a setting with the first seed, then the repetitions, of which only one value's are made.

    Args:
        contest: Its name, which is that of no other contest of the claim.
        values: The values to choose from.
        seeds: The seeds.
        make: Returns the run with a value and a seed.
    """
    firsts = [replace(make(value, seeds[0]), contest=contest) for value in values]
    yield from firsts
    for value, first in zip(values, firsts, strict=True):
        for seed in seeds[1:]:
            yield replace(make(value, seed), contest=contest, first=first.label)


def validation_accuracy(history: Iterable[EpochRecord]) -> float:
    """The validation accuracy of the epoch with the lowest validation loss, whose weights are the run's answer; 0 without epochs."""
    lines = [line for line in history if line.validation_loss is not None]
    best = min(lines, key=lambda line: line.validation_loss or 0.0, default=None)
    return 0.0 if best is None else best.validation_accuracy or 0.0


class Choice:
    """Which runs of a claim are made.

    Args:
        runs: All runs of the claim.
        accuracy: The validation accuracy of a run, 0 if it diverged; None if it has not ended.
    """

    def __init__(self, runs: Sequence[Run], accuracy: Callable[[Run], float | None]) -> None:
        self._accuracy = accuracy
        self._known: dict[str, float] = {}
        self._entries: dict[str, list[Run]] = {}
        for run in runs:
            if run.contest and not run.first:
                self._entries.setdefault(run.contest, []).append(run)

    def entries(self, run: Run) -> list[Run]:
        """The runs of the first seed on which it depends whether this run is made; empty if it is made anyway."""
        return self._entries.get(run.contest, []) if run.first else []

    def made(self, run: Run) -> bool | None:
        """Whether a run is made; None as long as its contest is not decided. Of equal values the first one wins."""
        if not (entries := self.entries(run)):
            return True
        found: list[float] = []
        for entry in entries:
            if (value := self._found(entry)) is None:
                return None
            found.append(value)
        return entries[found.index(max(found))].label == run.first

    def counts(self, run: Run) -> bool:
        """Whether a run is made, as far as that is known: of a contest that is not decided, the first value stands for the winner."""
        made = self.made(run)
        return run.first == self.entries(run)[0].label if made is None else made

    def _found(self, run: Run) -> float | None:
        if run.label not in self._known and (value := self._accuracy(run)) is not None:
            self._known[run.label] = value
        return self._known.get(run.label)
