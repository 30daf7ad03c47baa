"""The records of a run: made once, kept in its directory, made again when they are out of date."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from highwaynet.analysis import collect
from highwaynet.analysis.analysis_records import About, GatesRecord, LesionsRecord, RoutingRecord
from highwaynet.analysis.collect import Study
from highwaynet.base.errors import InputError
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.record_files import load_record, save_record
from highwaynet.runs.run_records import Score


@pytest.fixture
def study(finished_run: Callable[..., RunDirectory], tmp_path: Path) -> Callable[..., Study]:
    """A study of a copy of a finished run."""

    def make(name: str = "fc-highway") -> Study:
        shutil.copytree(finished_run(name).path, tmp_path / name)
        return Study(RunDirectory.open(tmp_path / name))

    return make


@pytest.mark.parametrize(
    ("name", "gates", "closable"), [("fc-highway", True, 5), ("fc-plain", False, 0), ("fc-residual", False, 5), ("fc-lstm", False, 5)]
)
def test_what_a_network_can_be_asked(study: Callable[..., Study], name: str, gates: bool, closable: int) -> None:
    asked = study(name)
    assert (asked.has_gates, asked.closable) == (gates, closable)
    evaluation = asked.evaluation()
    assert evaluation.validation is not None
    assert evaluation.validation.loss == asked.run.read_history()[-1].validation_loss
    if closable:
        lesions = asked.lesions("train")
        assert len(lesions.closed) == closable
        assert lesions.intact.loss == pytest.approx(evaluation.train.loss, rel=1e-6)
        assert asked.lesions("test").samples == evaluation.test.samples


def test_every_record_is_kept_and_read_back(study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = study()
    questions = (
        asked.mistakes,
        asked.gates,
        asked.routing,
        asked.flow,
        asked.refinement,
        asked.lesions,
        asked.pairs,
        asked.deletions,
        asked.depth,
        asked.evaluation,
    )
    made = [question() for question in questions]
    for name in vars(collect):
        if name.startswith("analyse_"):
            monkeypatch.setattr(collect, name, None)
    assert [question() for question in questions] == made
    about = asked.gates().about
    assert (about.data, about.network, about.seed) == ("digits", "6-layer highway", 0)
    assert about.epochs == len(asked.run.read_history())


def test_another_question_makes_another_record(study: Callable[..., Study]) -> None:
    asked = study()
    assert asked.gates().sample == 0
    assert asked.gates(sample=3).sample == 3
    assert asked.gates().sample == 0
    assert asked.lesions("train", samples=10).samples == 10
    assert asked.lesions("train").samples == len(asked.data.train)
    assert asked.deletions(seed=1) != asked.deletions(seed=2)


def test_records_out_of_date_and_damaged_ones_are_made_anew(study: Callable[..., Study]) -> None:
    asked = study()
    right, routes = asked.gates(), asked.routing()
    folder = asked.run.path / "analysis"
    asked.run.save_record("gates", right.model_copy(update={"fingerprint": "old", "mean": np.zeros((1, 1), dtype=np.float32)}))
    assert asked.gates() == right
    for damage in (
        lambda: (folder / "routing.npz").write_bytes(b"no zip"),
        (folder / "routing.npz").unlink,
        lambda: (folder / "routing.json").write_text("{"),
        lambda: (folder / "routing.json").write_text("[]"),
        lambda: shutil.copy(folder / "gates.npz", folder / "routing.npz"),
    ):
        damage()
        assert asked.run.load_record("routing", RoutingRecord) is None
        assert asked.routing() == routes
    assert asked.run.load_record("gates", GatesRecord) == right


def test_records_hold_no_nan_in_their_json(study: Callable[..., Study]) -> None:
    record = study().pairs()
    text = record.model_dump_json()
    assert "NaN" not in text
    assert json.loads(text)["span_loss"][1][0] is None
    assert type(record).model_validate_json(text) == record


def test_a_second_look_needs_no_data(study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = study()
    questions = ("mistakes", "gates", "routing", "flow", "refinement", "lesions", "pairs", "deletions", "depth", "evaluation")
    first = [getattr(asked, name)() for name in questions]
    monkeypatch.setattr(collect, "load_dataset", None)
    again = Study(asked.run)
    assert [getattr(again, name)() for name in questions] == first


def test_records_of_a_network_that_blew_up(tmp_path: Path) -> None:
    score = Score(loss=float("inf"), accuracy=0.1, samples=3)
    about = About(data="d", network="n", seed=0, epochs=1)
    record = LesionsRecord(fingerprint="x", about=about, part="test", samples=3, intact=score, closed=(score, score))
    save_record(tmp_path, "lesions-test", record)
    json.loads((tmp_path / "lesions-test.json").read_text(), parse_constant=pytest.fail)
    assert load_record(tmp_path, "lesions-test", LesionsRecord) == record
    assert LesionsRecord.model_validate_json(record.model_dump_json()) == record


def test_records_are_saved_loaded_and_drawn_without_torch() -> None:
    code = (
        "import sys; import highwaynet.runs.record_files, highwaynet.analysis.analysis_records, highwaynet.figures.cards, "
        "highwaynet.figures.captions; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_checkpoint_is_told(finished_run: Callable[..., RunDirectory], tmp_path: Path) -> None:
    shutil.copytree(finished_run().path, tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").glob("best-*"):
        path.unlink()
    with pytest.raises(InputError, match="best"):
        Study(RunDirectory.open(tmp_path / "run"), "best")
