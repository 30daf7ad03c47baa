"""The trials of a study as its workers and parents see them: who has which, what came out, and which have lost their worker."""

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
"""The trials of each configuration, at some moment."""


class TakenAwayError(Exception):
    """The trial was given to another worker, because this one gave no sign of life; what it found does not count."""


@dataclass(frozen=True)
class ClaimedTrial:
    """A trial that this worker runs."""

    trial: int
    """Its id in the storage."""
    index: int
    """Its index in its configuration."""
    configuration: Configuration
    settings: Settings
    """Empty where the sampler has yet to suggest some."""
    anew: bool
    """Whether to begin anew, since it failed before: its run directory may be damaged."""


class Trials:
    """A study in its storage.

    Args:
        spec: The study.
        address: The storage.
        folder: The study's folder on this machine: runs, and a folder for each worker, locked as long as it lives.
        attributes: What the studies of Optuna keep about this one.
        hurry: Whether the program is being ended, so that it does not wait long for the storage.
        tell: Told where the storage stays away.
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
        """An answer of the storage, which may be away for a while."""
        self.storage = self.ask(lambda: open_storage(address))
        self._cached = optuna.storages.get_storage(self.storage)
        self._studies: dict[str, int] = {}

    def create(self, *, again: bool = False) -> None:
        """Make what is missing in the storage; with `again`, trials that were given up too."""
        for configuration in self.configurations:
            self._studies[configuration.label] = self._ensure(configuration, again=again)

    def study_id(self, configuration: Configuration) -> int:
        """The id of a configuration's study."""
        if configuration.label not in self._studies:
            self._studies[configuration.label] = self._ensure(configuration)
        return self._studies[configuration.label]

    def _ensure(self, configuration: Configuration, *, again: bool = False) -> int:
        return ensure(self.storage, self.ask, self.spec, configuration, self._attributes, again=again)

    def all(self, configuration: Configuration) -> list["FrozenTrial"]:
        """The trials of a configuration; those that are done are read once."""
        study = self.study_id(configuration)
        return self.ask(lambda: self._cached.get_all_trials(study, deepcopy=False))

    def claim(self, configuration: Configuration, worker: str) -> ClaimedTrial | None:
        """Take the waiting trial with the lowest index; None where none waits."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        study = self.study_id(configuration)
        while waiting := self.ask(lambda: next_waiting(self.storage, study)):
            for number in waiting:
                # The sign of life comes first: a trial whose worker dies right after taking it has one that grows old.
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
        # One that somebody had before, and gave back, goes on.
        anew = "worker" not in trial.user_attrs and self.ask(lambda: failed_before(self.storage, study, number, index))
        return ClaimedTrial(number, index, configuration, settings, anew)

    def keep(self, trial: int, **attributes: Any) -> None:
        """Add to what is kept about a running trial; raises TakenAwayError where it is not this worker's any more."""
        for key, value in attributes.items():
            self._own(lambda key=key, value=value: self.storage.set_trial_user_attr(trial, key, value))  # type: ignore[misc]

    def report(self, trial: int, epoch: int, value: float) -> None:
        """What an epoch came to."""
        self._own(lambda: self.storage.set_trial_intermediate_value(trial, epoch, value))

    def finish(self, trial: int, state: "TrialState", value: float | None = None) -> None:
        """Tell what a trial came to."""
        if not self._own(lambda: self.storage.set_trial_state_values(trial, state, None if value is None else [value])):
            raise StorageError(f"the storage did not take the end of trial {trial}")

    def give_back(self, trial: int) -> None:
        """Let a running trial wait again, for anybody to take."""
        from optuna.trial import TrialState

        self.keep(trial, worker=None)  # first: whoever takes it next must not be taken for this one
        self._own(lambda: self.storage.set_trial_state_values(trial, TrialState.WAITING))

    def _own(self, call: Callable[[], object]) -> object:
        from optuna.exceptions import UpdateFinishedTrialError

        try:
            return self.ask(call)
        except UpdateFinishedTrialError as error:
            raise TakenAwayError from error

    def snapshot(self) -> Snapshot:
        """The trials of all configurations."""
        return [(configuration, self.all(configuration)) for configuration in self.configurations]

    def rescue(self, snapshot: Snapshot | None = None) -> bool:
        """Let the trials wait again whose worker is gone; whether there were any."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        found = False
        for configuration, trials in snapshot or self.snapshot():
            running = [trial for trial in trials if trial.state == TrialState.RUNNING]
            lost = list(self._lost(configuration, running)) if running else []
            for trial in lost:
                with suppress(UpdateFinishedTrialError):  # others look as well
                    number = trial._trial_id
                    self.ask(lambda number=number: self.storage.set_trial_state_values(number, TrialState.FAIL))  # type: ignore[misc]
            if lost or open_indices(self.spec, trials):
                self._ensure(configuration)
                found = True
        return found

    def _lost(self, configuration: Configuration, running: list["FrozenTrial"]) -> Iterator["FrozenTrial"]:
        """Running trials whose worker's folder here is not locked, or, for workers elsewhere, whose last sign of life is old."""
        study = self.study_id(configuration)
        stale = set(self.ask(lambda: self.storage._get_stale_trial_ids(study)))
        if time.monotonic() - self.ask.troubled < 3 * heartbeat():
            stale = set()  # while the storage was away nobody could give a sign
        for trial in running:
            lives = is_alive(self.folder, str(trial.user_attrs.get("worker")))
            if lives is False or (lives is None and trial._trial_id in stale):
                yield trial


def open_indices(spec: StudySpec, trials: list["FrozenTrial"]) -> list[int]:
    """Indices that have no trial that is waiting, running or done, and are not given up: somebody was killed before there was another."""
    from optuna.trial import TrialState

    settled = {trial.user_attrs["index"] for trial in trials if trial.state != TrialState.FAIL}
    return [index for index in range(spec.trials) if index not in settled and index not in given_up(trials)]


def given_up(trials: list["FrozenTrial"]) -> dict[int, str]:
    """Indices that failed too often, with the last reason."""
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
    """Whether every index of a configuration has its result, or is given up."""
    from optuna.trial import TrialState

    done = {trial.user_attrs["index"] for trial in trials if trial.state in {TrialState.COMPLETE, TrialState.PRUNED}}
    return set(range(spec.trials)) <= done | given_up(trials).keys()  # others may know the study with more trials
