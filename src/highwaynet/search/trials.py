"""The trials of a study, for workers and parents: claiming, reporting, finishing, and releasing those that lost their worker."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from highwaynet.search.address import Address
from highwaynet.search.configurations import Configuration, Settings, configurations, parameters_of
from highwaynet.search.creation import ensure, is_given_up
from highwaynet.search.distributions import restored
from highwaynet.search.spec import StudySpec
from highwaynet.search.storage import Patience, StorageError, heartbeat, open_storage
from highwaynet.search.waiting import failed_before, next_waiting
from highwaynet.search.workers import is_alive

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, TrialState

Snapshot = list[tuple[Configuration, list["FrozenTrial"]]]
"""The trials of each configuration at one moment."""


class TakenAwayError(Exception):
    """The trial was given to another worker, because this one sent no heartbeat; its result does not count."""


@dataclass(frozen=True)
class ClaimedTrial:
    """A trial that this worker runs."""

    trial: int
    """Its id in the storage."""
    index: int
    """Its index in its configuration."""
    configuration: Configuration
    settings: Settings
    """Empty if the sampler has not suggested any yet."""
    anew: bool
    """Whether to start over, because the trial failed before and its run directory may be damaged."""


class Trials:
    """A study in its storage.

    Args:
        spec: The study.
        address: The storage.
        folder: The study's folder on this machine, with the runs and a locked folder for each living worker.
        attributes: What is stored with each Optuna study.
        hurry: Whether the program is ending, so that it does not wait long for the storage.
        tell: Called with a sentence if the storage does not answer.
    """

    def __init__(
        self,
        spec: StudySpec,
        address: Address,
        folder: Path,
        attributes: dict[str, Any],
        hurry: Callable[[], bool] = lambda: False,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        import optuna

        self.spec, self.folder, self.configurations = spec, folder, configurations(spec)
        self._attributes = attributes
        self.ask = Patience(address, hurry, tell)
        """Calls the storage, and retries while it does not answer."""
        self.storage = self.ask(lambda: open_storage(address))
        self._cached = optuna.storages.get_storage(self.storage)
        self._studies: dict[str, int] = {}

    def create(self, *, again: bool = False) -> None:
        """Create what is missing in the storage; with `again`, also retry trials that were given up."""
        for configuration in self.configurations:
            self._studies[configuration.label] = self._ensure(configuration, again=again)

    def study_id(self, configuration: Configuration) -> int:
        """Return the id of a configuration's study; creates it if missing."""
        if configuration.label not in self._studies:
            self._studies[configuration.label] = self._ensure(configuration)
        return self._studies[configuration.label]

    def _ensure(self, configuration: Configuration, *, again: bool = False) -> int:
        return ensure(self.storage, self.ask, self.spec, configuration, self._attributes, again=again)

    def all(self, configuration: Configuration) -> list["FrozenTrial"]:
        """Return the trials of a configuration; finished trials are cached."""
        study = self.study_id(configuration)
        return self.ask(lambda: self._cached.get_all_trials(study, deepcopy=False))

    def claim(self, configuration: Configuration, worker: str) -> ClaimedTrial | None:
        """Claim the waiting trial with the lowest index; None if none is waiting."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        study = self.study_id(configuration)
        while waiting := self.ask(lambda: next_waiting(self.storage, study)):
            for number in waiting:
                # The heartbeat comes first, so that a trial whose worker dies right after claiming it becomes stale.
                self.ask(lambda number=number: self.storage.record_heartbeat(number))  # type: ignore[misc]
                with suppress(UpdateFinishedTrialError, TakenAwayError):
                    if self.ask(lambda number=number: self.storage.set_trial_state_values(number, TrialState.RUNNING)):  # type: ignore[misc]
                        claim = self._claim(study, number, configuration)
                        self.keep(number, worker=worker)
                        return claim
        return None

    def _claim(self, study: int, number: int, configuration: Configuration) -> ClaimedTrial:
        space, trial = parameters_of(self.spec, configuration), self.ask(lambda: self.storage.get_trial(number))
        settings = {field: restored(space[field], value) for field, value in trial.params.items()}
        index = int(trial.user_attrs["index"])
        # A trial that a worker has given back has the attribute, and continues.
        anew = "worker" not in trial.user_attrs and self.ask(lambda: failed_before(self.storage, study, number, index))
        return ClaimedTrial(number, index, configuration, settings, anew)

    def keep(self, trial: int, **attributes: Any) -> None:
        """Set attributes of a running trial; raises TakenAwayError if it no longer belongs to this worker."""
        for key, value in attributes.items():
            self._own(lambda key=key, value=value: self.storage.set_trial_user_attr(trial, key, value))  # type: ignore[misc]

    def report(self, trial: int, epoch: int, value: float) -> None:
        """Report the value of an epoch."""
        self._own(lambda: self.storage.set_trial_intermediate_value(trial, epoch, value))

    def finish(self, trial: int, state: "TrialState", value: float | None = None) -> None:
        """Store the result of a trial."""
        if not self._own(lambda: self.storage.set_trial_state_values(trial, state, None if value is None else [value])):
            raise StorageError(f"the storage did not accept the result of trial {trial}")

    def give_back(self, trial: int) -> None:
        """Return a running trial to the waiting ones, so that any worker can claim it."""
        from optuna.trial import TrialState

        self.keep(trial, worker=None)  # first, so that the next worker is not mistaken for this one
        self._own(lambda: self.storage.set_trial_state_values(trial, TrialState.WAITING))

    def _own(self, call: Callable[[], object]) -> object:
        from optuna.exceptions import UpdateFinishedTrialError

        try:
            return self.ask(call)
        except UpdateFinishedTrialError as error:
            raise TakenAwayError from error

    def snapshot(self) -> Snapshot:
        """Return the trials of all configurations."""
        return [(configuration, self.all(configuration)) for configuration in self.configurations]

    def rescue(self, snapshot: Snapshot | None = None) -> bool:
        """Replace trials whose worker is gone with waiting ones; return whether there were any."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        found = False
        for configuration, trials in snapshot or self.snapshot():
            running = [trial for trial in trials if trial.state == TrialState.RUNNING]
            lost = list(self._lost(configuration, running)) if running else []
            for trial in lost:
                with suppress(UpdateFinishedTrialError):  # another process was faster
                    number = trial._trial_id
                    self.ask(lambda number=number: self.storage.set_trial_state_values(number, TrialState.FAIL))  # type: ignore[misc]
            if lost or open_indices(self.spec, trials):
                self._ensure(configuration)
                found = True
        return found

    def _lost(self, configuration: Configuration, running: list["FrozenTrial"]) -> Iterator["FrozenTrial"]:
        """Yield running trials whose worker's folder on this machine is not locked, or, for other machines, whose last heartbeat is old."""
        study = self.study_id(configuration)
        stale = set(self.ask(lambda: self.storage._get_stale_trial_ids(study)))
        if time.monotonic() - self.ask.troubled < 3 * heartbeat():
            stale = set()  # while the storage did not answer, no worker could send a heartbeat
        for trial in running:
            lives = is_alive(self.folder, str(trial.user_attrs.get("worker")))
            if lives is False or (lives is None and trial._trial_id in stale):
                yield trial


def open_indices(spec: StudySpec, trials: list["FrozenTrial"]) -> list[int]:
    """Return indices without a waiting, running or finished trial that are not given up; a process was killed before it replaced them."""
    from optuna.trial import TrialState

    settled = {trial.user_attrs["index"] for trial in trials if trial.state != TrialState.FAIL}
    return [index for index in range(spec.trials) if index not in settled and index not in given_up(trials)]


def given_up(trials: list["FrozenTrial"]) -> dict[int, str]:
    """Return the indices that failed too often, with the last reason."""
    from optuna.trial import TrialState

    by_index: dict[int, list[FrozenTrial]] = {}
    for trial in trials:
        if "index" in trial.user_attrs:
            by_index.setdefault(int(trial.user_attrs["index"]), []).append(trial)
    found: dict[int, str] = {}
    for index, tried in by_index.items():
        reasons = [str(trial.user_attrs["error"]) for trial in tried if "error" in trial.user_attrs]
        if all(trial.state == TrialState.FAIL for trial in tried) and is_given_up(len(reasons), len(tried) - len(reasons)):
            found[index] = reasons[-1] if reasons else f"its worker was killed {len(tried)} times; it may need too much memory"
    return found


def is_over(spec: StudySpec, trials: list["FrozenTrial"]) -> bool:
    """Whether every index of a configuration has a result or is given up."""
    from optuna.trial import TrialState

    done = {trial.user_attrs["index"] for trial in trials if trial.state in {TrialState.COMPLETE, TrialState.PRUNED}}
    return set(range(spec.trials)) <= done | given_up(trials).keys()  # elsewhere the study may have more trials
