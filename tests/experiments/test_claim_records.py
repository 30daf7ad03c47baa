"""plan.json and record.json."""

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
        verdict="partly",
        rules=(RuleRecord(**rule.model_dump(), verdict="partly", found="61,7 ± 0.3 → ×", written_before=True),),
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
    (tmp_path / RECORD).write_text(record().model_dump_json().replace('"partly"', '"splendid"'))
    with pytest.raises(InputError, match=r"record\.json is damaged: verdict"):
        load_claim(tmp_path)


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
