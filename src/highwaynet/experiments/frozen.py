"""Which commit has the rules and plans of the claims, so that a plan can say what was decided before its runs."""

import subprocess
from pathlib import Path

SECONDS = 10.0
"""git answers at once, or is not worth waiting for."""


def frozen_commit() -> str | None:
    """The last git commit that changed claims or ready studies; None if there are changes that are not committed, or no git checkout."""
    claims = Path(__file__).parent
    folders = [str(claims), str(claims.parent / "search" / "studies")]
    if _git(claims, "status", "--porcelain", "--", *folders) != "":
        return None
    return _git(claims, "log", "-1", "--format=%H", "--", *folders) or None


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says; None if it fails, or is missing."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603 (a fixed command)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
