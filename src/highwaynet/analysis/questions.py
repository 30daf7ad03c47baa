"""The table of questions that can be asked of a trained network; commands, the report, Python and claims read it.

A new question needs a row here, its analysis and record in this room, and an entry in figures/drawings.py. Does not import torch.
"""

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from highwaynet.analysis.analysis_records import (
    AnalysisRecord,
    DeletionsRecord,
    DepthRecord,
    FlowRecord,
    GatesRecord,
    LesionsRecord,
    PairsRecord,
    RefinementRecord,
    RoutingRecord,
)
from highwaynet.analysis.mistakes_record import MistakesRecord
from highwaynet.data.names import Part
from highwaynet.runs.record_files import record_name

EVALUATION = "evaluation"
"""The name of the record of all scores; it exists for every network."""
Need = Literal["outputs", "gates", "classes", "closable layers", "removable layers", "start", "train"]
RecordT = TypeVar("RecordT", bound=AnalysisRecord)

REASONS: dict[Need, str] = {
    "outputs": "it is from the first stage of a training with hints, and its outputs are not trained",
    "gates": "it has no highway layers, and therefore no transform gates",
    "classes": "it is a regression, which has no classes to compare",
    "closable layers": "it has no layers that can be closed; highway and residual layers can",
    "removable layers": "it has no layers that can be removed; highway and residual layers that keep their shape can",
}
"""Why a question does not apply to a network that lacks what it needs; "start" and "train" are missing because every run has them."""


@dataclass(frozen=True)
class Question(Generic[RecordT]):
    """A question to a trained network."""

    name: str
    """Its name in commands, records, reports and claims."""
    record: type[RecordT]
    """The class of its record."""
    home: str
    """Module and function of this room that compute the answer."""
    command: Literal["inspect", "lesion"]
    """The command that asks it."""
    needs: tuple[Need, ...] = ()
    """What the network must have; with "start", the analysis also gets the network before training, with "train" the training data."""
    by_part: bool = False
    """Whether it can be asked about any part of the data; otherwise it is about the training data."""
    reported: tuple[Part, ...] = ("train",)
    """The parts of the data that a report includes."""
    samples: int | None = None
    """Default number of samples, evenly spaced; None means all."""
    options: tuple[str, ...] = ()
    """Arguments of the analysis that the record stores; a record with other values is not reused."""

    def stored_as(self, part: Part = "train") -> str:
        """Return the name of its record in a run directory."""
        return record_name(self.name, part if self.by_part else None)


CLOSING: tuple[Need, ...] = ("closable layers", "outputs")
"""What a network needs so that closing its layers can be judged."""
MISTAKES = Question(
    "mistakes", MistakesRecord, "mistakes.analyse_mistakes", "inspect", ("outputs", "train"), by_part=True, reported=("test",)
)
GATES = Question("gates", GatesRecord, "gates.analyse_gates", "inspect", ("gates",), options=("sample",))
ROUTING = Question("routing", RoutingRecord, "routing.analyse_routing", "inspect", ("gates", "classes", "outputs"))
FLOW = Question("flow", FlowRecord, "flow.analyse_flow", "inspect", ("outputs", "start"), samples=1000)
REFINEMENT = Question("refinement", RefinementRecord, "refinement.analyse_refinement", "inspect", samples=10_000)
LESIONS = Question("lesions", LesionsRecord, "lesions.analyse_lesions", "lesion", CLOSING, by_part=True, reported=("train", "test"))
PAIRS = Question("pairs", PairsRecord, "lesions.analyse_pairs", "lesion", CLOSING, by_part=True, samples=1000)
DELETIONS = Question(
    "deletions", DeletionsRecord, "lesions.analyse_deletions", "lesion", CLOSING, by_part=True, samples=1000, options=("seed",)
)
DEPTH = Question("depth", DepthRecord, "greedy.analyse_depth", "lesion", ("removable layers", "outputs"), by_part=True, samples=4000)

QUESTIONS: dict[str, Question[Any]] = {
    question.name: question for question in (MISTAKES, GATES, ROUTING, FLOW, REFINEMENT, LESIONS, PAIRS, DELETIONS, DEPTH)
}


def questions_of(command: Literal["inspect", "lesion"]) -> tuple[str, ...]:
    """Return the names of the questions that a command asks."""
    return tuple(name for name, question in QUESTIONS.items() if question.command == command)
