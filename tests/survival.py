"""The kill test: a run that is killed again and again ends as one that was left in peace, bit for bit.

python tests/survival.py [--kills 25] [--seed 0] [--record FILE]

Half of the kills come at random moments from outside, the others inside at random points of writing a file.
"""

import argparse
import json
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import forked
from forked import Forked

WRITING = 60
"""Kills inside come at one of so many points of writing; a checkpoint has eight."""

RUNS = {
    "dense": {
        "network": {"name": "fc-highway", "depth": 30, "dropout": [0.1, 0.3]},
        "training": {"epochs": 12, "checkpoint": "7 steps", "threads": 1, "patience": 100},
    },
    "convolutional": {
        "network": {"name": "mnist-highway-16", "dropout": [0.05, 0.1, 0.1, 0.2]},
        "training": {"epochs": 6, "checkpoint": "3 steps", "threads": 1, "crop": 1, "rotate": 5.0, "batch_size": 40},
    },
}


def settings(values: dict[str, dict[str, object]]) -> list[str]:
    return [f"--set={section}.{name}={json.dumps(value)}" for section, fields in values.items() for name, value in fields.items()]


def start(arguments: list[str], folder: Path, points: int | None = None) -> Forked:
    if points is None:
        return forked.start("train", *arguments, cwd=folder)
    return forked.start(points, "train", *arguments, module="shaken", cwd=folder)


def results(run: Path) -> tuple[bytes, ...]:
    """What must be equal: weights after the last epoch and of the best one, and the history."""
    best = sorted((run / "checkpoints").glob("best-*.safetensors"))
    return tuple(path.read_bytes() for path in [run / "checkpoints" / "final.safetensors", run / "history.jsonl", *best])


def _point(chance: random.Random, run: Path) -> int:
    """At which point of writing to die; the first time at the very first files."""
    return chance.randint(1, WRITING if (run / "history.jsonl").exists() else 20)


def survive(name: str, folder: Path, kills: int, seed: int) -> dict[str, object]:
    """Run in peace, run with kills, compare; raises AssertionError where something differs."""
    arguments, chance = settings(RUNS[name]), random.Random(f"{name} {seed}")
    _, errors = (calm := start([*arguments, "--out", "calm"], folder)).communicate()
    assert calm.returncode == 0, errors
    shaken, outside, inside, resumed = folder / "shaken", 0, 0, 0
    while outside + inside < kills:
        from_inside = (outside + inside) % 2 == 1
        process = start([*arguments, "--out", "shaken", "--resume"], folder, _point(chance, shaken) if from_inside else None)
        if not from_inside:
            events = shaken / "events.log"
            before = len(events.read_bytes()) if events.exists() else 0
            while process.poll() is None and (not events.exists() or len(events.read_bytes()) == before):
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.6))
            process.kill()
        _, errors = process.communicate()
        if process.returncode == 0:  # it was faster than its killer: once more from the start
            subprocess.run(["rm", "-r", str(shaken)], check=True)
            continue
        assert process.returncode == -signal.SIGKILL, errors
        assert "Traceback" not in errors, errors
        resumed += "resumed from" in errors
        outside, inside = outside + (not from_inside), inside + from_inside
    _, errors = (process := start([*arguments, "--out", "shaken", "--resume"], folder)).communicate()
    assert process.returncode == 0, errors
    assert results(shaken) == results(folder / "calm"), f"{name}: the disturbed run differs"
    leftovers = [path.name for path in shaken.rglob("*") if path.name.endswith(".tmp") or path.name.startswith("step-")]
    assert not leftovers, leftovers
    return {
        "killed from outside": outside,
        "killed while writing": inside,
        "resumed from a checkpoint": resumed + ("resumed from" in errors),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="write what was done as JSON")
    options = parser.parse_args()
    record: dict[str, object] = {"kills": options.kills, "seed": options.seed}
    for name in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            record[name] = survive(name, Path(folder), options.kills, options.seed)
        print(f"{name}: {record[name]}; final weights, best weights and history equal to the bit", flush=True)
    if options.record:
        options.record.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
