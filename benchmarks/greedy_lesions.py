"""How much greedy ranking costs: all layers of a 50-layer network, removed one after the other, on the MNIST training set.

    python benchmarks/greedy_lesions.py --data-root FOLDER [--samples N]

After each removal all remaining layers are tried again. Trying them one by one takes 1,225 evaluations; sharing the computation of equal
beginnings, and skipping closed layers, takes about 410. The benchmark times the ranking and single evaluations in the same process, and
writes their ratio, in evaluations of the whole set, to results/greedy-lesions.json.
"""

import argparse
import os
import time
from pathlib import Path

import torch
from record import write_record

from highwaynet import DataSpec, NetworkSpec, build_network, load_dataset
from highwaynet.cli.asking import progress_bar
from highwaynet.shrinking.criteria import rank
from highwaynet.training.evaluation import evaluate

AIM = 450
"""Evaluations of the whole set, at most."""


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=60_000)
    options = parser.parse_args()
    os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    split = load_dataset(DataSpec(name="mnist")).train.head(options.samples)
    network = build_network(NetworkSpec(depth=50), (1, 28, 28), 10, generator=torch.Generator().manual_seed(1)).eval()

    def evaluation() -> float:
        began = time.perf_counter()
        evaluate(network, split)
        return time.perf_counter() - began

    before = [evaluation() for _ in range(3)]
    began = time.perf_counter()
    with progress_bar("ranking", "lesions") as progress:
        ranking = rank("greedy", network, split, progress=progress)
    seconds = time.perf_counter() - began
    single = min(*before, *(evaluation() for _ in range(3)))
    ratio = seconds / single
    print(f"{len(split):,} samples: {seconds:.0f} s, as long as {ratio:.0f} evaluations of {single:.3f} s (aim {AIM})")
    write_record(
        "greedy-lesions",
        "greedy_lesions.py --data-root FOLDER",
        layers=len(ranking.removed) - 1,
        samples=len(split),
        seconds=seconds,
        seconds_of_one_evaluation=single,
        evaluations=ratio,
        aim=AIM,
        one_by_one=1225,
    )


if __name__ == "__main__":
    main()
