"""How many layers trained networks need, and what is left of them: the table of docs/SHRINKING.md.

    python benchmarks/shrinking.py --data-root FOLDER [--runs FOLDER] [--only NAME]    train and shrink; finished runs are not repeated
    python benchmarks/shrinking.py --data-root FOLDER [--runs FOLDER] --measure        time the networks, and write the record

Each network is trained with validation data, shrunk with the defaults of `highway shrink` (at most 0.1 points of validation accuracy may be
lost, 5 epochs of healing), and the same small network is trained from scratch. Times are measured in a second pass, on an idle machine.
"""

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from record import write_record

from highwaynet.analysis.collect import Study
from highwaynet.base.specs import parsed
from highwaynet.cli.progress import TrainingProgress
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network
from highwaynet.runs.spec import spec_from_values
from highwaynet.shrinking.latency import latencies
from highwaynet.shrinking.shrink import BATCHES, NETWORK, RECORD, Shrinking, shrink
from highwaynet.shrinking.shrink_record import ShrinkRecord, ShrinkSettings
from highwaynet.training.loop import train
from highwaynet.training.watcher import Watcher

ROOT = Path(__file__).parents[1]
RECORD_FILE = ROOT / "results" / "shrinking.json"
DENSE = {"name": "fc-highway", "depth": 50}
NETWORKS: dict[str, tuple[dict[str, Any], str, dict[str, Any], int]] = {
    # The last epoch, not that with the lowest validation loss, has the highest accuracy on MNIST: the harder one to keep.
    "mnist-50": (DENSE, "mnist", {"epochs": 30, "answer": "final"}, 3),
    "mnist-100": (DENSE | {"depth": 100}, "mnist", {"epochs": 30, "answer": "final"}, 3),
    "digits-50": (DENSE, "digits", {"epochs": 100}, 3),
    "cifar-100-50": (DENSE | {"gate_bias": -4.0}, "cifar-100", {"epochs": 60, "learning_rate": 0.015, "decay": 0.03}, 3),
    "highway-a": ({"name": "highway-a"}, "cifar-10", {"recipe": "quick", "epochs": 15}, 1),
}
"""Network, data, training, number of seeds."""


def jobs(only: str | None) -> Iterator[tuple[str, int]]:
    """Yield the name and seed of every network."""
    for name, (*_, seeds) in NETWORKS.items():
        if only in {None, name}:
            yield from ((name, seed) for seed in range(1, seeds + 1))


def trained(name: str, seed: int, runs: Path) -> RunDirectory:
    """Train the large network, or finish an interrupted run."""
    network, data, training, _ = NETWORKS[name]
    values = {"seed": seed, "network": network, "data": {"name": data, "validation": 0.1}, "training": training | {"threads": 1}}
    spec = spec_from_values(values)
    path = runs / f"{name}-{seed}"
    with TrainingProgress(path.name, spec.training.epochs) as progress:
        return train(spec, path, resume=path.exists(), watcher=progress)


def shrunk(run: RunDirectory) -> ShrinkRecord:
    """Shrink a network, or finish what was begun."""
    job = Shrinking(Study(run), ShrinkSettings(from_scratch=True), run.path.with_name(f"{run.path.name}-small"))

    def watch(title: str, epochs: int) -> Watcher | None:
        print(f"{run.path.name}: {title}", flush=True)
        return None

    return shrink(job, lambda title: None, watch)


def row(name: str, seed: int, runs: Path) -> dict[str, Any]:
    """Time a network and what is left of it, and return what is known about both."""
    small = runs / f"{name}-{seed}-small"
    found = parsed(ShrinkRecord, (small / RECORD).read_text(), str(small))
    networks = [load_network(RunDirectory.open(path)) for path in (runs / f"{name}-{seed}", small / NETWORK)]
    times = {size: [1000 * seconds for seconds in latencies(networks, size)] for size in BATCHES}
    kept = found.layers - len(found.removed)
    return {
        "network": name,
        "seed": seed,
        "layers": found.layers,
        "kept": kept,
        "share_removed": round(1 - kept / found.layers, 4),
        "test_accuracy": {
            "intact": found.intact_test.accuracy,
            "healed": found.healed[0].test and found.healed[0].test.accuracy,
            "from_scratch": found.scratch[0].test and found.scratch[0].test.accuracy,
        },
        "parameters": found.parameters,
        "milliseconds": times,
        "speed_up": {size: round(large / little, 2) for size, (large, little) in times.items()},
    }


def main() -> None:
    """Train and shrink, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "shrinking")
    parser.add_argument("--only", choices=NETWORKS)
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    if not options.measure:
        torch.set_num_threads(1)
        for name, seed in jobs(options.only):
            print(f"{name}, seed {seed}: {shrunk(trained(name, seed, options.runs)).answer}", flush=True)
        return
    done = [(name, seed) for name, seed in jobs(options.only) if (options.runs / f"{name}-{seed}-small" / RECORD).is_file()]
    rows = [row(name, seed, options.runs) for name, seed in done]
    measured = {(one["network"], one["seed"]) for one in rows}
    before = json.loads(RECORD_FILE.read_text())["networks"] if RECORD_FILE.is_file() else []
    rows += [one for one in before if (one["network"], one["seed"]) not in measured]  # of runs that are not in this folder
    rows.sort(key=lambda one: (list(NETWORKS).index(one["network"]), one["seed"]))
    write_record("shrinking", "shrinking.py --data-root FOLDER, then with --measure", threads=torch.get_num_threads(), networks=rows)


if __name__ == "__main__":
    main()
