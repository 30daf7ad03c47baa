"""What rules see of runs."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, evaluation, evidence_of, mnist_spec
from highwaynet.analysis.analysis_records import FlowRecord, GatesRecord
from highwaynet.base.errors import InputError
from highwaynet.experiments.evidence import RunEvidence, ask, kept_of, needs_data
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.kept import KeptRun
from highwaynet.runs.spec import StartSpec


def test_labels_end_in_a_number_or_not_at_all(tmp_path: Path) -> None:
    labels = ["left-highway-10-1", "left-highway-10-2", "left-highway-100-1", "left-highway-10-x", "left-highway-10"]
    evidence = evidence_of(tmp_path, dict.fromkeys(labels, Fake()))
    assert [run.label for run in evidence.labelled("left-highway-10")] == ["left-highway-10-1", "left-highway-10-2", "left-highway-10"]
    assert [run.label for run in evidence.labelled("left-highway-100")] == ["left-highway-100-1"]
    assert evidence.labelled("left") == []
    assert [run.label for run in evidence] == labels
    assert "left-highway-10" in evidence
    assert "right" not in evidence
    assert evidence["left-highway-10"].label == "left-highway-10"


def test_runs_by_seed(tmp_path: Path) -> None:
    labels = ["right-plain-10-0-101", "right-plain-10-0-102", "right-plain-10-3-101", "w-1", "w-2", "old", "right-plain-10-0-1-2"]
    evidence = evidence_of(tmp_path, dict.fromkeys(labels, Fake()))
    groups = evidence.by_seed("right-plain-10", ranked=True)
    assert {seed: [run.label for run in runs] for seed, runs in groups.items()} == {
        (101,): ["right-plain-10-0-101", "right-plain-10-3-101"],
        (102,): ["right-plain-10-0-102"],
    }
    assert list(evidence.by_seed("w")) == [(1,), (2,)]
    assert list(evidence.by_seed("old")) == [()], "labels of older records"
    assert evidence.by_seed("missing") == {}


def test_seeds_are_counted_for_each_setting(tmp_path: Path) -> None:
    specs = {f"{width}-{seed}": mnist_spec(width=width).model_copy(update={"seed": seed}) for width, seed in ((5, 1), (5, 2), (6, 1))}
    evidence = evidence_of(tmp_path, dict.fromkeys(specs, Fake()), specs=specs)
    assert evidence.seeds_of(evidence.labelled("5")) == 2
    assert evidence.seeds_of(evidence) == 1, "the smallest number"
    assert evidence.seeds_of([]) == 0


def test_first_stages_are_not_another_setting(tmp_path: Path) -> None:
    spec = mnist_spec(width=5)
    specs = {f"hinted-{seed}": spec.model_copy(update={"seed": seed, "start": StartSpec(run=f"stage-{seed}")}) for seed in (1, 2, 3)}
    evidence = evidence_of(tmp_path, dict.fromkeys(specs, Fake()), specs=specs)
    assert evidence.seeds_of(evidence) == 3


def test_the_best_loss_is_the_lowest_and_none_where_it_diverged(tmp_path: Path) -> None:
    evidence = evidence_of(
        tmp_path, {"good": Fake((2.0, 0.25, 0.5), records=evaluation(0.75)), "late": Fake((2.0, 1.0), finished=False), "at-once": DIVERGED}
    )
    assert [run.best_loss for run in evidence] == [0.25, math.inf, math.inf]
    assert [run.losses for run in evidence] == [[2.0, 0.25, 0.5], [2.0, 1.0], []]
    assert [run.finished for run in evidence] == [True, False, False]
    assert evidence["good"].test.accuracy == 0.75
    assert evidence["good"].parameters == 12_345
    assert evidence["good"].spec.network.depth == 50


def test_a_finished_run_that_lacks_epochs_is_not_judged(tmp_path: Path) -> None:
    evidence_of(tmp_path, {"cut": Fake((2.0, 1.0, 0.5))})
    path = tmp_path / "cut" / "history.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]) + '{"half a line')
    cut = RunEvidence("cut", KeptRun.in_folder(tmp_path / "cut"), "finished")
    with pytest.raises(InputError, match="cut is damaged: its history has 2 of 3 epochs"):
        _ = cut.losses


def test_damaged_files_are_named() -> None:
    where = Path("fig1", "runs.zip", "one")
    with pytest.raises(InputError, match=r"^fig1/runs\.zip/one has no spec\.toml: run `highway reproduce` again$"):
        KeptRun(where, {}).read_spec()
    with pytest.raises(InputError, match=r"^fig1/runs\.zip/one/spec\.toml is not valid TOML"):
        KeptRun(where, {"spec.toml": b"="}).read_spec()
    with pytest.raises(InputError, match=r"^cannot read fig1/runs\.zip/one/history\.jsonl: it is not UTF-8 text \(byte 1\)$"):
        KeptRun(where, {"history.jsonl": b"{\xff}\n"}).read_history()
    with pytest.raises(InputError, match=r"^fig1/runs\.zip/one/history\.jsonl, line 1, is damaged"):
        KeptRun(where, {"history.jsonl": b"{}\n"}).read_history()
    assert KeptRun(where, {"analysis/flow.json": b"{"}).load_record("flow", FlowRecord) is None


def test_a_record_that_is_missing_is_named(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, {"good": Fake()})
    with pytest.raises(InputError, match="good has no record flow: run `highway reproduce` again"):
        evidence["good"].record("flow", FlowRecord)


def test_what_is_kept_of_a_run(finished_run: Callable[[], RunDirectory]) -> None:
    run = finished_run()
    assert needs_data(run, ("gates", "flow"))
    answers = ask(run, ("gates", "flow"))
    assert not needs_data(run, ("gates", "flow"))
    assert not needs_data(run, ())
    kept = kept_of(run, {"flow": answers["flow"], "gates": answers["gates"]})
    light = {"data.json", "environment.json", "history.jsonl", "plan.json", "spec.toml", "timing.jsonl"}
    assert set(kept.files) == light | {"analysis/flow.json", "analysis/gates.json", "analysis/gates.npz"}
    for name, content in kept.files.items():
        assert content == (run.path / name).read_bytes(), name
    evidence = RunEvidence("kept", kept, "finished")
    assert evidence.spec == run.read_spec()
    assert evidence.history == run.read_history()
    assert evidence.record("flow", FlowRecord) == run.load_record("flow", FlowRecord)
    assert evidence.record("gates", GatesRecord) == answers["gates"]
    assert set(kept_of(run, {}).files) == light, "old answers are not taken over"
    assert KeptRun.in_folder(run.path).files == kept.files
