"""Fewer threads on busy cores."""

from pathlib import Path

import pytest
import torch

from highwaynet.base import busy
from highwaynet.base.busy import busy_cores, free_threads
from highwaynet.cli.main import app
from highwaynet.runs.directory import RunDirectory


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(busy.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(busy, "PAUSE", 0.0)


@pytest.mark.parametrize(("running", "threads"), [(0, 8), (0.4, 8), (3, 5), (8, 1), (100, 1)])
def test_threads_that_find_a_free_core(running: float, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "busy_cores", lambda: running)
    assert free_threads(8) == threads
    assert free_threads(1) == 1


def test_threads_that_the_user_chose_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "busy_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert free_threads(8) == 8


def test_some_of_many_cores_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may use 4 of 8 cores, and other programs the other 4."""
    monkeypatch.setattr(busy, "busy_cores", lambda: 4)
    assert free_threads(4) == 4


def test_running_programs_are_counted_without_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([3, 9, 3, 4, 1])
    monkeypatch.setattr(busy, "_running", lambda: next(counts))
    assert busy_cores() == 2


def test_the_load_average_where_programs_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "_running", lambda: None)
    monkeypatch.setattr(busy.os, "getloadavg", lambda: (2.5, 9.0, 9.0))
    assert busy_cores() == 2.5


@pytest.mark.parametrize(("more", "threads"), [([], 1), (["--threads", "2"], 2)])
def test_training_says_that_it_uses_fewer(
    more: list[str], threads: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(busy, "busy_cores", lambda: 8)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        app(["train", "--depth", "3", "--epochs", "1", "--device", "cpu", "--out", str(tmp_path / "run"), *more], standalone_mode=False)
    finally:
        torch.set_num_threads(before)
    assert RunDirectory.open(tmp_path / "run").read_spec().training.threads == threads
    sentence = "other programs use the cores: training with 1 thread instead of 2; --threads 2 overrides this"
    lines = " ".join(capsys.readouterr().err.split())
    assert (sentence in lines) == (threads == 1)
