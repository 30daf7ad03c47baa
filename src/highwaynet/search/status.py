"""Progress of a study."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from highwaynet.search.spec import StudySpec
from highwaynet.search.trials import Snapshot, given_up, is_over

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class StudyStatus:
    """Progress of a configuration."""

    label: str
    trials: int
    """Number of settings to try."""
    done: int
    """Number of trials with a result, including diverged and pruned ones."""
    running: int
    pruned: int
    """How many of these were pruned."""
    failed: int
    """Number of trials that failed too often and were given up."""
    best: float | None
    best_index: int | None
    seconds: float
    """Mean time of a trial; 0 if none is done."""
    failures: dict[int, str] = field(default_factory=dict)
    """Why trials were given up, by index."""
    is_over: bool = False

    @property
    def left(self) -> int:
        """Number of trials without a result that are not given up."""
        return self.trials - self.done - self.failed


def standings_of(spec: StudySpec, snapshot: Snapshot) -> list[StudyStatus]:
    """Return the progress of all configurations."""
    return [standing(configuration.label, spec, trials) for configuration, trials in snapshot]


def standing(label: str, spec: StudySpec, trials: list["FrozenTrial"]) -> StudyStatus:
    """Return the progress of a configuration with these trials."""
    from optuna.trial import TrialState

    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE and trial.value is not None]
    sign = -1 if spec.maximises else 1
    best = min((trial for trial in complete if not trial.user_attrs.get("diverged")), key=lambda t: sign * (t.value or 0.0), default=None)
    failures = given_up(trials)
    own = [trial for trial in trials if trial.user_attrs.get("index", spec.trials) < spec.trials]  # elsewhere it may have more trials
    ended = [trial for trial in own if trial.state in {TrialState.COMPLETE, TrialState.PRUNED}]
    return StudyStatus(
        label=label,
        trials=spec.trials,
        done=len(ended),
        running=sum(trial.state == TrialState.RUNNING for trial in trials),
        pruned=sum(trial.state == TrialState.PRUNED for trial in trials),
        failed=len(failures),
        best=best.value if best else None,
        best_index=best.user_attrs["index"] if best else None,
        seconds=sum(map(_seconds, ended)) / len(ended) if ended else 0.0,
        failures=failures,
        is_over=is_over(spec, trials),
    )


def _seconds(trial: "FrozenTrial") -> float:
    now = datetime.now()
    return ((trial.datetime_complete or now) - (trial.datetime_start or now)).total_seconds()


def seconds_left(standings: list[StudyStatus], workers: int) -> float | None:
    """Estimate the seconds left; None if no trial is done. Running trials count as half done, unknown configurations take the mean time."""
    known = [one.seconds for one in standings if one.seconds]
    if not known:
        return None
    usual = sum(known) / len(known)
    work = sum((one.left - 0.5 * one.running) * (one.seconds or usual) for one in standings)
    return work / max(1, workers, sum(one.running for one in standings))
