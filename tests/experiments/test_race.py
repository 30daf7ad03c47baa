"""The race with a teacher: rules on runs written by hand, runs that wait for their teacher, and one small race from beginning to end."""

import shutil
from pathlib import Path

import pytest

from experiments.fakes import DIVERGED, Fake, drawn, evaluation, evidence_of, found, judge, verdicts
from highwaynet.base.errors import HighwayError
from highwaynet.experiments.claims import Run
from highwaynet.experiments.evidence import Evidence, kept_of
from highwaynet.experiments.keeping import kept_now
from highwaynet.experiments.keys import key_of, teacher_key
from highwaynet.experiments.pool import Pool
from highwaynet.experiments.race import METHODS, RACE_DENSE, RACE_MAXOUT, best_of
from highwaynet.experiments.registry import CLAIMS
from highwaynet.experiments.reproduce import prepare, reproduce
from highwaynet.experiments.runner import Standing, epochs_done, hint_epochs, run_all
from highwaynet.experiments.specs import run_spec
from highwaynet.experiments.thin_maxout import THIN_MAXOUT
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.stages import hints_path

RATES = (0.01, 0.04, 0.16)


def fake(test: float, validation: float) -> Fake:
    return Fake((0.5,), records=evaluation(test / 100), validation=validation / 100)


def race_of(folder: Path, means: dict[str, float], teacher: float = 95.0) -> Evidence:
    """The middle rate is the best on validation data; another one has the better test accuracy, which must not count."""
    fakes = {"teacher-101": fake(teacher, teacher)}
    for method, mean in means.items():
        for rate, (test, validation) in zip(RATES, ((99.9, 50.0), (mean, 90.0), (10.0, 11.0)), strict=True):
            for seed, shift in ((101, -0.2), (102, 0.0), (103, 0.2)):
                fakes[f"{method}-rate{rate:g}-{seed}"] = fake(test + (shift if test == mean else 0), validation)
    return evidence_of(folder, fakes)


def test_labels_are_those_of_the_plan(tmp_path: Path) -> None:
    labels = [run.label for run in race_of(tmp_path, dict.fromkeys(METHODS, 90.0))]
    assert labels == [run.label for run in RACE_DENSE.plan("laptop", None)]


def test_every_method_has_the_same_budget_and_the_same_grid() -> None:
    for name in ("race-dense", "race-maxout", "fitnets"):
        runs = CLAIMS[name].plan("laptop", 1)
        teacher, *others = runs
        budgets, rates = set(), {method: set() for method in METHODS}
        for run in others:
            first = run.spec.teacher.hint_epochs if run.spec.teacher and run.spec.teacher.hints else 0
            budgets.add(run.spec.training.epochs + first)
            rates[run.label.partition("-")[0]].add(run.spec.training.learning_rate)
            assert (run.spec.teacher is not None) == (run.teacher is teacher) == run.label.startswith(("distilled", "hinted"))
            if run.spec.teacher:
                assert run.spec.teacher.run == key_of(teacher.spec)
            assert run.spec.data == teacher.spec.data, "the teacher's inputs are prepared in the same way"
        assert budgets == {teacher.spec.training.epochs}
        assert len({frozenset(one) for one in rates.values()}) == 1


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ({"plain": 90.0, "distilled": 91.0, "hinted": 95.0, "highway": 95.0}, ["reproduced"] * 4),
        ({"plain": 91.0, "distilled": 91.0, "hinted": 91.0, "highway": 90.9}, ["differs"] * 4),
        ({"plain": 90.0, "distilled": 91.0, "hinted": 90.5, "highway": 94.0}, ["reproduced", "reproduced", "differs", "differs"]),
    ],
)
def test_rules(means: dict[str, float], expected: list[str], tmp_path: Path) -> None:
    evidence = race_of(tmp_path, means)
    record = judge(RACE_DENSE, evidence)
    assert list(verdicts(record).values()) == expected
    assert best_of(evidence, "plain")[0] == 0.04, "chosen on validation data"
    assert found(record, "distillation helps") == f"distilled {means['distilled']:.2f} %, plain {means['plain']:.2f} %"
    assert record.headline == f"hints {means['hinted']:.2f}, highway {means['highway']:.2f} %"
    assert drawn(RACE_DENSE, evidence) == ["race-dense"]
    assert all(rule.seeds == 3 for rule in record.rules)
    assert len(record.rows) == 9


def test_rows_of_a_race_in_which_only_the_best_rate_was_repeated(tmp_path: Path) -> None:
    fakes = {"plain-rate0.01-101": fake(90.0, 91.0), "plain-rate0.03-101": DIVERGED, "plain-rate0.01-102": fake(92.0, 80.0)}
    rows = {row.what: row.here for row in judge(RACE_MAXOUT, evidence_of(tmp_path, fakes)).rows}
    assert rows == {
        "thin network, backpropagation, 12,345 parameters, learning rate 0.01": "92.00 (91.00 ± 1.41) %",
        "thin network, backpropagation, first seed, by rate": "0.01: 90.00 %, 0.03: diverged",
    }


def test_a_run_that_diverged_decides_nothing(tmp_path: Path) -> None:
    fakes = {"teacher-104": fake(99.0, 99.0)}
    for method in METHODS:
        fakes |= {f"{method}-rate0.01-{seed}": fake(90.0, 91.0) for seed in (104, 105, 106)}
    fakes["hinted-rate0.01-105"] = DIVERGED
    record = judge(RACE_MAXOUT, evidence_of(tmp_path, fakes))
    assert list(verdicts(record).values()) == ["not reached", "differs", "not reached", "not reached"]
    assert found(record, "one stage is enough") == "highway 90.00 %, hinted 60.00 %; 1 of 6 runs diverged"
    assert found(record, "distillation helps") == "distilled 90.00 %, plain 90.00 %"
    assert record.headline == "some runs diverged"
    rows = {row.what: row.here for row in record.rows}
    assert rows["thin network, hints and distillation, 12,345 parameters, learning rate 0.01"] == (
        "90.00 (90.00 ± 0.00) %; 1 of 3 runs diverged"
    )
    # With all rates and all seeds it counts as 0 %, as it did when that race was run.
    assert verdicts(judge(RACE_DENSE, evidence_of(tmp_path / "dense", fakes)))["one stage is enough"] == "reproduced"


def test_a_race_that_was_not_finished(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, {"teacher-101": fake(95, 95), "plain-rate0.04-101": fake(90, 90), "highway-rate0.04-101": DIVERGED})
    assert set(verdicts(judge(RACE_DENSE, evidence)).values()) == {"not run"}
    assert judge(RACE_DENSE, evidence).headline == "not run"


@pytest.mark.parametrize(("deep", "verdict"), [(20.0, "reproduced"), (70.0, "1 of 4 reproduced"), (49.99, "reproduced")])
def test_depth_of_thin_maxout_networks(deep: float, verdict: str, tmp_path: Path) -> None:
    fakes = {run.label: fake(70.0 if "layers5-" in run.label else deep, 60.0) for run in THIN_MAXOUT.plan("laptop", None)}
    evidence = evidence_of(tmp_path, fakes)
    record = judge(THIN_MAXOUT, evidence)
    assert record.verdict == verdict
    assert record.headline == f"up to {11 if deep > 50 else 5} layers train"
    assert drawn(THIN_MAXOUT, evidence) == ["thin-maxout"]


def pair(rate: float = 0.05) -> tuple[Run, Run]:
    training, network = {"epochs": 1, "batch_size": 64}, {"name": "fc-residual", "depth": 6, "width": 20, "activation": "relu"}
    teacher = Run("teacher-1", run_spec(network, "digits", training | {"learning_rate": rate}))
    section = {"run": key_of(teacher.spec), "hints": "3:2"}
    student = run_spec({"name": "fc-plain", "depth": 5, "width": 8}, "digits", training | {"learning_rate": 0.05}, 1, section)
    return teacher, Run("student-1", student, (), teacher)


def silent(standing: Standing) -> None:
    pass


def test_a_student_waits_for_its_teacher_and_is_found_again(tmp_path: Path) -> None:
    teacher, student = pair()
    pool = Pool(tmp_path / "runs")
    run_all([student, teacher], pool, 2, silent)  # the student comes first in the list
    run = RunDirectory.open(pool.path_of(student))
    assert run.finished
    assert epochs_done(run.path) == hint_epochs(student.spec) + student.spec.training.epochs == 2, "both stages count"
    assert (epochs_done(pool.path_of(teacher)), hint_epochs(teacher.spec)) == (1, 0)
    assert key_of(run.read_spec()) == key_of(student.spec), "the key does not depend on where the teacher is"
    shutil.move(tmp_path / "runs", tmp_path / "moved")
    assert hints_path(run.path).name in {path.name for path in (tmp_path / "moved").iterdir()}
    again = Pool(tmp_path / "moved")
    assert again.is_done(teacher)


def test_what_is_kept_names_no_place_of_this_machine(tmp_path: Path) -> None:
    teacher, student = pair()
    pool = Pool(tmp_path / "runs")
    run_all([teacher, student], pool, 1, silent)
    kept = kept_of(RunDirectory.open(pool.path_of(student)), {})
    assert not [name for name, content in kept.files.items() if str(tmp_path).encode() in content]
    spec = kept.read_spec()
    assert spec.teacher is not None
    assert spec.teacher.run == teacher_key(str(pool.path_of(teacher))) == key_of(teacher.spec)
    assert key_of(spec) == key_of(student.spec)


def test_students_of_a_teacher_that_failed_are_given_up(tmp_path: Path) -> None:
    teacher, student = pair(rate=1e6)  # its loss is soon not finite
    with pytest.raises(HighwayError, match=r"the run student-1 failed: teacher.run = .*the run diverged"):
        run_all([teacher, student], Pool(tmp_path / "runs"), 1, silent)
    bad = Run("teacher-1", run_spec({"name": "fitnet-a"}, "digits", {"epochs": 1}))  # too large for these images
    section = {"run": key_of(bad.spec)}
    pupil = Run("pupil-1", run_spec({"name": "fc-plain", "depth": 5, "width": 8}, "digits", {"epochs": 1}, 1, section), (), bad)
    with pytest.raises(HighwayError, match=r"the run (teacher|pupil)-1 failed: .*\(1 more failed\)"):
        run_all([bad, pupil], Pool(tmp_path / "others"), 1, silent)


def test_thin_networks_that_diverge_do_not_show_that_depth_is_the_reason(tmp_path: Path) -> None:
    made = [run.label for run in THIN_MAXOUT.plan("laptop", None) if not run.first or "-rate0.0005-" in run.label]
    fakes = {label: fake(70.0 if "layers5-" in label else 20.0, 60.0) for label in made}
    repeated = "layers9-rate0.0005-102"
    assert repeated in fakes
    record = judge(THIN_MAXOUT, evidence_of(tmp_path, fakes | {repeated: DIVERGED}))
    assert list(verdicts(record).values()) == ["reproduced", "reproduced", "not reached", "reproduced"]
    assert found(record, "9 layers do not").endswith("; 1 of 3 runs diverged")


def test_a_student_whose_first_stage_diverges_has_ended_without_epochs(tmp_path: Path) -> None:
    teacher, _ = pair()
    section = {"run": key_of(teacher.spec), "hints": "2:2", "hint_epochs": 1, "hint_rate": 1e6}
    network = {"name": "fc-plain", "depth": 4, "width": 12, "activation": "relu"}
    wild = Run("student-1", run_spec(network, "digits", {"epochs": 2, "batch_size": 64}, 1, section), (), teacher)
    pool = Pool(tmp_path)
    run_all([teacher, wild], pool, 1, silent)
    assert Pool(tmp_path).is_done(wild), "it is found again, and not tried again"
    run = RunDirectory.open(pool.path_of(wild))
    assert (run.has_diverged, run.finished, run.epochs_written) == (True, False, 0)
    assert RunDirectory(hints_path(run.path)).has_diverged
    kept, status = kept_now(wild, run, print)
    assert (status, kept.read_history()) == ("diverged", [])
    assert key_of(kept.read_spec()) == key_of(wild.spec)


class Silent:
    """Follows a reproduction without a word."""

    def note(self, sentence: str) -> None: ...

    def show(self, standing: Standing) -> None: ...


def test_a_small_race_from_beginning_to_end(tmp_path: Path) -> None:
    job = prepare(RACE_DENSE, "smoke", None, tmp_path, [])
    record = reproduce(job, 2, Silent())
    assert {run.status for run in record.runs} == {"finished"}
    assert len(record.runs) == 9
    assert record.figures == ("race-dense.png",)
    assert reproduce(prepare(RACE_DENSE, "smoke", None, tmp_path, []), 1, Silent()) == record, "nothing is run twice"
