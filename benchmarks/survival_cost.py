"""What survival costs: checkpoints, looking at every loss, and asking for interruptions.

    python benchmarks/survival_cost.py --data-root FOLDER      # with the real MNIST

fc-highway with 50 layers on MNIST, batches of 128. Whole epochs of the training loop, each with a checkpoint at its end, alternate in one
process with epochs of the same loop in which nothing is saved, looked at or asked; best of several. Writes results/survival-cost.json.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch
from record import write_record
from torch import Tensor

from highwaynet import NetworkSpec, RunSpec, TrainingSpec
from highwaynet.data.load import load_dataset
from highwaynet.data.spec import DataSpec
from highwaynet.runs.directory import RunDirectory
from highwaynet.training.distribution import ALONE
from highwaynet.training.interruption import Interruption
from highwaynet.training.loop import Fitting
from highwaynet.training.watching import Watchers

LIMIT = 1.03


class Careless(Fitting):
    """The loop without anything that this benchmark is about."""

    def _agree(self, loss: Tensor) -> None:
        pass

    def _pause(self, *, epoch_ended: bool) -> None:
        pass

    def _check(self, *scores: object) -> None:
        pass


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--data-root", type=Path)
    options = parser.parse_args()
    if options.data_root:
        os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        spec = RunSpec(
            network=NetworkSpec(name="fc-highway", depth=50),
            data=DataSpec(name="mnist"),
            training=TrainingSpec(epochs=1000, batch_size=128, threads=threads, device="cpu", checkpoint="1 epoch"),
        )
        data = load_dataset(spec.data)
        best: dict[type[Fitting], float] = {}
        with tempfile.TemporaryDirectory() as folder:
            fittings = []
            for kind in (Fitting, Careless):
                run = RunDirectory.create(Path(folder) / kind.__name__, spec, {})
                run.save_preparation(data.preparation)
                fittings.append(kind(spec, data, run, ALONE, Watchers([]), Interruption()))
            for _ in range(options.rounds):
                for fitting in fittings:
                    started = time.perf_counter()
                    fitting._epoch()
                    seconds = time.perf_counter() - started
                    best[type(fitting)] = min(best.get(type(fitting), seconds), seconds)
        whole, careless = best[Fitting], best[Careless]
        results.append({"threads": threads, "seconds_an_epoch": whole, "careless_seconds": careless, "ratio": whole / careless})
        print(
            f"{threads} threads: {whole:.3f} s an epoch, without {careless:.3f} s, ratio {whole / careless:.4f} (limit {LIMIT})", flush=True
        )
    what = "an epoch with checkpoint, divergence and interruption checks against one without; fc-highway, 50 layers, batch 128, MNIST"
    write_record("survival-cost", f"survival_cost.py --rounds {options.rounds}", what=what, results=results)


if __name__ == "__main__":
    main()
