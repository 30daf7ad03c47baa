"""Commands that do not need torch do not import it, so that they answer at once."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from highwaynet import DataSpec
from highwaynet.data.load import load_dataset
from highwaynet.data.reading import describe_data
from highwaynet.runs.directory import RunDirectory
from holding import PATIENCE

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from highwaynet.__main__ import run; run()"
"""With None in its place, every import of torch raises an error."""


def answer(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", WITHOUT_TORCH, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("--help", "Train very deep gated networks"),
        ("train --help", "--gate-bias"),
        ("--version", "highwaynet "),
        ("networks", "resnet-44"),
        ("networks highway-b --json", '"recipes"'),
        ("data list", "fashion-mnist"),
        ("data describe digits", "1,294 samples to train on, 144 for validation, 359 for testing"),
        ("data describe numbers.csv --target y", "target 'y': mean"),
        ("data describe classes.csv --target y", "2 classes (no, yes)"),
        ("reproduce list", "needed-depth"),
    ],
)
def test_an_answer_without_torch(command: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("x,y\n" + "".join(f"{i % 17 / 3},{i % 17 + i / 7}\n" for i in range(100)))
    (tmp_path / "classes.csv").write_text("x,y\n" + "".join(f"{i % 17 / 3},{'yes' if i % 2 else 'no'}\n" for i in range(100)))
    result = answer(*command.split(), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert shown in result.stdout


def test_data_are_described_as_a_run_loads_them() -> None:
    for spec in (DataSpec(), DataSpec(validation=0, preprocessing=("scale", "standardise"))):
        data, (record, counts, _) = load_dataset(spec), describe_data(spec)
        assert record == data.preparation.record
        parts = {"train": data.train, "validation": data.validation, "test": data.test}
        found = {name: part.targets[part.rows].bincount().tolist() for name, part in parts.items() if part is not None}
        assert {name: list(numbers.values()) for name, numbers in counts.items()} == found


def test_runs_are_listed_without_torch(finished_run: Callable[[str], RunDirectory]) -> None:
    run = finished_run("fc-highway")
    for more in ([], ["--json"]):
        result = answer("runs", ".", *more, cwd=run.path.parent)
        assert result.returncode == 0, result.stderr
        assert run.path.name in result.stdout
        assert "finished" in result.stdout


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("evaluate --splt test", "highway: No such option: --splt"),
        ("evaluate nowhere", "highway: nowhere: no such run directory"),
        ("predict nowhere .", "highway: nowhere: no such run directory"),
        ("inspect nowhere", "highway: nowhere: no such run directory"),
        ("lesion nowhere", "highway: nowhere: no such run directory"),
        ("shrink nowhere", "highway: nowhere: no such run directory"),
        ("report nowhere", "highway: nowhere: no such run directory"),
        ("train --depth deep", "highway: network.depth = 'deep'"),
        ("train --network fc-higway", "highway: unknown network 'fc-higway'"),
        ("train --data nowhere.csv", "highway: data.name = '"),
        ("train --out .", "highway: . already exists"),
        ("networks highway-d", "highway: unknown network 'highway-d'"),
        ("runs nowhere", "highway: nowhere: no such folder"),
        ("reproduce fig9", "highway: unknown claim 'fig9'"),
        ("data describe nowhere.csv --target y", "highway: data.name = '"),
    ],
)
def test_an_error_without_torch(command: str, sentence: str, tmp_path: Path) -> None:
    result = answer(*command.split(), cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith(sentence)
