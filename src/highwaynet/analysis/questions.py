"""The questions that can be put to the network of a run: one table, which the commands, the report, Python and the claims read.

A new question is a row here, with its analysis and its record beside it, and a row in figures/drawings.py. Free of torch.
"""

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from highwaynet.analysis.analysis_records import (
    AnalysisRecord,
    DeletionsRecord,
    FlowRecord,
    GatesRecord,
    LesionsRecord,
    PairsRecord,
    RefinementRecord,
    RoutingRecord,
)
from highwaynet.data.names import Part
from highwaynet.runs.record_files import record_name

EVALUATION = "evaluation"
"""The name of the record of all scores, which every network has."""
Need = Literal["gates", "classes", "closable layers", "start"]
RecordT = TypeVar("RecordT", bound=AnalysisRecord)

REASONS: dict[Need, str] = {
    "gates": "it has no highway layers, so that there are no transform gates to look at",
    "classes": "it is a regression, which has no classes to compare",
    "closable layers": "it has no layers that can be closed; highway and residual layers can",
}
"""Why a network cannot be asked, if it lacks what a question needs; every run has a start."""


@dataclass(frozen=True)
class Question(Generic[RecordT]):
    """One question."""

    name: str
    """What it is called everywhere: in commands, records, reports and claims."""
    record: type[RecordT]
    """The answer."""
    home: str
    """Module and function of this room that find the answer."""
    command: Literal["inspect", "lesion"]
    """The command that asks it."""
    needs: tuple[Need, ...] = ()
    """What the network must have; with "start", the analysis also gets the network before training."""
    by_part: bool = False
    """Whether it can be asked about any part of the data; otherwise it is about the training data."""
    reported: tuple[Part, ...] = ("train",)
    """The parts of the data about which a report asks."""
    samples: int | None = None
    """How many samples are used, evenly spaced, if nothing else is asked for; None is all of them."""
    options: tuple[str, ...] = ()
    """Arguments of the analysis that the record keeps: an answer with other values is another answer."""

    def stored_as(self, part: Part = "train") -> str:
        """The name of its record in a run directory."""
        return record_name(self.name, part if self.by_part else None)


GATES = Question("gates", GatesRecord, "gates.analyse_gates", "inspect", ("gates",), options=("sample",))
ROUTING = Question("routing", RoutingRecord, "routing.analyse_routing", "inspect", ("gates", "classes"))
FLOW = Question("flow", FlowRecord, "flow.analyse_flow", "inspect", ("start",), samples=1000)
REFINEMENT = Question("refinement", RefinementRecord, "refinement.analyse_refinement", "inspect", samples=10_000)
LESIONS = Question(
    "lesions", LesionsRecord, "lesions.analyse_lesions", "lesion", ("closable layers",), by_part=True, reported=("train", "test")
)
PAIRS = Question("pairs", PairsRecord, "lesions.analyse_pairs", "lesion", ("closable layers",), by_part=True, samples=1000)
DELETIONS = Question(
    "deletions", DeletionsRecord, "lesions.analyse_deletions", "lesion", ("closable layers",), by_part=True, samples=1000, options=("seed",)
)

QUESTIONS: dict[str, Question[Any]] = {
    question.name: question for question in (GATES, ROUTING, FLOW, REFINEMENT, LESIONS, PAIRS, DELETIONS)
}


def questions_of(command: Literal["inspect", "lesion"]) -> tuple[str, ...]:
    """The names of the questions that a command asks."""
    return tuple(name for name, question in QUESTIONS.items() if question.command == command)
