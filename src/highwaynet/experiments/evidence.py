"""What runs left behind, as rules and figures see it: specs, curves and records, no weights."""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from highwaynet.analysis.analysis_records import EvaluationRecord, Record
from highwaynet.analysis.questions import EVALUATION, QUESTIONS
from highwaynet.base.errors import InputError
from highwaynet.experiments.claims import Analysis, Scale
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.kept import KeptRun
from highwaynet.runs.record_files import RecordT
from highwaynet.runs.run_records import EpochRecord, Score
from highwaynet.runs.spec import RunSpec

Status = Literal["finished", "diverged"]


def stored_as(question: Analysis) -> str:
    """The name of an answer's record; claims ask about the training data."""
    return EVALUATION if question == EVALUATION else QUESTIONS[question].stored_as()


class RunEvidence:
    """One run.

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
        """Whether it was trained to its end, so that the network could be asked."""
        return self.status == "finished"

    @cached_property
    def spec(self) -> RunSpec:
        """What was trained."""
        return self._run.read_spec()

    @cached_property
    def history(self) -> list[EpochRecord]:
        """Its epochs; none where it diverged in the first. Raises InputError where a finished run lacks some."""
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
        """Of all epochs, also of those before it diverged; infinite where there was none."""
        return min(self.losses, default=math.inf)

    @property
    def best_loss(self) -> float:
        """The lowest training loss; infinite where it diverged."""
        return self.lowest_loss if self.finished else math.inf

    @property
    def test(self) -> Score:
        """How well the trained network does on the test data."""
        return self.record("evaluation", EvaluationRecord).test

    @property
    def parameters(self) -> int:
        """How many numbers were trained."""
        return self.record("evaluation", EvaluationRecord).parameters

    def record(self, name: Analysis, kind: type[RecordT]) -> RecordT:
        """The answer to a question; raises InputError where it is missing."""
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
        """The runs whose label is this word, or begins with it and a dash and a number (of a seed or a trial)."""
        return [
            run
            for label, run in self._runs.items()
            if label == beginning or (label.startswith(f"{beginning}-") and label.removeprefix(f"{beginning}-").isdecimal())
        ]


Answers = dict[Analysis, Record]
"""What a trained network was asked, and answered."""


def kept_of(run: RunDirectory, answers: Answers) -> KeptRun:
    """What a claim keeps of a run."""
    return KeptRun.of(run, {stored_as(question): answer for question, answer in answers.items()})


def needs_data(run: RunDirectory, analyses: tuple[Analysis, ...]) -> bool:
    """Whether a run that ended is still to be asked something."""
    return run.finished and not all(run.has_record(stored_as(name)) for name in analyses)


def ask(run: RunDirectory, analyses: tuple[Analysis, ...]) -> Answers:
    """Put the questions to a trained network; answers that are there and up to date are not made again."""
    if not analyses:
        return {}
    from highwaynet.analysis.collect import Study

    study = Study(run)
    return {name: getattr(study, name)() for name in analyses}
