"""What runs would have left, written by hand: rules and figures see nothing else."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from highwaynet.analysis.analysis_records import About, EvaluationRecord, Flow, FlowRecord, GatesRecord, LesionsRecord, RoutingRecord
from highwaynet.experiments.claim_records import ClaimRecord, PlanRecord, rule_texts
from highwaynet.experiments.claims import Claim, Scale, Verdict
from highwaynet.experiments.evidence import Evidence, RunEvidence, stored_as
from highwaynet.experiments.kept_runs import ARCHIVE, unpack
from highwaynet.experiments.reproduce import judged
from highwaynet.experiments.specs import run_spec
from highwaynet.figures.style import to_svg
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.kept import KeptRun
from highwaynet.runs.run_records import EpochRecord, Score
from highwaynet.runs.spec import RunSpec, with_training

ORIGIN = {"fingerprint": "", "about": About(data="mnist", network="50-layer highway", seed=1, epochs=5), "part": "train", "samples": 1000}
LAYERS, BLOCKS = 49, 6
CLOCKS = {"timing.jsonl", "environment.json"}


@dataclass(frozen=True)
class Fake:
    """A run: the training losses of its epochs, how it ended, and the answers to questions."""

    losses: Sequence[float] = (1.0, 0.1)
    finished: bool = True
    records: Mapping[str, Any] = field(default_factory=dict)
    accuracy: float = 0.9
    spec: RunSpec | None = None
    validation: float | None = None
    """The validation accuracy of all epochs, if there are validation data."""


DIVERGED = Fake((), finished=False)


def mnist_spec(**network: Any) -> RunSpec:
    return run_spec({"name": "fc-highway", "depth": 50} | network, "mnist", {"epochs": 5})


def write_run(folder: Path, fake: Fake, spec: RunSpec) -> None:
    folder.mkdir(parents=True)
    spec = fake.spec or spec
    if fake.finished:
        spec = with_training(spec, epochs=len(fake.losses))
    (folder / "spec.toml").write_text(spec.to_toml())
    lines = [
        EpochRecord(
            epoch=number,
            step=number,
            learning_rate=0.1,
            train_loss=loss,
            train_accuracy=fake.accuracy,
            validation_loss=None if fake.validation is None else loss,
            validation_accuracy=fake.validation,
        ).model_dump_json()
        for number, loss in enumerate(fake.losses, start=1)
    ]
    if lines:
        (folder / "history.jsonl").write_text("\n".join(lines) + "\n")
    for name, record in fake.records.items():
        RunDirectory(folder).save_record(stored_as(name), record)


def evidence_of(folder: Path, fakes: Mapping[str, Fake], scale: Scale = "laptop", specs: Mapping[str, RunSpec] | None = None) -> Evidence:
    """The evidence of runs with these labels."""
    runs = []
    for label, fake in fakes.items():
        write_run(folder / label, fake, (specs or {}).get(label) or mnist_spec())
        runs.append(RunEvidence(label, KeptRun.in_folder(folder / label), "finished" if fake.finished else "diverged"))
    return Evidence(scale, runs)


def claim_files(folder: Path) -> dict[str, bytes]:
    """What has to be the same in two folders of a claim: all that does not depend on the clock, with the members of runs.zip one by one."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    if ARCHIVE in found:
        found |= {f"{ARCHIVE}/{name}": content for name, content in unpack(found.pop(ARCHIVE), folder / ARCHIVE).items()}
    return {name: content for name, content in found.items() if Path(name).name not in CLOCKS}


def judge(claim: Claim, evidence: Evidence) -> ClaimRecord:
    """The record of a claim, without figures."""
    labels = tuple(run.label for run in evidence)
    runs = dict.fromkeys(labels, "")
    return judged(claim, evidence, PlanRecord(claim=claim.name, scale=evidence.scale, rules=rule_texts(claim), runs=runs, there=()))


def drawn(claim: Claim, evidence: Evidence) -> list[str]:
    """The names of a claim's figures, after they were drawn and brought to paper without a warning, with nothing beyond its edges."""
    figures = claim.draw(evidence)
    for figure, caption in figures.values():
        assert caption.endswith(".")
        assert len(to_svg(figure)) > 1000
        box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) > -0.05, f"{claim.name} is cut off: {box} of {width} × {height} inches"
    return list(figures)


def verdicts(record: ClaimRecord) -> dict[str, Verdict]:
    return {rule.name: rule.verdict for rule in record.rules}


def found(record: ClaimRecord, name: str) -> str:
    return next(rule.found for rule in record.rules if rule.name == name)


def score(loss: float = 0.1, accuracy: float = 0.9) -> Score:
    return Score(loss=loss, accuracy=accuracy, samples=1000)


def evaluation(accuracy: float) -> dict[str, EvaluationRecord]:
    record = EvaluationRecord(fingerprint="", parameters=12_345, train=score(), validation=None, test=score(accuracy=accuracy))
    return {"evaluation": record}


def gates(
    *,
    fell: float = 0.8,
    opened: int = 2,
    active: float = 0.9,
    early: float = 0.9,
    first: int = 15,
    rises: bool = True,
    everywhere: float = 0.01,
) -> GatesRecord:
    """Shares of biases that fell and of gates active on average; a sample that opens this many, and its change in the first layers.

    Over all samples, the share `everywhere` of the gates is open.
    """
    size = LAYERS * BLOCKS
    bias = np.where(np.arange(size) < fell * size, -2.5, -1.5).reshape(BLOCKS, LAYERS).T + 0.001 * np.arange(LAYERS)[:, None] * rises
    sample = np.where(np.arange(size) < opened, 0.9, 0.01).reshape(LAYERS, BLOCKS)
    mean = np.where(np.arange(size) < active * size, 0.2, 0.02).reshape(BLOCKS, LAYERS).T - 0.0001 * np.arange(LAYERS)[:, None] * rises
    steps = np.where(np.arange(LAYERS) < first, early / (first - 1), (1 - early) / (LAYERS - first))
    steps[0] = 0
    return GatesRecord(
        **ORIGIN,
        start_bias=np.full(LAYERS, -2.0),
        bias=bias,
        mean=mean,
        sample=0,
        sample_gates=sample,
        sample_outputs=np.repeat(np.cumsum(steps)[:, None], BLOCKS, axis=1),
        open_share=np.full(LAYERS, everywhere),
        closed_share=np.full(LAYERS, 0.9),
        sparsity=np.linspace(0.8, 1, 7),
    )


def routing(*, static: float = 0.5, early: float = 0.9, sparse: bool = False) -> RoutingRecord:
    """Accuracy 0.9, or this with gates at their mean; classes differ in the first 15 layers by this share, perhaps in one block."""
    layers = np.where(np.arange(LAYERS) < 15, math.sqrt(early / 15), math.sqrt((1 - early) / (LAYERS - 15)))
    signs = np.array([(-1) ** number for number in range(10)])
    blocks = np.eye(BLOCKS)[0] if sparse else np.ones(BLOCKS)
    return RoutingRecord(
        **ORIGIN,
        class_names=tuple(map(str, range(10))),
        class_samples=(100,) * 10,
        mean=np.full((LAYERS, BLOCKS), 0.5),
        class_mean=0.5 + signs[:, None, None] * (layers[:, None] * blocks)[None],
        distance=np.ones((10, 10)) - np.eye(10),
        input_share=np.full(LAYERS, 0.5),
        class_share=np.full(LAYERS, 0.5),
        intact=score(accuracy=0.9),
        static=score(accuracy=static),
    )


def lesions(busy: Sequence[int], times: float = 10.0, intact: float = 0.1) -> LesionsRecord:
    """A network in which these layers matter."""
    closed = tuple(score(times * intact if number in busy else intact) for number in range(1, LAYERS + 1))
    return LesionsRecord(**ORIGIN, intact=score(intact), closed=closed)


def flow(*findings: str, variance: Sequence[float] = (1.0, 0.5)) -> FlowRecord:
    """A network of two layers with these failures at the start."""
    values = np.array(variance)
    column = np.ones(2)
    moment = Flow(
        mean=column, variance=values, dead=0 * column, gradient=column, signal_gradient=column, loss=2.3, findings=tuple(findings)
    )
    return FlowRecord(**ORIGIN, kind="plain", activation="relu", init="he", layers=("1", "2"), start=moment, trained=moment)
