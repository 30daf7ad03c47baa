"""`highway inspect` and `highway lesion` as people type them, and what they answer to bad input."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from highwaynet.runs.directory import RunDirectory
from support import Highway


@pytest.fixture
def run(finished_run: Callable[..., RunDirectory], tmp_path: Path) -> Callable[..., Path]:
    """A copy of a finished run, as runs/NAME in the folder in which commands run."""

    def make(name: str = "fc-highway") -> Path:
        path = tmp_path / "runs" / name
        if not path.exists():
            shutil.copytree(finished_run(name).path, path)
        return path

    return make


def test_inspect_writes_figures_and_says_what_was_found(run: Callable[..., Path], tmp_path: Path, highway: Highway) -> None:
    result = highway("inspect", run(), "--format", "png,svg,pdf", "--out", "figs", fresh=True)
    assert result.returncode == 0, result.stderr
    names = {"confusion-test", "calibration-test", "gates", "routing", "route-distances", "flow", "refinement"}
    assert {path.name for path in (tmp_path / "figs").iterdir()} == {f"{name}.{kind}" for name in names for kind in ("png", "svg", "pdf")}
    assert (tmp_path / "figs" / "gates.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "figs" / "gates.pdf").read_bytes().startswith(b"%PDF")
    assert "transform gates are open by" in result.stdout.replace("\n", " ")
    assert "figure: figs/gates.png" in result.stdout
    before = {path: path.read_bytes() for path in (tmp_path / "figs").iterdir()}
    again = highway("inspect", run(), "--format", "png,svg,pdf", "--out", "figs")
    assert again.stdout == result.stdout
    assert {path: path.read_bytes() for path in (tmp_path / "figs").iterdir()} == before


def test_inspect_one_thing_as_json(run: Callable[..., Path], tmp_path: Path, highway: Highway) -> None:
    result = highway("inspect", run(), "--what", "routing, gates", "--classes", "0,7", "--sample", 5, "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert set(answer) == {"run", "findings", "figures", "gates", "routing"}
    assert (answer["gates"]["sample"], len(answer["gates"]["mean"])) == (5, 5)
    assert len(answer["routing"]["class_mean"]) == 10
    assert (tmp_path / "runs" / "fc-highway-figures" / "routing.png").exists()


@pytest.mark.parametrize("name", ["fc-plain", "fc-residual"])
def test_inspect_without_gates_looks_at_the_rest(name: str, run: Callable[..., Path], highway: Highway) -> None:
    answer = json.loads(highway("inspect", run(name), "--json").stdout)
    assert set(answer) == {"run", "findings", "figures", "mistakes", "flow", "refinement"}


def test_inspect_mistakes_of_a_part(run: Callable[..., Path], tmp_path: Path, highway: Highway) -> None:
    result = highway("inspect", run("fc-plain"), "--what", "mistakes", "--split", "validation", "--json")
    answer = json.loads(result.stdout)
    assert (answer["mistakes"]["part"], answer["mistakes"]["samples"]) == ("validation", 144)
    assert "always guessing the most frequent training class" in answer["findings"][0]
    figures = {path.name for path in (tmp_path / "runs" / "fc-plain-figures").iterdir()}
    assert figures == {"confusion-validation.png", "calibration-validation.png"}


def test_lesion_closes_layers(run: Callable[..., Path], tmp_path: Path, highway: Highway) -> None:
    result = highway(
        "lesion", run(), "--split", "test", "--what", "lesions,pairs,deletions,depth", "--samples", 50, "--json", "--out", "figs"
    )
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert len(answer["lesions"]["closed"]) == 5
    assert answer["lesions"]["samples"] == 50
    assert len(answer["pairs"]["pair_loss"]) == 5
    assert {path.name for path in (tmp_path / "figs").iterdir()} == {
        "lesions-test.png",
        "pairs-test.png",
        "deletions-test.png",
        "depth-test.png",
    }
    words = highway("lesion", run("fc-residual"), "--out", "figs", fresh=True)
    assert "of 5 layers can be closed one at a time" in words.stdout.replace("\n", " ")


def test_lesion_of_chosen_layers_together(run: Callable[..., Path], tmp_path: Path, highway: Highway) -> None:
    answer = json.loads(highway("lesion", run(), "--layers", "1, 3-5", "--json").stdout)
    assert answer["layers"] == [1, 3, 4, 5]
    assert answer["closed"]["samples"] == answer["intact"]["samples"]
    result = highway("lesion", run(), "--layers", "2", "--split", "test")
    assert "without 2" in result.stdout
    single = json.loads(highway("lesion", run(), "--split", "test", "--json").stdout)
    assert json.loads(highway("lesion", run(), "--layers", "2", "--split", "test", "--json").stdout)["closed"]["loss"] == pytest.approx(
        single["lesions"]["closed"][1]["loss"], rel=1e-6
    )


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("fc-plain", ["inspect", "--what", "gates"], "it has no highway layers, and therefore no transform gates"),
        ("fc-plain", ["lesion"], "it has no layers that can be closed"),
        ("fc-highway", ["inspect", "--what", "gate"], "--what gate: choose from mistakes, gates, routing, flow, refinement"),
        ("fc-highway", ["inspect", "--what", ","], "--what is empty"),
        ("fc-highway", ["inspect", "--classes", "3,12"], "--classes 12: no such class; there are 10, numbered from 0: 0, 1, 2"),
        ("fc-highway", ["inspect", "--sample", "100000"], "--sample 100000: there are 1,294 training samples, numbered from 0"),
        ("fc-highway", ["inspect", "--format", "gif"], "--format gif: choose from png, svg, pdf"),
        ("fc-highway", ["inspect", "--out", "taken"], "--out taken: this is a file"),
        ("fc-highway", ["inspect", "--checkpoint", "best"], "best"),
        ("fc-highway", ["lesion", "--layers", "0"], "--layers 0: there are 5 layers that can be closed, numbered from 1"),
        ("fc-highway", ["lesion", "--layers", "4-6"], "--layers 4-6: there are 5 layers that can be closed, numbered from 1"),
        ("fc-highway", ["lesion", "--layers", "two"], "--layers two: give numbers and ranges, separated by commas"),
        ("fc-highway", ["lesion", "--layers", ""], "--layers is empty"),
        ("fc-highway", ["lesion", "--layers", "5-2"], "--layers 5-2: a range goes from the smaller number to the larger, 2-5"),
        ("fc-highway", ["lesion", "--layers", "2", "--what", "pairs"], "--what pairs and --layers 2: choose a study, or layers"),
        ("fc-highway", ["inspect", "--what", "flow", "--classes", "3"], "--classes 3: this is for routing, which is not in --what"),
        ("fc-highway", ["inspect", "--what", "flow", "--split", "test"], "--split test: this is for mistakes, which is not in --what"),
        ("fc-plain", ["inspect", "--sample", "3"], "--sample 3: this is for gates"),
        ("fc-highway", ["lesion", "--what", "all"], "--what all: choose from lesions, pairs, deletions, depth"),
    ],
)
def test_bad_input_gets_one_sentence(
    name: str, arguments: list[str], words: str, run: Callable[..., Path], tmp_path: Path, highway: Highway
) -> None:
    (tmp_path / "taken").write_text("mine")
    if "best" in arguments:
        for path in (run(name) / "checkpoints").glob("best-*"):
            path.unlink()
    command, *rest = arguments
    result = highway(command, run(name), *rest)
    assert result.returncode == 2
    assert words in result.stderr.replace("\n", " ")
    assert len(result.stderr.strip().split(". ")) == 1
    assert "Traceback" not in result.stderr
    assert list(tmp_path.rglob("*figures")) == []


def test_a_folder_that_is_no_run(tmp_path: Path, highway: Highway) -> None:
    (tmp_path / "empty").mkdir()
    for command in ("inspect", "lesion"):
        result = highway(command, "empty")
        assert result.returncode == 2
        assert "empty" in result.stderr
