"""What is kept of the runs of a claim: without weights, and also while others are still being made.

A claim that takes many hours can so be continued on another machine from its folder: runs in its archive are not made again.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from highwaynet.base.errors import InputError
from highwaynet.experiments.claims import Run
from highwaynet.experiments.evidence import Answers, Status, ask, has_records, kept_of, status_of
from highwaynet.experiments.kept_runs import ARCHIVE, UNFINISHED, read_archive, write_archive
from highwaynet.experiments.keys import key_of
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.kept import KeptRun

EVERY = 600.0
"""Seconds between two times at which runs that have ended are kept."""

Ended = tuple[KeptRun, Status]
"""What is kept of a run, and how it ended."""


def kept_before(folder: Path, runs: Sequence[Run]) -> dict[str, Ended]:
    """Return the runs that an earlier call kept in a claim's folder, by label, if they answer all that the claim asks."""
    found: dict[str, Ended] = {}
    for name in (ARCHIVE, UNFINISHED):
        with suppress(InputError):  # a damaged archive is written again
            archive = read_archive(folder / name)
            found |= {run.label: kept for run in runs if (kept := _usable(run, archive.get(run.label)))}
    return found


def _usable(run: Run, kept: KeptRun | None) -> Ended | None:
    """Return what is kept of a run; None if that is another run, or does not answer all questions."""
    if kept is None or key_of(kept.read_spec()) != key_of(run.spec):
        return None
    status = status_of(kept, run.analyses)
    return (kept, status) if status == "diverged" or has_records(kept, run.analyses) else None


def kept_now(run: Run, directory: RunDirectory, note: Callable[[str], None]) -> Ended:
    """Ask the questions of a claim, and return what is kept of a run; raises InputError if it is damaged."""
    return kept_of(directory, _asked(run, directory, note)), "finished" if directory.finished else "diverged"


def _asked(run: Run, directory: RunDirectory, note: Callable[[str], None]) -> Answers:
    """Return the records of a run; empty if it diverged."""
    RunDirectory.open(directory.path).read_spec()
    if not directory.finished:
        return {}
    directory.read_history()  # raises an error if it is damaged
    if run.analyses:
        note(f"analysing {run.label}: {', '.join(run.analyses)}")
    return ask(directory, run.analyses)


@dataclass
class Keeper:
    """Keeps the runs of a claim that have ended while others are being made.

    Args:
        folder: The folder of the claim.
        kept: What an earlier call kept, by label.
        ended: Returns the runs that have ended, with their directories.
    """

    folder: Path
    kept: dict[str, Ended]
    ended: Callable[[], list[tuple[Run, RunDirectory]]]
    _last: float = field(default_factory=time.monotonic)

    def look(self) -> None:
        """Keep what has ended, if enough time has passed; the machine is busy, so that one thread has to do."""
        if time.monotonic() - self._last < EVERY:
            return
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            self.keep(lambda _: None)
        finally:
            torch.set_num_threads(threads)
            self._last = time.monotonic()

    def keep(self, note: Callable[[str], None]) -> None:
        """Keep what has ended; `note` is called with a sentence for each run that is analysed."""
        before = len(self.kept)
        try:
            for run, directory in self.ended():
                if run.label not in self.kept:
                    with suppress(InputError):  # a damaged run is reported at the end
                        self.kept[run.label] = kept_now(run, directory, note)
        finally:  # also after Ctrl-C
            if len(self.kept) > before:
                write_archive(self.folder / UNFINISHED, {label: run for label, (run, _) in self.kept.items()})
