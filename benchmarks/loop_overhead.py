"""Overhead of the training loop over bare steps: fc-highway with 20 layers, batches of 128.

    python benchmarks/loop_overhead.py

Compared are whole epochs of `highwaynet.training.loop.train` (gathering and converting batches, schedule, tallies, validation, history,
progress lines) and bare forward, backward and optimiser steps on batches prepared in advance. They alternate in one process, and the best
counts. Epochs are timed from the end of one to the end of the next, so that everything in between is included. Writes
results/loop-overhead.json.
"""

import argparse
import math
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from record import write_record

from highwaynet import NetworkSpec, RunSpec, TrainingSpec
from highwaynet.base.randomness import generator_for
from highwaynet.cli.progress import TrainingProgress
from highwaynet.data.load import load_dataset
from highwaynet.networks.build import build_network
from highwaynet.runs.run_records import EpochRecord, TimingRecord
from highwaynet.training.loop import train
from highwaynet.training.watcher import Watcher

LIMIT = 1.15


def bare_epochs(spec: RunSpec) -> list[float]:
    """Time only the steps of each epoch, on prepared batches."""
    data = load_dataset(spec.data)
    record = data.preparation.record
    network = build_network(spec.network, record.input_shape, record.outputs, generator=generator_for(spec.seed, "weights"))
    optimiser = torch.optim.SGD(network.parameters(), lr=spec.training.learning_rate, momentum=spec.training.momentum)
    epochs = []
    for epoch in range(1, spec.training.epochs + 1):
        order = torch.randperm(len(data.train), generator=generator_for(spec.seed, "permutation", epoch))
        epochs.append(list(data.train.batches(spec.training.batch_size, order)))
    seconds = []
    for batches in epochs:
        started = time.perf_counter()
        for inputs, targets in batches:
            loss = F.cross_entropy(network(inputs), targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        seconds.append(time.perf_counter() - started)
    return seconds[1:]


class Clock(Watcher):
    """A watcher that records when epochs end, and shows the usual progress."""

    def __init__(self, progress: TrainingProgress) -> None:
        self.progress, self.ends = progress, list[float]()

    def step(self, samples: int) -> None:
        """Show the progress."""
        self.progress.step(samples)

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """Show the progress, and record the time."""
        self.progress.epoch(record, timing)
        self.ends.append(time.perf_counter())


def whole_epochs(spec: RunSpec) -> list[float]:
    """Time each epoch of a real run except the first, from the end of one to the end of the next."""
    with tempfile.TemporaryDirectory() as folder, TrainingProgress("overhead", spec.training.epochs) as progress:
        clock = Clock(progress)
        train(spec, Path(folder) / "run", watcher=clock)
    return [end - start for start, end in pairwise(clock.ends)]


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    results = []
    for threads in (1, torch.get_num_threads()):
        spec = RunSpec(network=NetworkSpec(name="fc-highway", depth=20), training=TrainingSpec(epochs=8, batch_size=128, threads=threads))
        torch.set_num_threads(threads)
        bare, whole = math.inf, math.inf
        for _ in range(options.rounds):
            bare = min(bare, statistics.median(bare_epochs(spec)))
            whole = min(whole, statistics.median(whole_epochs(spec)))
        results.append({"threads": threads, "bare_ms_per_epoch": 1e3 * bare, "whole_ms_per_epoch": 1e3 * whole, "ratio": whole / bare})
        print(
            f"{threads} threads: bare {1e3 * bare:.1f} ms, whole {1e3 * whole:.1f} ms per epoch, ratio {whole / bare:.3f} (limit {LIMIT})"
        )
    what = "whole training epoch against bare steps, fc-highway, 20 layers, batch 128, digits"
    write_record("loop-overhead", f"loop_overhead.py --rounds {options.rounds}", what=what, results=results)


if __name__ == "__main__":
    main()
