"""Reproducing a claim: plan, runs, analyses, verdict, figures. Existing results are reused."""

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.base.files import cannot, remove_leftovers
from highwaynet.experiments.choice import Choice, validation_accuracy
from highwaynet.experiments.claim_records import (
    JUDGED,
    PLAN,
    RECORD,
    ClaimRecord,
    PlanRecord,
    RowRecord,
    RuleRecord,
    RunRecord,
    check_folder,
    folder_name,
    load_plan,
    rule_texts,
    save,
)
from highwaynet.experiments.claims import Claim, Run, Scale, Verdict, overall
from highwaynet.experiments.estimate import estimate
from highwaynet.experiments.evidence import Evidence, RunEvidence, Status, needs_data
from highwaynet.experiments.frozen import frozen_commit
from highwaynet.experiments.keeping import Ended, Keeper, kept_before, kept_now
from highwaynet.experiments.kept_runs import read_runs, write_runs
from highwaynet.experiments.keys import key_of
from highwaynet.experiments.pool import RUNS, Pool, has_ended
from highwaynet.experiments.precision import FORMATS, Format, formats, in_format
from highwaynet.experiments.runner import Standing, epochs_done, hint_epochs, run_all
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.lock import FolderLock
from highwaynet.runs.spec import RunSpec
from highwaynet.training.computing import choose_device, knows_bfloat16
from highwaynet.training.suitability import SpecChecks

FIGURES = "figures"
PAUSE = 0.1
"""Seconds between two attempts to lock the folder."""


class Display(Protocol):
    """Callbacks that follow the reproduction of a claim."""

    def note(self, sentence: str) -> None:
        """Called with a sentence for the user."""
        ...

    def show(self, standing: Standing) -> None:
        """Called regularly, with the progress of the runs."""
        ...


@dataclass(frozen=True)
class Job:
    """A claim to reproduce.

    `out` has a folder for each claim, and one for the runs of all claims. Names of folders include the scale unless it is laptop.
    """

    claim: Claim
    scale: Scale
    runs: tuple[Run, ...]
    out: Path
    pool: Pool

    @property
    def folder(self) -> Path:
        """The folder of the claim."""
        return self.out / folder_name(self.claim.name, self.scale)

    @cached_property
    def kept(self) -> dict[str, Ended]:
        """What the claim's folder holds of its runs, by label, when this is first read."""
        return kept_before(self.folder, self.runs)

    def is_done(self, run: Run) -> bool:
        """Whether a run has finished or diverged, here or, if the claim's folder holds what is needed of it, elsewhere."""
        return self.pool.is_done(run) or run.label in self.kept

    @cached_property
    def times(self) -> dict[str, float]:
        """How long an epoch of each kind of network takes here, as far as it was timed."""
        return {}

    @cached_property
    def choice(self) -> Choice:
        """Which runs are made, as far as those that have ended decide it."""
        return Choice(self.runs, self._accuracy)

    @cached_property
    def _paths(self) -> dict[str, Path]:
        return {run.label: self.pool.path_of(run) for run in self.runs}

    def _accuracy(self, run: Run) -> float | None:
        """The validation accuracy of a run, 0 if it diverged; None if it has not ended."""
        if has_ended(path := self._paths[run.label]):
            directory = RunDirectory(path)
            try:
                return validation_accuracy(directory.read_history()) if directory.finished else 0.0
            except InputError as error:
                raise InputError(f"{error} ({_way_out(self, run)}, and the same command makes this run again)") from error
        if run.label in self.kept:
            kept, status = self.kept[run.label]
            return validation_accuracy(kept.read_history()) if status == "finished" else 0.0
        return None

    @cached_property
    def expected(self) -> list[Run]:
        """The runs that the claim will have, as far as that is known when this is first read."""
        return [run for run in self.runs if self.choice.counts(run)]

    @property
    def needed(self) -> list[Run]:
        """The runs whose directories are or may be needed: those that are not kept, and their teachers."""
        wanted = {run.label for run in self.runs if run.label not in self.kept and self.choice.made(run) is not False}
        wanted |= {run.teacher.label for run in self.runs if run.label in wanted and run.teacher and not self.pool.is_done(run)}
        return [run for run in self.runs if run.label in wanted]

    @cached_property
    def left(self) -> list[tuple[Run, int]]:
        """The runs that are to be made when this is first read, as far as that is known, with their remaining epochs."""
        runs = [run for run in self.needed if self.choice.counts(run) and not self.pool.is_done(run)]
        return [(run, run.spec.training.epochs + hint_epochs(run.spec) - epochs_done(self._paths[run.label])) for run in runs]


def prepare(
    claim: Claim, scale: Scale, seeds: int | None, out: Path, reuse: list[Path], precision: Format = "float32", *, need_data: bool = True
) -> Job:
    """Find out what is to be run, with convolutional networks in a number format of choice.

    Raises:
        InputError: If the claim is not run at this scale, or the data that it needs are missing.
    """
    runs = in_format(claim.plan(scale, seeds), precision)
    if not runs:
        raise InputError(f"{claim.name} is not run at scale {scale}: {claim.notes.get(scale, 'choose another one with --scale')}")
    job = Job(claim, scale, runs, out, Pool(out / RUNS, reuse))
    check_folder(job.folder, claim, scale)
    if need_data:
        check_data(job)
    return job


def check_data(job: Job) -> None:
    """Raise InputError if data that are still needed are missing."""
    fits = SpecChecks()
    needed = {run.label for run in job.needed}
    for run in job.runs:
        done = job.pool.is_done(run)
        asked = done and job.choice.made(run) is not False
        if (not done and run.label in needed) or (asked and needs_data(_directory(job, run), run.analyses)):
            fits.check(run.spec)


def seconds_left(job: Job, workers: int, display: Display) -> float:
    """Estimate how many seconds the remaining runs will take."""
    return estimate(job.left, workers, display.note, job.times)


def slow_in_bfloat16() -> bool:
    """Whether the processor that would train has no instructions for bfloat16."""
    return choose_device(None) == "cpu" and not knows_bfloat16()


def seconds_by_format(job: Job, workers: int, display: Display) -> dict[Format, float]:
    """Estimate the same with convolutional networks in float32 and in mixed bfloat16; empty if there are none left.

    Mixed bfloat16 is missing if the claim does not use it and the processor that would train has no instructions for it.
    """
    used = formats(run for run, _ in job.left)
    compared = [wanted for wanted in FORMATS if used and (wanted == "float32" or wanted in used or not slow_in_bfloat16())]
    epochs = [left for _, left in job.left]
    runs = {wanted: in_format((run for run, _ in job.left), wanted) for wanted in compared}
    return {wanted: estimate(list(zip(made, epochs, strict=True)), workers, display.note, job.times) for wanted, made in runs.items()}


def reproduce(job: Job, workers: int, display: Display) -> ClaimRecord:
    """Make the missing runs, and write the record of the claim."""
    claim, folder = job.claim, job.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot("create", folder, error) from error
    with _alone_in(folder):
        plan = _written_plan(job)
    keeper = Keeper(folder, dict(job.kept), lambda: [(run, _directory(job, run)) for run in job.runs if job.pool.is_done(run)])

    def show(standing: Standing) -> None:
        display.show(standing)
        keeper.look()

    try:
        run_all(job.needed, job.pool, workers, show, choice=job.choice, note=display.note)
    except HighwayError:
        try:
            keeper.keep(display.note)
        except HighwayError as error:  # for instance if the disk is full
            display.note(str(error))
        raise
    with _alone_in(folder):
        if (now := load_plan(folder)) is None or now.runs != plan.runs:
            raise HighwayError(
                f"another process started {claim.name} in {folder} with other runs: use another folder for one of them (--out)"
            )
        evidence = _collect(job, display)
        record = judged(claim, evidence, plan)
        record = record.model_copy(update={"figures": _draw(claim, evidence, folder / FIGURES)})
        save(folder, RECORD, record)
    return record


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Context manager: lock the folder, and remove the temporary files of a killed process."""
    lock = FolderLock(folder)
    while not lock.attempt():
        time.sleep(PAUSE)
    try:
        remove_leftovers(folder)
        yield
    finally:
        lock.release()


def _written_plan(job: Job) -> PlanRecord:
    """The plan, written down if it is a new one: other runs need another, and so do other rules before the first run."""
    known, rules, runs = load_plan(job.folder), rule_texts(job.claim), {run.label: key_of(run.spec) for run in job.runs}
    begun = [run.label for run in job.runs if job.is_done(run) or epochs_done(job.pool.path_of(run))]
    if known is not None and known.runs == runs and begun:
        return known
    # Runs that were made under an earlier plan with the same rules were made after the rules, and after its commit.
    earlier = known if known is not None and known.rules == rules and begun else None
    commit = earlier.commit if earlier else frozen_commit()
    after = (_planned(earlier) if earlier else set()) | _planned_elsewhere(job, commit)
    there = tuple(label for label in begun if runs[label] not in after)
    plan = PlanRecord(claim=job.claim.name, scale=job.scale, rules=rules, runs=runs, there=there, commit=commit)
    save(job.folder, PLAN, plan)
    return plan


def _planned(plan: PlanRecord) -> set[str]:
    """The runs of a plan that were made after it."""
    return {key for label, key in plan.runs.items() if label not in plan.there}


def _planned_elsewhere(job: Job, commit: str | None) -> set[str]:
    """The runs that another claim, which shares them, planned under the same commit: it has the rules of all claims."""
    if commit is None:
        return set()
    plans = []
    for path in (path for path in job.out.glob(f"*/{PLAN}") if path.parent != job.folder):
        with suppress(InputError):  # a damaged one says nothing
            plans.append(load_plan(path.parent))
    return {key for plan in plans if plan is not None and plan.commit == commit for key in _planned(plan)}


def _collect(job: Job, display: Display) -> Evidence:
    """Analyse the trained networks, write what is kept of the runs to the claim's folder, and read it from there."""
    ended: dict[str, Ended] = {}
    for run in job.runs:
        if (made := job.choice.made(run)) is None:
            raise HighwayError(f"the setting of {run.label} is not chosen yet: the same command continues")
        if not made:
            continue
        if run.label in job.kept and not job.pool.is_done(run):
            ended[run.label] = job.kept[run.label]
            continue
        try:
            ended[run.label] = kept_now(run, _directory(job, run), display.note)
        except InputError as error:
            SpecChecks().check(run.spec)  # if the data are missing, this raises a more helpful error
            raise InputError(f"{error} ({_way_out(job, run)}, and the same command makes this run again)") from error
    write_runs(job.folder, {label: kept for label, (kept, _) in ended.items()})
    return _evidence_in(job.folder, job.scale, {label: status for label, (_, status) in ended.items()})


def _directory(job: Job, run: Run) -> RunDirectory:
    return RunDirectory(job.pool.path_of(run))


def _way_out(job: Job, run: Run) -> str:
    path = job.pool.path_of(run)
    return f"omit the --reuse folder that contains {path}" if job.pool.is_from_elsewhere(run) else f"remove {path}"


def judged(claim: Claim, evidence: Evidence, plan: PlanRecord) -> ClaimRecord:
    """The record of a claim, without figures; it follows from evidence and plan only."""
    judge = evidence.scale != "smoke"
    before = [label for label in plan.there if label in evidence]
    rules = []
    for rule, text in zip(claim.rules, rule_texts(claim), strict=True):
        outcome = rule.judge(evidence)
        verdict: Verdict = outcome.verdict if judge else "not judged"
        fresh = verdict in JUDGED and text in plan.rules and not before and plan.commit is not None
        rules.append(RuleRecord(**text.model_dump(), verdict=verdict, found=outcome.found, seeds=outcome.seeds, fresh=fresh))
    return ClaimRecord(
        claim=claim.name,
        title=claim.title,
        paper=claim.paper,
        scale=evidence.scale,
        verdict=overall([rule.verdict for rule in rules]),
        headline=claim.headline(evidence),
        rules=tuple(rules),
        rows=tuple(RowRecord(what=row.what, paper=row.paper, here=row.here) for row in claim.rows(evidence)),
        runs=tuple(RunRecord(label=run.label, status=run.status, epochs=len(run.history)) for run in evidence),
        made_before=len(before),
        note=_note(claim, evidence),
        figures=(),
    )


def _note(claim: Claim, evidence: Evidence) -> str:
    """What differs from the paper; of runs with other settings than the claim has now, only how long they were."""
    made = {_without_seed(run.spec) for run in evidence}
    for planned in (in_format(claim.plan(evidence.scale, 1), wanted) for wanted in FORMATS):
        if made == {_without_seed(run.spec) for run in planned}:
            mixed = ["Convolutional networks were trained in mixed bfloat16."] if "bfloat16" in formats(planned) else []
            return " ".join([*filter(None, [claim.notes.get(evidence.scale)]), *mixed])
    kinds = Counter((one.spec.data.title, one.spec.training.epochs) for one in evidence)
    texts = [f"{count} of {epochs} epochs on {data}" for (data, epochs), count in kinds.items()]
    return f"runs of an earlier plan, with other settings than the claim has now: {', '.join(texts)}."


def _without_seed(spec: RunSpec) -> str:
    return key_of(spec.model_copy(update={"seed": 0}))


def stored_evidence(folder: Path, record: ClaimRecord) -> Evidence:
    """Read the evidence of a claim that was reproduced before."""
    return _evidence_in(folder, record.scale, {run.label: run.status for run in record.runs})


def _evidence_in(folder: Path, scale: Scale, statuses: dict[str, Status]) -> Evidence:
    """Read the evidence in a claim's folder, given the labels of its runs and how they ended."""
    return Evidence(scale, [RunEvidence(label, run, statuses[label]) for label, run in read_runs(folder, statuses).items()])


def _draw(claim: Claim, evidence: Evidence, folder: Path) -> tuple[str, ...]:
    from highwaynet.figures.captions import save_figure

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    names = []
    for name, (figure, caption) in claim.draw(evidence).items():
        save_figure(figure, folder / f"{name}.png", caption)
        names.append(f"{name}.png")
    return tuple(names)
