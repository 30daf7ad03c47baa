"""Evidence: what rules and figures see of runs, which is specs, curves and records, but no weights."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Literal

from highwaynet.analysis.analysis_records import EvaluationRecord, Record
from highwaynet.analysis.questions import EVALUATION, QUESTIONS
from highwaynet.base.errors import InputError
from highwaynet.experiments.claims import Analysis, Scale
from highwaynet.experiments.keys import teacher_key
from highwaynet.runs.directory import ANALYSIS, RunDirectory
from highwaynet.runs.kept import KeptRun
from highwaynet.runs.record_files import RecordT
from highwaynet.runs.run_records import EpochRecord, Score
from highwaynet.runs.spec import SPEC, RunSpec
from highwaynet.runs.stages import hints_path

Status = Literal["finished", "diverged"]


def stored_as(question: Analysis) -> str:
    """Return the name of a question's record; claims use the training data."""
    return EVALUATION if question == EVALUATION else QUESTIONS[question].stored_as()


def has_records(run: KeptRun, analyses: Iterable[Analysis]) -> bool:
    """Whether something is kept of each of these questions."""
    return all(f"{ANALYSIS}/{stored_as(question)}.json" in run.files for question in analyses)


def status_of(run: KeptRun, analyses: tuple[Analysis, ...]) -> Status:
    """How a kept run ended: a run that diverged has no records, and not all of its epochs."""
    training = run.read_spec().training
    whole = len(run.read_history()) == training.epochs
    return "finished" if whole or (training.patience is not None and analyses and has_records(run, analyses)) else "diverged"


class RunEvidence:
    """The evidence of one run.

    Args:
        label: Its name in the claim.
        run: What is kept of it.
        status: How it ended.
    """

    def __init__(self, label: str, run: KeptRun, status: Status) -> None:
        self.label, self.status = label, status
        self._run = run

    @property
    def finished(self) -> bool:
        """Whether training finished, so that the network could be analysed."""
        return self.status == "finished"

    @cached_property
    def spec(self) -> RunSpec:
        """Settings of the run."""
        return self._run.read_spec()

    @cached_property
    def history(self) -> list[EpochRecord]:
        """Its epochs; empty if it diverged in the first. Raises InputError if epochs of a finished run are missing."""
        history = self._run.read_history()
        training = self.spec.training
        if self.finished and training.patience is None and len(history) != training.epochs:
            raise InputError(f"{self._run.place} is damaged: its history has {len(history)} of {training.epochs} epochs")
        return history

    @property
    def losses(self) -> list[float]:
        """The training loss of each epoch."""
        return [epoch.train_loss for epoch in self.history]

    @property
    def lowest_loss(self) -> float:
        """The lowest training loss of all epochs, also of a run that diverged later; infinity if there are no epochs."""
        return min(self.losses, default=math.inf)

    @property
    def best_loss(self) -> float:
        """The lowest training loss; infinity if the run diverged."""
        return self.lowest_loss if self.finished else math.inf

    @property
    def test(self) -> Score:
        """Loss and metrics on the test data; raises InputError if the run has none."""
        found = self.record("evaluation", EvaluationRecord).test
        if found is None:
            raise InputError(f"{self.label} has no test part (data.test = 0): train it again with one")
        return found

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.record("evaluation", EvaluationRecord).parameters

    def record(self, name: Analysis, kind: type[RecordT]) -> RecordT:
        """Return the record of a question; raises InputError if it is missing."""
        found = self._run.load_record(stored_as(name), kind)
        if found is None:
            raise InputError(f"{self._run.place} has no record {stored_as(name)}: run `highway reproduce` again")
        return found


class Evidence:
    """The runs of a claim, by label."""

    def __init__(self, scale: Scale, runs: list[RunEvidence]) -> None:
        self.scale: Scale = scale
        self._runs = {run.label: run for run in runs}

    def __getitem__(self, label: str) -> RunEvidence:
        return self._runs[label]

    def __contains__(self, label: str) -> bool:
        return label in self._runs

    def __iter__(self) -> Iterator[RunEvidence]:
        return iter(self._runs.values())

    def labelled(self, beginning: str) -> list[RunEvidence]:
        """The runs whose label is this word, or this word and one or two numbers (a setting's rank, a seed), each after a dash."""
        return [run for run in self if _numbers(run.label, beginning) is not None]

    def by_seed(self, beginning: str, *, ranked: bool = False) -> dict[tuple[int, ...], list[RunEvidence]]:
        """The runs with such a label, by seed; labels of older records may not name it, which is one seed without a number.

        Args:
            beginning: The label without numbers.
            ranked: The first number is the rank of a setting, and only the second one a seed.
        """
        groups: dict[tuple[int, ...], list[RunEvidence]] = {}
        for run in self.labelled(beginning):
            numbers = _numbers(run.label, beginning) or ()
            groups.setdefault(numbers[1:] if ranked else numbers, []).append(run)
        return groups

    @staticmethod
    def seeds_of(runs: Iterable[RunEvidence]) -> int:
        """With how many seeds each setting among some runs was trained; the smallest number if they differ."""
        # Runs with hints start from a first stage, which is another run for each seed.
        counts = Counter(run.spec.model_dump_json(exclude={"seed": True, "start": {"run", "weights"}}) for run in runs)
        return min(counts.values(), default=0)


def _numbers(label: str, beginning: str) -> tuple[int, ...] | None:
    """The numbers behind the beginning of a label; None if something else follows it."""
    if not re.fullmatch(rf"{re.escape(beginning)}(-\d+){{0,2}}", label):
        return None
    return tuple(map(int, re.findall(r"\d+", label.removeprefix(beginning))))


Answers = dict[Analysis, Record]
"""Records of a trained network, by question."""


def kept_of(run: RunDirectory, answers: Answers) -> KeptRun:
    """Return what a claim keeps of a run."""
    kept = KeptRun.of(run, {stored_as(question): answer for question, answer in answers.items()})
    spec = kept.read_spec()
    if spec.teacher is None:
        return kept
    # The key of the teacher instead of its path, which means nothing on another machine; the first stage follows from the settings.
    teacher = spec.teacher.model_copy(update={"run": teacher_key(spec.teacher.run)})
    start = (
        None if spec.start is None or teacher.stage != "distillation" else spec.start.model_copy(update={"run": hints_path(run.path).name})
    )
    shared = spec.model_copy(update={"teacher": teacher, "start": start or spec.start})
    return KeptRun(kept.place, {**kept.files, SPEC: shared.to_toml().encode()})


def needs_data(run: RunDirectory, analyses: tuple[Analysis, ...]) -> bool:
    """Whether records of a finished run are missing, for which the data are needed."""
    return run.finished and not all(run.has_record(stored_as(name)) for name in analyses)


def ask(run: RunDirectory, analyses: tuple[Analysis, ...]) -> Answers:
    """Ask questions of a trained network; records that are up to date are reused."""
    if not analyses:
        return {}
    from highwaynet.analysis.collect import Study

    study = Study(run)
    return {name: getattr(study, name)() for name in analyses}
