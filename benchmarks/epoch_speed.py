"""Time of one epoch of MNIST with 100 highway layers: the command `highway train` compared with a naive PyTorch module.

    python benchmarks/epoch_speed.py            # needs MNIST in $HIGHWAYNET_DATA or the user's cache

Each round runs the command, whose time is taken from its timing.jsonl (batches, steps, tallies, history), and then the naive module (two
Linears, h*t + x*(1-t)) in a bare loop that takes its batches from one tensor in memory. The best round counts. Writes
results/epoch-speed.json.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from record import write_record
from torch import nn

from highwaynet import DataSpec
from highwaynet.bench.peers import NaiveHighway
from highwaynet.data.load import load_dataset

DEPTH, WIDTH, BATCH = 100, 50, 128
LIMIT = 0.25


def command_seconds() -> float:
    """Run the command for one epoch, and return the seconds that it recorded."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        settings = ["--network", "fc-highway", "--depth", str(DEPTH), "--width", str(WIDTH), "--batch-size", str(BATCH)]
        subprocess.run(
            [sys.executable, "-m", "highwaynet", "train", "--data", "mnist", *settings, "--epochs", "1", "--out", str(run)],
            check=True,
            capture_output=True,
        )
        return float(json.loads((run / "timing.jsonl").read_text())["seconds"])


def naive_seconds(inputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Time one epoch of a naive module in a bare loop."""
    layers = [NaiveHighway(WIDTH) for _ in range(DEPTH - 1)]
    network = nn.Sequential(nn.Linear(inputs.shape[1], WIDTH), nn.Tanh(), *layers, nn.Linear(WIDTH, 10))
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    started = time.perf_counter()
    for rows in torch.randperm(len(inputs)).split(BATCH):
        loss = F.cross_entropy(network(inputs[rows]), targets[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return time.perf_counter() - started


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    split = load_dataset(DataSpec(name="mnist")).train
    parts = list(split.batches(1000))
    inputs, targets = torch.cat([part[0] for part in parts]).flatten(1), torch.cat([part[1] for part in parts])
    ours, naive = [], []
    for _ in range(options.rounds):
        ours.append(command_seconds())
        naive.append(naive_seconds(inputs, targets))
        print(f"highway train {ours[-1]:.2f} s, naive module {naive[-1]:.2f} s", flush=True)
    ratio = min(ours) / min(naive)
    print(f"one epoch takes {ratio:.3f} of the naive module's time (limit {LIMIT})")
    write_record(
        "epoch-speed",
        f"epoch_speed.py --rounds {options.rounds}",
        what=f"seconds of an MNIST epoch, {DEPTH} layers, {WIDTH} wide, batches of {BATCH}: `highway train` against a naive PyTorch module",
        highway_train=ours,
        naive_module=naive,
        ratio=ratio,
    )


if __name__ == "__main__":
    main()
