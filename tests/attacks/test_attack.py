"""The attack of `tests/attack.py` in short: a fixed number of cases, which are the same on each machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attacking.mutations import ALL, damaged
from attacking.shim import compiler

ATTACK = Path(__file__).parents[1] / "attack.py"


def attack(tmp_path: Path, *flags: object) -> dict[str, object]:
    """Run the attack in a process of its own, because it forks; returns its record."""
    record = tmp_path / "record.json"
    command = [sys.executable, str(ATTACK), "--record", str(record), "--findings", str(tmp_path / "findings"), *map(str, flags)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False, env=os.environ | {"TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(record.read_text())


def test_damaged_files(tmp_path: Path) -> None:
    found = attack(tmp_path, "--seed", 1, "--cases", 250, "--only", "damage")
    assert found["damaged_inputs"] == 250
    assert len(found["inputs_by_kind"]) > 20


@pytest.mark.skipif(compiler() is None, reason="kills inside file operations need a C compiler")
def test_kills_and_failing_writes(tmp_path: Path) -> None:
    found = attack(tmp_path, "--seed", 1, "--cases", 4, "--only", "train", "--only", "overwrite", "--only", "export")
    assert found["kills"] == 4
    assert found["failing_writes"] >= 2  # after the last write, a full disk does no harm


def test_bombs_writers_and_edits(tmp_path: Path) -> None:
    found = attack(tmp_path, "--only", "bombs", "--only", "two writers", "--only", "edited records")
    assert set(found["staged"].values()) == {"withstood"}


def test_damages_are_repeatable_and_change_something() -> None:
    import random

    content = b'{"epoch": 12, "name": "x", "values": [1.5, 2.5]}\n' * 20
    for name, damage in ALL.items():
        made = [damage(content, random.Random(f"{name} {seed}"), b"other" * 50) for seed in range(20)]
        assert made == [damage(content, random.Random(f"{name} {seed}"), b"other" * 50) for seed in range(20)]
        assert sum(one != content for one in made) > 10, name
    assert damaged(content, random.Random(3), b"other") == damaged(content, random.Random(3), b"other")
