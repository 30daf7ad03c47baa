"""What the training loop costs beyond the bare steps: fc-highway with 20 layers, batch 128.

    python benchmarks/loop_overhead.py

Two ways through the same batches, alternating in one process, best of several: whole epochs of `highwaynet.training.loop.train`
(gathering and converting batches, schedule, tallies, validation, history, progress lines), and bare forward + backward +
optimiser steps on batches that were prepared beforehand. Writes benchmarks/results/loop_overhead.json.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from highwaynet import NetworkSpec, RunSpec, TrainingSpec
from highwaynet.base.files import write_atomically
from highwaynet.base.randomness import generator_for
from highwaynet.cli.progress import TrainingProgress
from highwaynet.data.load import load_dataset
from highwaynet.runs.environment import describe_environment
from highwaynet.runs.load import fresh_network
from highwaynet.training.loop import train

RECORD = Path(__file__).parent / "results" / "loop_overhead.json"
LIMIT = 1.15


def bare_epochs(spec: RunSpec) -> float:
    """Seconds for the run's steps alone, on prepared batches."""
    data = load_dataset(spec.data)
    network = fresh_network(spec)
    optimiser = torch.optim.SGD(network.parameters(), lr=spec.training.learning_rate, momentum=spec.training.momentum)
    epochs = []
    for epoch in range(1, spec.training.epochs + 1):
        order = torch.randperm(len(data.train), generator=generator_for(spec.seed, "permutation", epoch))
        epochs.append(list(data.train.batches(spec.training.batch_size, order)))
    started = time.perf_counter()
    for batches in epochs:
        for inputs, targets in batches:
            loss = F.cross_entropy(network(inputs), targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return time.perf_counter() - started


def whole_epochs(spec: RunSpec) -> float:
    """Seconds for the epochs of a real run, as its own timing file says."""
    with tempfile.TemporaryDirectory() as folder, TrainingProgress("overhead", spec.training.epochs) as progress:
        return train(spec, Path(folder) / "run", watcher=progress).read_seconds()


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    results = []
    for threads in (1, torch.get_num_threads()):
        spec = RunSpec(network=NetworkSpec(name="fc-highway", depth=20), training=TrainingSpec(epochs=8, batch_size=128, threads=threads))
        torch.set_num_threads(threads)
        pairs = [(bare_epochs(spec), whole_epochs(spec)) for _ in range(options.rounds)]
        bare, whole = (min(times) / spec.training.epochs for times in zip(*pairs, strict=True))
        results.append({"threads": threads, "bare_ms_per_epoch": 1e3 * bare, "whole_ms_per_epoch": 1e3 * whole, "ratio": whole / bare})
        print(f"{threads} threads: bare {1e3 * bare:.1f} ms, whole {1e3 * whole:.1f} ms an epoch, ratio {whole / bare:.3f} (limit {LIMIT})")
    record = {
        "schema_version": 1,
        "what": "whole training epoch against bare steps, fc-highway, 20 layers, batch 128, digits",
        "command": f"python benchmarks/loop_overhead.py --rounds {options.rounds}",
        "environment": describe_environment(),
        "results": results,
    }
    RECORD.parent.mkdir(exist_ok=True)
    write_atomically(RECORD, json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
