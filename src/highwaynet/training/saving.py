"""Saving a run's state while it goes on, and finding the newest that is intact."""

import time
from pathlib import Path
from typing import NamedTuple

from highwaynet.base.errors import InputError
from highwaynet.base.specs import parsed
from highwaynet.runs.checkpoints import FINAL, decode
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.interval import Interval
from highwaynet.runs.records import CheckpointRecord, Progress
from highwaynet.training.distribution import World
from highwaynet.training.state import TrainingState


class Restored(NamedTuple):
    """What a state was restored from."""

    record: CheckpointRecord | None
    """The checkpoint; None is the beginning."""
    refused: list[str]
    """Why newer ones were not taken."""


class Saver:
    """Writes and reads the checkpoints of a run; all processes call it, the leading one has the files.

    Args:
        run: The run directory.
        state: What is saved.
        interval: How often.
        keep: How many states are kept.
        world: The processes of the run.
    """

    def __init__(self, run: RunDirectory, state: TrainingState, interval: Interval, keep: int, world: World) -> None:
        self._run, self._state, self._interval, self._keep, self._world = run, state, interval, keep, world
        self._last = time.monotonic()

    def is_due(self, *, epoch_ended: bool) -> bool:
        """Whether the number of steps or epochs says that it is time to save."""
        count, unit = self._interval.count, self._interval.unit
        if unit == "epochs":
            return epoch_ended and self._state.epoch % int(count) == 0
        if unit == "steps":
            return self._state.step % int(count) == 0
        return False

    def is_late(self) -> bool:
        """Whether the clock says that it is time to save; that of the leading process counts."""
        if self._interval.unit != "minutes" or not self._world.leads:
            return False
        return time.monotonic() - self._last >= 60 * self._interval.count

    def save(self, seconds: float) -> None:
        """Save the state of a run that has spent so many seconds on the epoch in progress; then the oldest may go."""
        state, checkpoints = self._state, self._run.checkpoints
        state.saved_step = state.step
        tally = tuple(tuple(sums.tolist()) for sums in self._world.gather(state.tally.sums()))
        if not self._world.leads:
            return
        self.save_best()
        history_bytes, timing_bytes = self._run.history_sizes()
        progress = Progress(
            batch=state.batch,
            tally=tally,
            seconds=seconds,
            history_bytes=history_bytes,
            timing_bytes=timing_bytes,
            best=state.best,
            rewinds=state.rewinds,
            scaler=state.scaler_state(),
        )
        checkpoints.save(_name(state.step), state.tensors(), epoch=state.epoch, step=state.step, progress=progress)
        for old in checkpoints.names("step")[self._keep :]:
            checkpoints.remove(old)
        self._last = time.monotonic()

    def save_best(self) -> None:
        """Save the weights of the best epoch, if that was not done; then the earlier best may go."""
        best, weights, checkpoints = self._state.best, self._state.best_weights, self._run.checkpoints
        if not self._world.leads or best is None or weights is None:
            return
        name = f"best-{best.step:09}"
        checkpoints.save(name, weights, epoch=best.epoch, step=best.step)
        for old in checkpoints.names("best"):
            if old != name:
                checkpoints.remove(old)
        self._state.best_weights = None

    def finish(self) -> None:
        """Save the final weights; what was kept to resume is not needed any more."""
        if not self._world.leads:
            return
        self.save_best()
        checkpoints, state = self._run.checkpoints, self._state
        checkpoints.save(FINAL, state.network.state_dict(), epoch=state.epoch, step=state.step)
        self.clear()

    def clear(self) -> None:
        """Remove what was kept to resume."""
        for name in self._run.checkpoints.names("step"):
            self._run.checkpoints.remove(name)

    def newest(self) -> CheckpointRecord | None:
        """The record of the newest saved state, as far as it can be read."""
        for name in self._run.checkpoints.names("step"):
            try:
                return self._run.checkpoints.record(name)
            except InputError:
                continue
        return None

    def restore(self, doomed: int | None = None) -> Restored:
        """Go back to the newest intact checkpoint, or to before the first step where there are none; history and state fit together then.

        Args:
            doomed: Remove the newest checkpoint first if it is of this step: going on from it did not help.

        Raises:
            InputError: If there are checkpoints, and none of them is intact.
        """
        refused: list[str] = []
        names = self._world.lead(lambda: self._names(doomed)).decode().split()
        for name in names:
            try:
                return Restored(self._restore(name), refused)
            except InputError as error:
                refused.append(f"{name}: {error}")
        if refused:
            raise InputError(f"no checkpoint of {self._run.path} is intact ({'; '.join(refused)}): begin anew with --overwrite")
        self._world.lead(lambda: self._cut_history(0, 0))
        return Restored(None, refused)

    def _names(self, doomed: int | None) -> bytes:
        checkpoints = self._run.checkpoints
        if doomed is not None:
            checkpoints.remove(_name(doomed))
        return "\n".join(checkpoints.names("step")).encode()

    def _restore(self, name: str) -> CheckpointRecord:
        record = parsed(
            CheckpointRecord, self._world.lead(lambda: self._run.checkpoints.record(name).model_dump_json().encode()).decode(), name
        )
        content = self._world.lead(lambda: self._run.checkpoints.read(name)[0])
        self._state.restore(decode(content, Path(name)), record, self._world)
        if record.progress is not None:
            sizes = record.progress.history_bytes, record.progress.timing_bytes
            self._world.lead(lambda: self._cut_history(*sizes))
        return record

    def _cut_history(self, history_bytes: int, timing_bytes: int) -> bytes:
        self._run.cut_history(history_bytes, timing_bytes)
        return b""


def _name(step: int) -> str:
    return f"step-{step:09}"
