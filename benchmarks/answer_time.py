"""Seconds from the start of a command to its first line of output, next to `python -c 'import torch'`.

    python benchmarks/answer_time.py

Every command runs in fresh processes, in turn with the others, and the best of several times counts. Commands that do not need torch should
answer within a second, and the others within a second after torch's import. Writes results/answer-time.json.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record import write_record

PEER = "import torch"
WITHOUT_TORCH = (
    "--help",
    "networks",
    "networks highway-b",
    "runs runs",
    "data list",
    "data describe table.csv --target y",
    "reproduce list",
    "evaluate --splt test",
    "evaluate nowhere",
    "train --depth deep",
    "train --data nowhere.csv",
)
WITH_TORCH = ("evaluate runs/small", "train --depth 5 --epochs 1 --overwrite --out runs/new")


def seconds_to_first_line(command: list[str], folder: Path) -> float:
    """Start a process and return the seconds until its first line on standard output or error, or until its end if it prints none."""
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seconds = time.perf_counter() - started
        process.stdout.read()
    return seconds


def prepare(folder: Path) -> None:
    """Write what the commands read: a table, and a run."""
    (folder / "table.csv").write_text("x,y\n" + "".join(f"{i % 17 / 3},{i % 17 + i / 7}\n" for i in range(300)))
    train = [sys.executable, "-m", "highwaynet", "train", "--depth", "5", "--epochs", "1", "--out", "runs/small"]
    subprocess.run(train, cwd=folder, check=True, capture_output=True)


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.environ["COLUMNS"] = "120"
    commands = {name: [sys.executable, "-m", "highwaynet", *name.split()] for name in (*WITHOUT_TORCH, *WITH_TORCH)}
    commands |= {PEER: [sys.executable, "-c", PEER]}
    best = dict.fromkeys(commands, math.inf)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for _ in range(options.rounds):
            for command, words in commands.items():
                best[command] = min(best[command], seconds_to_first_line(words, folder))
    peer = best.pop(PEER)
    print(f"{peer:6.2f} s  python -c '{PEER}'")
    results = []
    for command, seconds in best.items():
        needs = command in WITH_TORCH
        print(f"{seconds:6.2f} s  highway {command}{f' ({seconds - peer:.2f} s after the import of torch)' if needs else ''}")
        results.append({"command": f"highway {command}", "needs_torch": needs, "seconds": seconds, "ratio_to_torch_import": seconds / peer})
    what = "seconds to the first line of a command, in a fresh process, next to the import of torch"
    write_record("answer-time", f"answer_time.py --rounds {options.rounds}", what=what, torch_import_seconds=peer, results=results)


if __name__ == "__main__":
    main()
