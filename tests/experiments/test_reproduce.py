"""From a claim to its record, with a claim of three runs of a second each."""

import dataclasses
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.fakes import claim_files
from highwaynet.base.errors import HighwayError, InputError
from highwaynet.experiments import reproduce as module
from highwaynet.experiments.claim_records import load_claim, load_plan, rule_texts
from highwaynet.experiments.claims import Claim, Outcome, Row, Rule, Run, Scale
from highwaynet.experiments.evidence import Evidence
from highwaynet.experiments.kept_runs import ARCHIVE, read_runs, unpack
from highwaynet.experiments.keys import key_of
from highwaynet.experiments.pool import Pool
from highwaynet.experiments.registry import CLAIMS
from highwaynet.experiments.reproduce import judged, prepare, reproduce, stored_evidence
from highwaynet.experiments.runner import Standing
from highwaynet.experiments.specs import over_seeds, run_spec, seeds_at
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.lock import FolderLock
from highwaynet.runs.spec import RunSpec, with_training
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.loop import train
from holding import PATIENCE


class Silent:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def show(self, standing: Standing) -> None:
        pass


def plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    if scale == "paper":
        return ()
    wild = {"name": "fc-plain", "depth": 30, "width": 12, "activation": "relu", "init": "he"}
    network, training = {"name": "fc-highway", "depth": 3, "width": 5}, {"epochs": 1, "batch_size": 128}
    return (
        *over_seeds("tame", network, "digits", training, seeds_at("smoke", seeds or 1), ("evaluation", "flow")),
        Run("wild", run_spec(wild, "digits", {"epochs": 2, "learning_rate": 1e5}), ("evaluation",)),
    )


def draw(evidence: Evidence) -> Any:
    from highwaynet.figures.curves import Curve, draw_curves

    return {"curves": (draw_curves([Curve(run.label, "black", run.history) for run in evidence if run.finished]), "Curves.")}


def by_accuracy(evidence: Evidence) -> Outcome:
    return Outcome(
        "differs",
        f"accuracy {evidence['tame-1'].test.accuracy}, wild {evidence['wild'].status}",
        evidence.seeds_of(evidence.labelled("tame")),
    )


CLAIM = Claim(
    "toy",
    "A toy",
    "It works.",
    plan,
    (Rule("works", "it works", "it is run", by_accuracy),),
    draw,
    lambda evidence: [Row("runs", "2", str(len(list(evidence))))],
    {"laptop": "a note"},
    headline=lambda evidence: "one tame run",
)


def train_here(runs: list[Run], pool: Pool, workers: int, show: Callable[[Standing], None], **_: Any) -> None:
    """What the workers do, in this process."""
    for run in runs:
        if not pool.is_done(run):
            try:
                train(run.spec, pool.path_of(run))
            except DivergenceError:
                continue


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_all", train_here)
    monkeypatch.setattr(module, "frozen_commit", lambda: "c0ffee")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the claim was reproduced; tests must not change it."""
    out = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run_all", train_here)
        patch.setattr(module, "frozen_commit", lambda: "c0ffee")
        reproduce(prepare(CLAIM, "laptop", None, out, []), 1, Silent())
    return out


def test_what_is_in_the_folder(made: Path) -> None:
    assert sorted(claim_files(made / "toy")) == [
        "figures/curves.png",
        "plan.json",
        "record.json",
        "runs.zip/tame-1/analysis/evaluation.json",
        "runs.zip/tame-1/analysis/flow.json",
        "runs.zip/tame-1/data.json",
        "runs.zip/tame-1/history.jsonl",
        "runs.zip/tame-1/plan.json",
        "runs.zip/tame-1/spec.toml",
        "runs.zip/wild/data.json",
        "runs.zip/wild/plan.json",
        "runs.zip/wild/spec.toml",
    ]
    assert sorted(path.name for path in (made / "toy").iterdir()) == ["figures", "plan.json", "record.json", "runs.zip"]
    record = load_claim(made / "toy")
    assert record
    assert [(run.label, run.status, run.epochs) for run in record.runs] == [("tame-1", "finished", 1), ("wild", "diverged", 0)]
    assert (record.verdict, record.made_before, record.note, record.figures) == ("differs", 0, "a note", ("curves.png",))
    assert record.headline == "one tame run"
    assert record.rules[0].fresh
    assert record.shown == "differs (fresh), one seed"
    assert [row.here for row in record.rows] == ["2"]


def test_the_record_follows_from_what_is_stored(made: Path) -> None:
    record, before = load_claim(made / "toy"), load_plan(made / "toy")
    assert record
    assert before
    assert judged(CLAIM, stored_evidence(made / "toy", record), before).model_copy(update={"figures": record.figures}) == record


def as_before(folder: Path) -> None:
    """Make what is kept in a claim's folder what earlier versions kept: a folder for each run."""
    for name, content in unpack((folder / ARCHIVE).read_bytes(), folder / ARCHIVE).items():
        (folder / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "runs" / name).write_bytes(content)
    (folder / ARCHIVE).unlink()


def test_folders_of_kept_runs_from_before_are_read_and_replaced(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    folder, labels = tmp_path / "toy", ["tame-1", "wild"]
    new = {label: run.files for label, run in read_runs(folder, labels).items()}
    as_before(folder)
    assert {label: run.files for label, run in read_runs(folder, labels).items()} == new
    record, before = load_claim(folder), load_plan(folder)
    assert record
    assert before
    assert judged(CLAIM, stored_evidence(folder, record), before).model_copy(update={"figures": record.figures}) == record
    (folder / "runs" / "of-another-plan").mkdir()
    assert reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent()) == record
    assert not (folder / "runs").exists()
    assert claim_files(folder) == claim_files(made / "toy")


def test_folders_from_before_stay_until_the_new_file_is_there(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    as_before(tmp_path / "toy")
    there = claim_files(tmp_path / "toy")

    def full(path: Path, content: bytes) -> None:
        raise InputError(f"cannot write {path}: no space left on device")

    monkeypatch.setattr("highwaynet.experiments.kept_runs.write_atomically", full)
    with pytest.raises(InputError, match=r"cannot write .*runs\.zip"):
        reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())
    assert claim_files(tmp_path / "toy") == there


def test_the_same_again_is_the_same(made: Path, tmp_path: Path) -> None:
    reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())
    assert claim_files(tmp_path / "toy") == claim_files(made / "toy")
    before = (tmp_path / "toy" / ARCHIVE).read_bytes()
    reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())
    assert claim_files(tmp_path / "toy") == claim_files(made / "toy"), "nor does anything change where all is done"
    assert (tmp_path / "toy" / ARCHIVE).read_bytes() == before


def test_the_rules_are_written_before_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(*arguments: Any, **_: Any) -> None:
        seen.append((load_plan(tmp_path / "toy"), [path.name for path in tmp_path.iterdir()]))
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_all", look)
    with pytest.raises(KeyboardInterrupt):
        reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())
    ((before, names),) = seen
    assert before
    assert before.rules == rule_texts(CLAIM)
    assert before.runs == {run.label: key_of(run.spec) for run in CLAIM.plan("laptop", None)}
    assert list(before.runs) == ["tame-1", "wild"]
    assert before.there == ()
    assert names == ["toy"]


def test_runs_that_were_there_before_the_rules_are_counted(made: Path, tmp_path: Path) -> None:
    record = reproduce(prepare(CLAIM, "laptop", None, tmp_path, [made / "runs"]), 1, Silent())
    assert record.made_before == 2
    assert load_plan(tmp_path / "toy").there == ("tame-1", "wild")  # type: ignore[union-attr]
    assert not (tmp_path / "runs").exists(), "all of them are somebody else's"


def test_more_seeds_keep_what_is_there(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    record = reproduce(prepare(CLAIM, "laptop", 2, tmp_path, []), 1, Silent())
    assert [run.label for run in record.runs] == ["tame-1", "tame-2", "wild"]
    assert record.made_before == 0, "the first ones were made under the same rules"
    record = reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())
    assert claim_files(tmp_path / "toy") == claim_files(made / "toy"), "nothing is left of the second seed"


def test_a_rule_that_was_changed_after_the_runs_is_marked(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    lenient = dataclasses.replace(CLAIM, rules=(dataclasses.replace(CLAIM.rules[0], text="whatever comes"),))
    record = reproduce(prepare(lenient, "laptop", None, tmp_path, []), 1, Silent())
    assert not record.rules[0].fresh
    assert load_plan(tmp_path / "toy") == load_plan(made / "toy")
    record = reproduce(prepare(lenient, "laptop", 2, tmp_path, []), 1, Silent())
    assert not record.rules[0].fresh, "not before the old runs"
    assert load_plan(tmp_path / "toy").there == ("tame-1", "wild")  # type: ignore[union-attr]


def test_without_a_commit_nothing_is_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "frozen_commit", lambda: None)
    record = reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())
    assert not record.rules[0].fresh
    assert load_plan(tmp_path / "toy").commit is None  # type: ignore[union-attr]


def test_a_plan_without_runs_is_written_again_with_the_rules_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: Any, **_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "run_all", stop)
        patch.setattr(module, "frozen_commit", lambda: None)
        with pytest.raises(KeyboardInterrupt):
            reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())
    strict = dataclasses.replace(CLAIM, rules=(dataclasses.replace(CLAIM.rules[0], text="something else"),))
    record = reproduce(prepare(strict, "laptop", None, tmp_path, []), 1, Silent())
    assert record.rules[0].fresh
    assert load_plan(tmp_path / "toy").commit == "c0ffee"  # type: ignore[union-attr]


@pytest.mark.parametrize(("commit", "fresh"), [("c0ffee", True), ("another", False), (None, False)])
def test_runs_that_another_claim_planned_under_the_same_commit_are_fresh_too(
    commit: str | None, fresh: bool, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(module, "frozen_commit", lambda: commit)
    sharing = dataclasses.replace(CLAIM, name="sharing")
    record = reproduce(prepare(sharing, "laptop", None, tmp_path, []), 1, Silent())
    assert [rule.fresh for rule in record.rules] == [fresh]
    assert record.made_before == (0 if fresh else 2)


def test_runs_with_other_settings_than_the_claim_has_now_are_not_described_by_its_note(made: Path) -> None:
    record, before = load_claim(made / "toy"), load_plan(made / "toy")
    assert record
    assert before
    longer = dataclasses.replace(CLAIM, plan=lambda scale, seeds: CLAIM.plan(scale, seeds)[:1])
    again = judged(longer, stored_evidence(made / "toy", record), before)
    assert (
        again.note
        == "runs of an earlier plan, with other settings than the claim has now: 1 of 1 epochs on digits, 1 of 2 epochs on digits."
    )


def test_other_settings_under_the_same_label_are_another_plan(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)

    def plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
        tame, *others = CLAIM.plan(scale, seeds)
        return (Run(tame.label, with_training(tame.spec, learning_rate=0.123), tame.analyses), *others)

    reproduce(prepare(dataclasses.replace(CLAIM, plan=plan), "laptop", None, tmp_path, []), 1, Silent())
    before, now = load_plan(made / "toy"), load_plan(tmp_path / "toy")
    assert before
    assert now
    assert (now.runs["wild"], now.there) == (before.runs["wild"], ())
    assert now.runs["tame-1"] != before.runs["tame-1"]


def test_two_with_other_runs_do_not_judge_each_other_s(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    run_all = module.run_all

    def meanwhile(*arguments: Any, **_: Any) -> None:
        monkeypatch.setattr(module, "run_all", run_all)
        reproduce(prepare(CLAIM, "laptop", 2, tmp_path, []), 1, Silent())

    monkeypatch.setattr(module, "run_all", meanwhile)
    with pytest.raises(HighwayError, match=r"another process started toy in .* with other runs"):
        reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())


def test_what_a_killed_process_left_half_written_is_made_again(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made / "runs", tmp_path / "runs")
    with monkeypatch.context() as patch:
        patch.setattr(module, "judged", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())
    folder = tmp_path / "toy"
    assert load_claim(folder) is None
    (folder / ".record.json.123.tmp").write_text("{")
    (folder / ".runs.zip.123.tmp").write_text("{")
    (folder / ARCHIVE).write_bytes((folder / ARCHIVE).read_bytes()[:100])
    (folder / "figures").mkdir()
    (folder / "figures" / "half.png").touch()
    reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 1, Silent())
    mine, theirs = claim_files(folder), claim_files(made / "toy")
    assert mine.pop("plan.json") != theirs.pop("plan.json"), "here the runs were there first"
    assert mine.keys() == theirs.keys()
    assert all(mine[name] == theirs[name] for name in theirs if name != "record.json")


def test_two_do_not_write_to_a_folder_at_once(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    lock = FolderLock(tmp_path / "toy")
    assert lock.attempt()
    done, refused, attempt = threading.Event(), threading.Semaphore(0), FolderLock.attempt

    def attempt_and_tell(self: FolderLock, **way: bool) -> bool:
        taken = attempt(self, **way)
        if not taken:
            refused.release()
        return taken

    monkeypatch.setattr(FolderLock, "attempt", attempt_and_tell)
    job = prepare(CLAIM, "laptop", None, tmp_path, [])
    thread = threading.Thread(target=lambda: (reproduce(job, 1, Silent()), done.set()))
    thread.start()
    for _ in range(3):
        assert refused.acquire(timeout=PATIENCE)
    assert not done.is_set()
    lock.release()
    thread.join(PATIENCE)
    assert done.is_set()
    assert claim_files(tmp_path / "toy") == claim_files(made / "toy")


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="toy is not run at scale paper: choose another one with --scale"):
        prepare(CLAIM, "paper", None, tmp_path, [])
    monkeypatch.setenv("HIGHWAYNET_DATA", str(tmp_path / "nothing"))
    for name in ("fig2", "table1", "thousand", "initialisation", "report2016", "report2021"):
        with pytest.raises(InputError, match="not found below"):
            prepare(CLAIMS[name], "laptop", None, tmp_path, [])
    assert not list(tmp_path.iterdir())


def test_runs_without_answers_need_their_data(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[RunSpec] = []
    monkeypatch.setattr(module.SpecChecks, "check", lambda self, spec: checked.append(spec))
    prepare(CLAIM, "laptop", None, tmp_path, [made / "runs"])
    assert checked == []
    shutil.copytree(made / "runs", tmp_path / "runs")
    for path in (tmp_path / "runs").rglob("flow.json"):
        path.unlink()
    prepare(CLAIM, "laptop", None, tmp_path, [])
    assert checked == [run.spec for run in CLAIM.plan("laptop", None) if run.label == "tame-1"]


def test_runs_that_may_only_be_read_are_asked_all_the_same(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made / "runs", tmp_path / "theirs")
    for path in (tmp_path / "theirs").rglob("flow.json"):
        path.unlink()
    for path in (tmp_path / "theirs").rglob("evaluation.json"):
        path.write_text(path.read_text().replace('"fingerprint":"', '"fingerprint":"of other weights'))
    save_record = RunDirectory.save_record

    def refuse(self: RunDirectory, *arguments: Any) -> None:
        if self.path.is_relative_to(tmp_path / "theirs"):
            raise InputError(f"cannot write {self.path}")
        save_record(self, *arguments)

    monkeypatch.setattr(RunDirectory, "save_record", refuse)
    reproduce(prepare(CLAIM, "laptop", None, tmp_path, [tmp_path / "theirs"]), 1, Silent())
    mine, theirs = claim_files(tmp_path / "toy"), claim_files(made / "toy")
    assert all(mine[name] == theirs[name] for name in theirs if name.startswith(ARCHIVE))


def test_nobody_is_told_to_remove_a_run_because_the_data_are_missing(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made / "runs", tmp_path / "theirs")
    for path in (tmp_path / "theirs").rglob("evaluation.json"):
        path.write_text("{}")
    job = prepare(CLAIM, "laptop", None, tmp_path, [tmp_path / "theirs"])
    with monkeypatch.context() as patch:
        patch.setattr("highwaynet.analysis.collect.load_dataset", lambda *_, **__: missing())
        patch.setattr(module.SpecChecks, "check", lambda self, spec: missing())
        with pytest.raises(InputError, match=r"^the data are gone$"):
            reproduce(job, 1, Silent())
    for path in (tmp_path / "theirs").rglob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        InputError, match=r" \(omit the --reuse folder that contains .*theirs.*, and the same command makes this run again\)$"
    ):
        reproduce(job, 1, Silent())


def missing() -> None:
    raise InputError("the data are gone")


def test_smoke_lies_beside_laptop(made: Path, tmp_path: Path) -> None:
    record = reproduce(prepare(CLAIM, "smoke", None, tmp_path, [made / "runs"]), 1, Silent())
    assert record.verdict == "not judged"
    assert [rule.verdict for rule in record.rules] == ["not judged"]
    assert [path.name for path in tmp_path.iterdir()] == ["toy-smoke"]
