"""All records of a run: taken from its directory where they are up to date, made and kept there where not."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from highwaynet.analysis.gates import analyse_gates, highway_modules
from highwaynet.analysis.lesions import analyse_lesions
from highwaynet.analysis.records import EvaluationRecord, GatesRecord, LesionsRecord, Record
from highwaynet.base.errors import InputError
from highwaynet.data.load import load_dataset
from highwaynet.layers.lesion import count_layers
from highwaynet.networks.build import count_parameters
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network
from highwaynet.training.evaluation import evaluate

RecordT = TypeVar("RecordT", bound=Record)


@dataclass(frozen=True)
class RunRecords:
    """What is known about a trained network."""

    evaluation: EvaluationRecord
    gates: GatesRecord | None
    """None for a network without transform gates."""
    lesions: LesionsRecord | None
    """None for a network whose layers cannot be closed."""


def collect_records(run: RunDirectory, progress: Callable[[int, int], None] | None = None) -> RunRecords:
    """Evaluate a run and look inside its network; raises InputError if the directory is damaged."""
    spec = run.read_spec()
    preparation = run.load_preparation()
    network = load_network(run, data=preparation.record)
    data = load_dataset(spec.data, preparation)
    fingerprint = run.fingerprint()

    def recorded(name: str, kind: type[RecordT], make: Callable[[], RecordT]) -> RecordT:
        known = run.load_record(name, kind)
        if known is not None and known.fingerprint == fingerprint:
            return known
        made = make()
        with suppress(InputError):  # a run that may only be read can still be reported on
            run.save_record(name, made)
        return made

    evaluation = recorded(
        "evaluation",
        EvaluationRecord,
        lambda: EvaluationRecord(
            fingerprint=fingerprint,
            parameters=count_parameters(network),
            train=evaluate(network, data.train),
            validation=evaluate(network, data.validation) if data.validation else None,
            test=evaluate(network, data.test),
        ),
    )
    gates = lesions = None
    if highway_modules(network):
        gates = recorded("gates", GatesRecord, lambda: analyse_gates(network, data.train, part="train", fingerprint=fingerprint))
    if count_layers(network):
        lesions = recorded(
            "lesions",
            LesionsRecord,
            lambda: analyse_lesions(network, data.train, part="train", fingerprint=fingerprint, progress=progress),
        )
    return RunRecords(evaluation, gates, lesions)
