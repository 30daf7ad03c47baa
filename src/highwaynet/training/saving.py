"""Saving checkpoints during a run, and restoring the newest intact one."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from highwaynet.base.errors import InputError
from highwaynet.base.specs import parsed
from highwaynet.runs.checkpoints import AVERAGE, BEST, FINAL, OBJECTIVE, STEP, STOP, decode, name_at, step_in
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.interval import Interval
from highwaynet.runs.run_records import CheckpointRecord, RunProgress
from highwaynet.training.distribution import World
from highwaynet.training.state import TrainingState


class Restored(NamedTuple):
    """What a state was restored from."""

    record: CheckpointRecord | None
    """The checkpoint; None means the beginning of the run."""
    refused: list[str]
    """Why newer checkpoints could not be used."""


class Saver:
    """Writes and reads the checkpoints of a run. All processes call it; only the leading one accesses files.

    Args:
        run: The run directory.
        state: What is saved.
        interval: How often to save.
        keep: Number of `step` checkpoints to keep.
        world: The processes of the run.
    """

    def __init__(self, run: RunDirectory, state: TrainingState, interval: Interval, keep: int, world: World) -> None:
        self._run, self._state, self._interval, self._keep, self._world = run, state, interval, keep, world
        self._last = time.monotonic()

    def is_due(self, *, epoch_ended: bool) -> bool:
        """Whether a checkpoint is due by the number of steps or epochs."""
        count, unit = self._interval.count, self._interval.unit
        if unit == "epochs":
            return epoch_ended and self._state.epoch % int(count) == 0
        if unit == "steps":
            return self._state.step % int(count) == 0
        return False

    def is_late(self) -> bool:
        """Whether a checkpoint is due by time; only the clock of the leading process counts."""
        if self._interval.unit != "minutes" or not self._world.leads:
            return False
        return time.monotonic() - self._last >= 60 * self._interval.count

    def save(self, seconds: float, *, stopping: bool = False) -> None:
        """Save the state and remove old checkpoints.

        Args:
            seconds: Time spent on the current epoch.
            stopping: The run was asked to stop. It will resume from this checkpoint, but never rewind to it, so that its result does not
                depend on when it was stopped.
        """
        state, checkpoints = self._state, self._run.checkpoints
        if not stopping:
            state.saved_step = state.step
        tally = tuple(tuple(sums.tolist()) for sums in self._world.gather(state.tally.sums()))
        if not self._world.leads:
            return
        self.save_best()
        history_bytes, timing_bytes = self._run.seal_history()
        progress = RunProgress(
            batch=state.batch,
            tally=tally,
            seconds=seconds,
            history_bytes=history_bytes,
            timing_bytes=timing_bytes,
            best=state.best,
            rewinds=state.rewinds,
            went_back_to=state.went_back_to,
            scaler=state.scaler_state(),
        )
        name = name_at(STOP if stopping else STEP, state.step)
        checkpoints.save(name, state.tensors(), epoch=state.epoch, step=state.step, progress=progress)
        if not stopping:
            self._prune()
        self._last = time.monotonic()

    def _prune(self) -> None:
        """Remove old checkpoints, and best weights that no remaining checkpoint refers to."""
        checkpoints = self._run.checkpoints
        for old in [*checkpoints.names(STEP)[self._keep :], *checkpoints.names(STOP)]:
            checkpoints.remove(old)
        needed = set()
        for name in checkpoints.names(STEP):
            with suppress(InputError):  # a damaged checkpoint will not be used
                progress = checkpoints.record(name).progress
                needed |= {progress.best.step} if progress and progress.best else set()
        for name in checkpoints.names(BEST):
            if step_in(name) not in needed:
                checkpoints.remove(name)

    def save_best(self) -> None:
        """Save the weights of the best epoch if they are not saved yet."""
        best, weights = self._state.best, self._state.best_weights
        if self._world.leads and best is not None and weights is not None:
            self._run.checkpoints.save(name_at(BEST, best.step), weights, epoch=best.epoch, step=best.step)
            self._state.best_weights = None

    def finish(self) -> None:
        """Save the final weights and remove the checkpoints that were kept for resuming."""
        if not self._world.leads:
            return
        self.save_best()
        self._run.seal_history()  # and sync it to disk before the run counts as finished
        checkpoints, state = self._run.checkpoints, self._state
        if own := state.objective.state_dict():
            checkpoints.save(OBJECTIVE, own, epoch=state.epoch, step=state.step)
        if state.average is not None:
            checkpoints.save(AVERAGE, state.average.module.state_dict(), epoch=state.epoch, step=state.step)
        best = state.best.step if state.best is not None and name_at(BEST, state.best.step) in checkpoints.names(BEST) else None
        checkpoints.save(FINAL, state.network.state_dict(), epoch=state.epoch, step=state.step, best_step=best)
        clear(self._run)

    def newest(self) -> CheckpointRecord | None:
        """Return the newest checkpoint record that can be read; None if there is none."""
        for name in self._run.checkpoints.names(STEP, STOP):
            try:
                return self._run.checkpoints.record(name)
            except InputError:
                continue
        return None

    def restore(self) -> Restored:
        """Restore the newest intact checkpoint; if there are no checkpoints, stay before the first step.

        Raises:
            InputError: If there are checkpoints, and none of them is intact.
        """
        return self._first_intact(lambda: None, "step", "stop")

    def go_back(self) -> Restored:
        """Return to the last `step` checkpoint, to rewind.

        If the run has saved none since its last rewind, that checkpoint was already too late: it is removed and the one before is used.
        """
        state = self._state
        doomed = state.saved_step if state.saved_step == state.went_back_to else None

        def drop() -> None:
            for name in self._run.checkpoints.names(STOP) + ([] if doomed is None else [name_at(STEP, doomed)]):
                self._run.checkpoints.remove(name)

        return self._first_intact(drop, "step")

    def _first_intact(self, prepare: Callable[[], None], *kinds: str) -> Restored:
        """Restore the newest intact checkpoint; history and checkpoints after it are removed, so that all files agree."""

        def names() -> bytes:
            prepare()
            return "\n".join(self._run.checkpoints.names(*kinds)).encode()

        refused: list[str] = []
        for name in self._world.lead(names).decode().split():
            try:
                record = self._restore(name)
            except InputError as error:
                refused.append(f"{name}: {error}")
                continue
            self._world.lead(partial(self._forget_after, record))
            self._state.saved_step = int(self._world.lead(self._newest_step)) or None
            return Restored(record, refused)
        if refused:
            raise InputError(f"no checkpoint of {self._run.path} is intact ({'; '.join(refused)}): restart the run with --overwrite")
        self._world.lead(lambda: self._cut_history(0, 0, 0))
        return Restored(None, refused)

    def _forget_after(self, record: CheckpointRecord) -> bytes:
        """Remove what is newer than a checkpoint: damaged checkpoints, and best weights of epochs that are no longer in the history."""
        best = record.progress.best.step if record.progress and record.progress.best else -1
        for name in self._run.checkpoints.names(STEP, STOP):
            if step_in(name) > record.step:
                self._run.checkpoints.remove(name)
        for name in self._run.checkpoints.names(BEST):
            if step_in(name) > best:
                self._run.checkpoints.remove(name)
        return b""

    def _newest_step(self) -> bytes:
        return str(max([step_in(name) for name in self._run.checkpoints.names(STEP)], default=0)).encode()

    def _restore(self, name: str) -> CheckpointRecord:
        record = parsed(
            CheckpointRecord, self._world.lead(lambda: self._run.checkpoints.record(name).model_dump_json().encode()).decode(), name
        )
        content = self._world.lead(lambda: self._run.checkpoints.read(name)[0])
        self._state.restore(decode(content, Path(name)), record, self._world)
        if record.progress is not None:
            sizes = record.progress.history_bytes, record.progress.timing_bytes
            self._world.lead(lambda: self._cut_history(*sizes, record.epoch))
        return record

    def _cut_history(self, history_bytes: int, timing_bytes: int, epochs: int) -> bytes:
        self._run.cut_history(history_bytes, timing_bytes, epochs)
        return b""


def clear(run: RunDirectory) -> None:
    """Remove what a finished run had kept to resume, and the run that it has replaced; a killed process may have left it."""
    best = run.checkpoints.record(FINAL).best_step
    for name in run.checkpoints.names(STEP, STOP, *([] if best is None else [BEST])):
        if not name.startswith(BEST) or step_in(name) != best:
            run.checkpoints.remove(name)
    run.forget_earlier()
