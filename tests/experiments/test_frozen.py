"""Which commit has the rules."""

import subprocess
from pathlib import Path

import pytest

from highwaynet.experiments import frozen


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with claims, a study and something else, all committed."""
    for name in ("house/experiments/frozen.py", "house/search/studies/a.toml", "other"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    monkeypatch.setattr(frozen, "__file__", str(tmp_path / "house/experiments/frozen.py"))
    return tmp_path


def test_the_last_commit_that_changed_claims_or_studies(checkout: Path) -> None:
    first = git(checkout, "rev-parse", "HEAD")
    (checkout / "other").write_text("2")
    assert frozen.frozen_commit() == first, "changes elsewhere do not matter"
    git(checkout, "commit", "--quiet", "-am", "other")
    assert frozen.frozen_commit() == first
    (checkout / "house/search/studies/a.toml").write_text("2")
    assert frozen.frozen_commit() is None, "not committed"
    git(checkout, "commit", "--quiet", "-am", "study")
    assert frozen.frozen_commit() == git(checkout, "rev-parse", "HEAD") != first
    (checkout / "house/experiments/new.py").touch()
    assert frozen.frozen_commit() is None, "a new file"


def test_without_git_or_a_checkout_there_is_none(tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert frozen.frozen_commit() is None
    monkeypatch.undo()
    alone = tmp_path.parent / f"{tmp_path.name}-alone" / "experiments"
    alone.mkdir(parents=True)
    monkeypatch.setattr(frozen, "__file__", str(alone / "frozen.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(alone.parent.parent))
    assert frozen.frozen_commit() is None
