"""Cost of checkpoints, of checking every loss, and of checking for interruptions.

    python benchmarks/survival_cost.py --data-root FOLDER      # with the real MNIST

fc-highway with 50 layers on MNIST, batches of 128, one checkpoint per epoch. The training loop alternates in one process with the same loop
without saving and checks. Timed are 20 steps and the end of an epoch, each the best of many rounds, because whole epochs are too long to
compare on a shared machine. The time of an epoch is that of all its steps and one end. Writes results/survival-cost.json.
"""

import argparse
import math
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from record import write_record
from torch import Tensor

from highwaynet import NetworkSpec, RunSpec, TrainingSpec
from highwaynet.data.load import load_dataset
from highwaynet.data.spec import DataSpec
from highwaynet.networks.architectures import plan_of
from highwaynet.runs.directory import RunDirectory
from highwaynet.training.care import Care
from highwaynet.training.distribution import ALONE
from highwaynet.training.fitting import Fitting
from highwaynet.training.interruption import Interruption
from highwaynet.training.loop import fit_epoch
from highwaynet.training.objective import Classification
from highwaynet.training.setup import SetUp
from highwaynet.training.watcher import Watcher

LIMIT = 1.03
BATCH, STEPS = 128, 20


class Careful(Care):
    """The unchanged loop."""


class Careless(Care):
    """The loop without saving and checks."""

    def look(self, loss: Tensor) -> None:
        """Do nothing."""

    def pause(self, *, epoch_ended: bool) -> None:
        """Do nothing."""

    def check(self, *scores: object) -> None:
        """Do nothing."""


class Stopwatch(Watcher):
    """Records when the last step of an epoch ended."""

    steps_over = 0.0

    def step(self, samples: int) -> None:
        """Record the time."""
        self.steps_over = time.perf_counter()


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--data-root", type=Path)
    options = parser.parse_args()
    if options.data_root:
        os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    whole = load_dataset(DataSpec(name="mnist"))
    data, steps = replace(whole, train=whole.train.head(STEPS * BATCH)), math.ceil(len(whole.train) / BATCH)
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        spec = RunSpec(
            network=NetworkSpec(name="fc-highway", depth=50),
            data=DataSpec(name="mnist"),
            training=TrainingSpec(epochs=100_000, batch_size=BATCH, threads=threads, device="cpu", checkpoint="1 epoch"),
        )
        best = {kind: [math.inf, math.inf] for kind in (Careful, Careless)}
        with tempfile.TemporaryDirectory() as folder:
            fittings = []
            for kind in best:
                run = RunDirectory.create(Path(folder) / kind.__name__, spec, {})
                run.save_preparation(data.preparation)
                plan = plan_of(spec.network, data.preparation.record.input_shape, data.preparation.record.outputs)
                fitting = Fitting(SetUp(spec, data, run, plan, None, Classification(), resumes=False, finished=False), ALONE)
                fittings.append((fitting, kind(fitting, Watcher(), Interruption())))
            for _ in range(options.rounds):
                for fitting, care in fittings:
                    started, watch = time.perf_counter(), Stopwatch()
                    fit_epoch(fitting, care, watch)
                    parts = watch.steps_over - started, time.perf_counter() - watch.steps_over
                    best[type(care)] = list(map(min, best[type(care)], parts))
        epochs = {kind: steps * parts[0] / STEPS + parts[1] for kind, parts in best.items()}
        ratio = epochs[Careful] / epochs[Careless]
        results.append(
            {
                "threads": threads,
                "careful": {"ms_a_step": 1e3 * best[Careful][0] / STEPS, "ms_at_the_end_of_an_epoch": 1e3 * best[Careful][1]},
                "careless": {"ms_a_step": 1e3 * best[Careless][0] / STEPS, "ms_at_the_end_of_an_epoch": 1e3 * best[Careless][1]},
                "steps_an_epoch": steps,
                "ratio": ratio,
            }
        )
        print(f"{threads} threads: {epochs[Careful]:.3f} s per epoch, without {epochs[Careless]:.3f} s, ratio {ratio:.4f} (limit {LIMIT})")
    what = "an epoch with checkpoint, divergence and interruption checks against one without; fc-highway, 50 layers, batch 128, MNIST"
    write_record("survival-cost", f"survival_cost.py --rounds {options.rounds}", what=what, results=results)


if __name__ == "__main__":
    main()
