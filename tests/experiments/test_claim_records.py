"""plan.json and record.json."""

import json
from pathlib import Path

import pytest

from highwaynet.base.errors import InputError
from highwaynet.experiments.claim_records import (
    PLAN,
    RECORD,
    ClaimRecord,
    PlanRecord,
    RowRecord,
    RuleRecord,
    RunRecord,
    check_folder,
    load_claim,
    load_plan,
    rule_texts,
    save,
)
from highwaynet.experiments.claims import Verdict, overall
from highwaynet.experiments.registry import CLAIMS

FIG2 = CLAIMS["fig2"]


def plan() -> PlanRecord:
    return PlanRecord(claim="fig2", scale="smoke", rules=rule_texts(FIG2), runs={"mnist": "a", "cifar-100": "b"}, there=("mnist",))


def record() -> ClaimRecord:
    rule = rule_texts(FIG2)[0]
    return ClaimRecord(
        claim="fig2",
        title="t",
        paper="p",
        scale="laptop",
        verdict="1 of 2 reproduced",
        headline="61,7 %",
        rules=(RuleRecord(**rule.model_dump(), verdict="reproduced", found="61,7 ± 0.3 → ×", seeds=1, fresh=True),),
        rows=(RowRecord(what="w", paper="p", here="h"),),
        runs=(RunRecord(label="mnist", status="diverged", epochs=0),),
        made_before=1,
        note="n",
        figures=("a.png",),
    )


def test_they_come_back_as_they_went(tmp_path: Path) -> None:
    assert load_plan(tmp_path) is None
    assert load_claim(tmp_path) is None
    save(tmp_path, PLAN, plan())
    save(tmp_path, RECORD, record())
    assert load_plan(tmp_path) == plan()
    assert load_claim(tmp_path) == record()
    before = (tmp_path / RECORD).read_bytes()
    save(tmp_path, RECORD, record())
    assert (tmp_path / RECORD).read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [PLAN, RECORD]


def test_damaged_ones_are_named(tmp_path: Path) -> None:
    (tmp_path / PLAN).write_text('{"claim": "fig2"')
    with pytest.raises(InputError, match=r"plan\.json is damaged"):
        load_plan(tmp_path)
    (tmp_path / RECORD).write_text(record().model_dump_json().replace('"reproduced"', '"splendid"'))
    with pytest.raises(InputError, match=r"record\.json is damaged: rules\.0\.verdict"):
        load_claim(tmp_path)


@pytest.mark.parametrize(("before", "now"), [("reproduced", "reproduced"), ("partly", "not judged"), ("not reproduced", "differs")])
def test_records_of_older_versions_are_read(before: str, now: str, tmp_path: Path) -> None:
    rule = {"name": "n", "paper": "p", "text": "t", "verdict": before, "found": "f", "written_before": True}
    old = json.loads(record().model_dump_json()) | {"rules": [rule], "verdict": before}
    del old["headline"]
    (tmp_path / RECORD).write_text(json.dumps(old))
    read = load_claim(tmp_path)
    assert read
    assert (read.rules[0].verdict, read.rules[0].fresh, read.rules[0].seeds, read.headline) == (now, False, 0, "")
    (tmp_path / PLAN).write_text(plan().model_dump_json(exclude={"commit"}))
    assert load_plan(tmp_path) == plan()


@pytest.mark.parametrize(
    ("rules", "shown"),
    [
        ([("reproduced", 1, False)], "reproduced, one seed"),
        ([("not reached", 3, False)], "not reached at this budget"),
        ([("reproduced", 3, True), ("reproduced", 3, True)], "reproduced (fresh)"),
        ([("reproduced", 3, True), ("differs", 1, False)], "1 of 2 reproduced, 1 with one seed"),
        ([("reproduced", 1, True), ("not run", 0, False)], "1 of 2 reproduced (fresh), one seed"),
        ([("not run", 0, False)], "not run"),
    ],
)
def test_verdicts_as_tables_show_them(rules: list[tuple[Verdict, int, bool]], shown: str) -> None:
    made = tuple(RuleRecord(name="n", paper="p", text="t", verdict=word, found="f", seeds=seeds, fresh=new) for word, seeds, new in rules)
    verdict = overall([rule.verdict for rule in made])
    assert record().model_copy(update={"rules": made, "verdict": verdict}).shown == shown
    if len(made) == 1:
        assert made[0].shown == shown


def test_folders_that_are_somebody_else_s(tmp_path: Path) -> None:
    folder = tmp_path / "fig2-smoke"
    check_folder(folder, FIG2, "smoke")
    folder.mkdir()
    (folder / ".plan.json.123.tmp").touch()
    check_folder(folder, FIG2, "smoke")
    save(folder, PLAN, plan())
    check_folder(folder, FIG2, "smoke")
    with pytest.raises(InputError, match=r"fig2-smoke has fig2 at scale smoke: name another folder with --out, or remove it"):
        check_folder(folder, FIG2, "laptop")
    with pytest.raises(InputError, match=r"fig2-smoke has fig2 at scale smoke"):
        check_folder(folder, CLAIMS["fig3"], "smoke")
    (folder / PLAN).unlink()
    (folder / "runs").mkdir()
    with pytest.raises(InputError, match=r"fig2-smoke is not empty and has no plan.json: name another folder with --out, or remove it"):
        check_folder(folder, FIG2, "smoke")


@pytest.mark.parametrize("name", ["out", "out/runs", "out/fig2"])
def test_files_in_place_of_folders(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=rf"{name} is a file: name another folder with --out"):
        check_folder(tmp_path / "out" / "fig2", FIG2, "laptop")
