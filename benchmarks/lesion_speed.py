"""Speed of figure 4 of the paper (each layer closed in turn): `analyse_lesions` compared with a loop over `lesion` and `evaluate`.

    python benchmarks/lesion_speed.py           # needs MNIST in $HIGHWAYNET_DATA

An untrained fc-highway with 50 layers, the training images of MNIST, one thread. Each round runs the analysis, the loop with the compiled
kernels, and, in a separate process, the loop with torch's operators (HIGHWAYNET_KERNEL=torch). The best round counts. All three must give
the same losses. The peak of resident memory is that of the process after its first analysis, including data and libraries. Writes
results/lesion-speed.json.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from record import write_record
from torch import nn

from highwaynet import DataSpec, NetworkSpec, build_network, lesion
from highwaynet.analysis.analysis_records import About, Origin
from highwaynet.analysis.lesions import analyse_lesions
from highwaynet.data.dataset import Split
from highwaynet.data.load import load_dataset
from highwaynet.layers.lesion import count_layers
from highwaynet.runs.run_records import Score
from highwaynet.training.evaluation import evaluate

DEPTH = 50
OF_COMPILED, OF_TORCH, SAME, MEGABYTES = 0.55, 0.2, 1e-6, 1000
"""Limits: share of the loops' times, relative difference of losses, and memory."""
ORIGIN = Origin("", About(data="mnist", network=f"{DEPTH}-layer highway", seed=0, epochs=0), "train")


def prepared(images: int) -> tuple[nn.Module, Split]:
    """Return the network and the first images."""
    split = load_dataset(DataSpec(name="mnist", validation=0)).train.head(images)
    record = split.preparation.record
    spec = NetworkSpec(name="fc-highway", depth=DEPTH)
    return build_network(spec, record.input_shape, record.outputs, generator=torch.Generator().manual_seed(0)), split


def analysis(network: nn.Module, split: Split) -> list[Score]:
    """Score the intact network, and the network with each layer closed."""
    record = analyse_lesions(network, split, origin=ORIGIN)
    return [record.intact, *record.closed]


def obvious_loop(network: nn.Module, split: Split) -> list[Score]:
    """Compute the same scores with a simple loop."""
    scores = [evaluate(network, split)]
    for number in range(1, count_layers(network) + 1):
        with lesion(network, [number]):
            scores.append(evaluate(network, split))
    return scores


def timed(way: Callable[[nn.Module, Split], list[Score]], network: nn.Module, split: Split) -> tuple[float, list[float]]:
    """Return seconds and losses."""
    started = time.perf_counter()
    scores = way(network, split)
    return time.perf_counter() - started, [score.loss for score in scores]


def in_torch(images: int) -> tuple[float, list[float]]:
    """Run the simple loop in a process without compiled kernels, which times itself."""
    command = [sys.executable, __file__, "--work", "--images", str(images)]
    answer = subprocess.run(command, env=os.environ | {"HIGHWAYNET_KERNEL": "torch"}, stdout=subprocess.PIPE, text=True, check=True)
    seconds, losses = json.loads(answer.stdout)
    return seconds, losses


def difference(losses: list[float], others: list[float]) -> float:
    """Return the largest relative difference."""
    return max(abs(loss - other) / abs(other) for loss, other in zip(losses, others, strict=True))


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    network, split = prepared(options.images)
    if options.work:
        print(json.dumps(timed(obvious_loop, network, split)))
        return
    seconds: dict[str, list[float]] = {"analysis": [], "compiled": [], "torch": []}
    differs, peak = {"compiled": 0.0, "torch": 0.0}, 0.0
    for _ in range(options.rounds):
        taken, losses = timed(analysis, network, split)
        seconds["analysis"].append(taken)
        peak = peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        for name, (taken, others) in {"compiled": timed(obvious_loop, network, split), "torch": in_torch(options.images)}.items():
            seconds[name].append(taken)
            differs[name] = max(differs[name], difference(losses, others))
        print(", ".join(f"{name} {taken[-1]:.1f} s" for name, taken in seconds.items()), flush=True)
    ratios = {name: min(seconds["analysis"]) / min(seconds[name]) for name in differs}
    print(f"{ratios['compiled']:.3f} of the obvious loop's time (limit {OF_COMPILED}), {ratios['torch']:.3f} in torch (limit {OF_TORCH})")
    print(f"losses differ by {differs['compiled']:.1e} and {differs['torch']:.1e} (limit {SAME:.0e}), {peak:.0f} MB (limit {MEGABYTES})")
    write_record(
        "lesion-speed",
        f"lesion_speed.py --images {options.images} --rounds {options.rounds}",
        what=f"seconds for all lesions of a {DEPTH}-layer fc-highway on {len(split)} MNIST images, one thread: analysis and obvious loops",
        seconds=seconds,
        ratios=ratios,
        largest_relative_difference=differs,
        peak_megabytes=peak,
        asked={"compiled": OF_COMPILED, "torch": OF_TORCH, "difference": SAME, "megabytes": MEGABYTES},
    )


if __name__ == "__main__":
    main()
