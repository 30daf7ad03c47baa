"""Does mixed bfloat16 train convolutional networks as well as float32?

    python benchmarks/bfloat16.py --data-root FOLDER [--runs FOLDER] [--workers N]

Trains highway-a on CIFAR-10 (15 epochs) and mnist-highway-16 on MNIST (10 epochs) with the recipe `quick`, three seeds each, in both
number formats, with one thread each. A tenth of the training samples is held out; the test samples are not used. Runs that were interrupted
are resumed, and finished ones are not trained again.

Rule: bfloat16 trains as well if its mean validation accuracy is at most TOLERANCE points below that of float32.
"""

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import mean

from record import write_record

from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import spec_from_values
from highwaynet.training.loop import train

ROOT = Path(__file__).parents[1]
PLAN = {"highway-a": ("cifar-10", 15), "mnist-highway-16": ("mnist", 10)}
"""Network: data, epochs."""
TOLERANCE = {"highway-a": 0.3, "mnist-highway-16": 0.05}
"""Points of accuracy."""
SEEDS = (1, 2, 3)
FORMATS = ("bfloat16", "float32")


def accuracy(job: tuple[str, int, str], runs: Path) -> float:
    """The validation accuracy after the last epoch, in percent, of a run that is trained now or was before."""
    network, seed, precision = job
    data, epochs = PLAN[network]
    path = runs / f"{network}-{precision}-{seed}"
    training = {"recipe": "quick", "epochs": epochs, "precision": precision, "threads": 1}
    values = {"seed": seed, "network": {"name": network}, "data": {"name": data, "validation": 0.1}, "training": training}
    train(spec_from_values(values), path, resume=path.exists())
    last = RunDirectory.open(path).read_history()[-1]
    assert last.validation_accuracy is not None
    return 100 * last.validation_accuracy


def main() -> None:
    """Train what is missing, and write the record after each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "bfloat16")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    found: dict[str, dict[str, list[float]]] = {network: {precision: [] for precision in FORMATS} for network in PLAN}
    jobs = list(product(PLAN, SEEDS, FORMATS))
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for (network, seed, precision), value in zip(jobs, pool.map(partial(accuracy, runs=options.runs), jobs), strict=True):
            print(f"{network}, {precision}, seed {seed}: {value:.2f} %", flush=True)
            found[network][precision].append(value)
            if precision != FORMATS[-1]:
                continue
            differences = {name: mean(by["bfloat16"]) - mean(by["float32"]) for name, by in found.items() if by["float32"]}
            write_record(
                "bfloat16",
                f"bfloat16.py --data-root FOLDER --workers {options.workers}",
                validation_accuracy=found,
                difference=differences,
                tolerance=TOLERANCE,
                trains_as_well={name: difference >= -TOLERANCE[name] for name, difference in differences.items()},
            )


if __name__ == "__main__":
    main()
