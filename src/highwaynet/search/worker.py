"""A worker: a process that runs one trial after the other, until none is left or it is asked to stop.

A parent starts `python -m highwaynet.search.worker`, sends its order in one line (`training/workers.py`) and keeps its input open. When the
input closes, because the parent closes it or has died, the worker saves its run, gives its trial back, and ends.
"""

import math
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from highwaynet.base.errors import HighwayError
from highwaynet.data.record import DataRecord
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.lock import is_locked
from highwaynet.runs.run_records import EpochRecord, TimingRecord
from highwaynet.search.address import Address
from highwaynet.search.configurations import spec_of_trial
from highwaynet.search.drawing import trial_seed
from highwaynet.search.learning import Pruning, suggest
from highwaynet.search.spec import StudyMeasure, parse_study
from highwaynet.search.storage import StorageError, need_optuna
from highwaynet.search.trials import ClaimedTrial, TakenAwayError, Trials, is_over
from highwaynet.search.workers import SignsOfLife, WorkerFolder
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.loop import train
from highwaynet.training.watcher import Watcher
from highwaynet.training.workers import Orders

if TYPE_CHECKING:
    from optuna.trial import TrialState

IDLE = 1.0
"""Seconds between two queries while other workers run all remaining trials."""


class PrunedError(Exception):
    """The pruner ended the trial."""


class Reporter(Watcher):
    """Watcher that reports the epochs of a run to the storage.

    Args:
        trials: The study.
        claim: The trial.
        path: Its run directory.
        epochs: Its number of epochs.
    """

    def __init__(self, trials: Trials, claim: ClaimedTrial, path: Path, epochs: int) -> None:
        self.trial, self.taken_away = claim.trial, False
        """Set by another thread when the trial was given to another worker."""
        self._reported = 0
        self._trials, self._claim, self._path, self._epochs = trials, claim, path, epochs
        self._pruning = Pruning(trials, claim, epochs)

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Report earlier epochs again; the storage may have other values, of an earlier trial or from before a rewind."""
        self._reported = 0
        if epochs:
            self.report(RunDirectory.open(self._path).read_history()[:epochs])

    def step(self, samples: int) -> None:
        """Raise TakenAwayError if the trial no longer belongs to this worker."""
        if self.taken_away:
            raise TakenAwayError

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """Report the epoch; raise PrunedError if the pruner ends the trial."""
        self.report([record])
        if record.epoch < self._epochs and self._pruning.is_bad():  # after the last epoch, pruning would save no time
            raise PrunedError

    def report(self, history: list[EpochRecord]) -> None:
        """Report the epochs that have not been reported yet."""
        for record in history:
            if record.epoch > self._reported:
                self._trials.report(self._claim.trial, record.epoch, value_of(record, self._trials.spec.objective))
                self._reported = record.epoch


def value_of(record: EpochRecord, objective: StudyMeasure) -> float:
    """Return the value of the objective after an epoch."""
    values = {
        "train-loss": record.train_loss,
        "validation-loss": record.validation_loss,
        "validation-accuracy": record.validation_accuracy,
    }
    value = values[objective]
    return math.nan if value is None else value


class Worker:
    """Runs trials.

    Args:
        trials: The study.
        stop: Checked after every step.
        number: Its number among the workers of its parent; they start with different configurations.
    """

    def __init__(self, trials: Trials, stop: Interruption, number: int) -> None:
        self._trials, self._stop, self._next = trials, stop, number
        self._folder = WorkerFolder(trials.folder)
        self._reporter: Reporter | None = None
        self._signs = SignsOfLife(trials.storage, trials.ask, self._lost)

    def work(self) -> None:
        """Run trials until all are done, or a stop is requested."""
        self._signs.start()
        try:
            while not self._stop.requested:
                claim = self._claim()
                if claim is not None:
                    self._run(claim)
                    continue
                snapshot = self._trials.snapshot()
                if all(is_over(self._trials.spec, trials) for _, trials in snapshot):
                    break
                if not self._trials.rescue(snapshot):
                    time.sleep(IDLE)
        finally:
            self._signs.end()
            self._folder.close()

    def _claim(self) -> ClaimedTrial | None:
        """Claim a waiting trial, from each configuration in turn."""
        known = self._trials.configurations
        for _ in known:
            configuration = known[self._next % len(known)]
            self._next += 1
            if claim := self._trials.claim(configuration, self._folder.name):
                return claim
        return None

    def _run(self, claim: ClaimedTrial) -> None:
        from optuna.trial import TrialState

        trials = self._trials
        self._signs.trial = claim.trial
        try:
            self._tell(claim, *self._train(claim))
        except InterruptedRunError:
            with suppress(TakenAwayError):
                trials.give_back(claim.trial)
        except StorageError:
            raise
        except TakenAwayError:
            pass
        except Exception as error:
            sentence = str(error) if isinstance(error, HighwayError) else f"{type(error).__name__}: {error}"
            with suppress(TakenAwayError):
                trials.keep(claim.trial, error=sentence.partition("\n")[0][:1000])
                trials.finish(claim.trial, TrialState.FAIL)
        finally:
            self._signs.trial = self._reporter = None

    def _train(self, claim: ClaimedTrial) -> tuple["TrialState", Path]:
        """Start or resume the run of a trial."""
        from optuna.trial import TrialState

        trials = self._trials
        settings = suggest(trials, claim)
        spec = spec_of_trial(trials.spec, claim.configuration, settings, trial_seed(trials.spec, claim.configuration, claim.index))
        path = run_path(trials.folder, claim.configuration.label, claim.index)
        if path.exists() and is_locked(path):  # by a worker that was taken for dead; it will notice that it lost the trial
            time.sleep(IDLE)
            raise InterruptedRunError("the run directory is in use", 1)
        self._reporter = Reporter(trials, claim, path, spec.training.epochs)
        anew = claim.anew and path.exists()
        try:
            train(spec, path, overwrite=anew, resume=not anew, watcher=self._reporter, interruption=self._stop)
        except PrunedError:
            return TrialState.PRUNED, path
        except DivergenceError:
            self._trials.keep(claim.trial, diverged=True)
        return TrialState.COMPLETE, path

    def _tell(self, claim: ClaimedTrial, state: "TrialState", path: Path) -> None:
        """Store the result: the value of the best epoch, or infinity (the worst value) if the run diverged."""
        spec, run = self._trials.spec, RunDirectory.open(path)
        run.forget_earlier()  # a trial that is tried again replaces its earlier run, also if it diverges
        history = run.read_history() if run.has_history else []
        if self._reporter is not None:
            self._reporter.report(history)  # the run may have been finished by a worker that died before it could report
        values = [value_of(record, spec.objective) for record in history]
        losses = [record.train_loss for record in history]
        diverged = run.has_diverged or not values or not all(map(math.isfinite, values + losses))
        attributes: dict[str, Any] = {"epochs": len(history), "seconds": run.read_seconds() if history else 0.0}
        attributes |= {"diverged": True} if diverged else {"train_loss": min(losses)}
        best = max(values, default=0.0) if spec.maximises else min(values, default=0.0)
        value = (-math.inf if spec.maximises else math.inf) if diverged else best
        self._trials.keep(claim.trial, **attributes)
        self._trials.finish(claim.trial, state, value)

    def _lost(self, trial: int) -> None:
        reporter = self._reporter
        if reporter is not None and reporter.trial == trial:
            reporter.taken_away = True


def run_path(folder: Path, label: str, index: int) -> Path:
    """Return the run directory of a trial in a study's folder."""
    return folder / "runs" / label / f"{index:05}"


def main() -> None:
    """Read an order from standard input and run trials."""
    warnings.simplefilter("ignore")
    need_optuna()
    with Interruption() as stop:
        stop.armed = True  # signals are now requests to stop
        if (job := Orders(stop).next()) is None:
            return
        spec = parse_study(job["spec"], Path("the study"))
        trials = Trials(spec, Address(job["storage"]), Path(job["folder"]), job["attributes"], lambda: bool(stop.requested))
        Worker(trials, stop, job["number"]).work()


if __name__ == "__main__":
    try:
        main()
    except HighwayError as error:
        sys.exit(str(error))
