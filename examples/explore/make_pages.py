"""Trains two networks on MNIST and writes a page for each, in which they can be tried: a dense one with 50 layers, and mnist-highway-16.

highway data fetch mnist                    # once, if it is not there
python examples/explore/make_pages.py       # about ten minutes on two cores
python examples/explore/make_pages.py --data digits --epochs 2    # a first look in half a minute, with 8×8 digits
"""

import argparse
from pathlib import Path

from highwaynet import DataSpec, NetworkSpec, RunSpec, TrainingSpec, explore, train

EPOCHS = {"fc-highway": 8, "mnist-highway-16": 2}


def run_spec(name: str, data: str, epochs: int | None) -> RunSpec:
    network = NetworkSpec(name=name, depth=50) if name == "fc-highway" else NetworkSpec(name=name)
    return RunSpec(network=network, data=DataSpec(name=data), training=TrainingSpec(epochs=epochs or EPOCHS[name]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist", help="the data set: mnist or digits")
    parser.add_argument("--epochs", type=int, help=f"epochs of both networks; by default {EPOCHS}")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for runs and pages")
    arguments = parser.parse_args()
    for name in EPOCHS:
        run = train(run_spec(name, arguments.data, arguments.epochs), arguments.out / f"{name}-{arguments.data}", overwrite=True)
        print("page:", explore(run.path))


if __name__ == "__main__":
    main()
