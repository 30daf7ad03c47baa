"""n-bit parity with recurrent highway layers of several depths: how soon do they learn it, and for which lengths are they right?

    python benchmarks/parity.py

Runs examples/parity.py for depths 1, 2, 3 and 5, five seeds each: trained on strings of 1 to 20 bits until the loss of a batch is below
0.001, at most 5,000 steps; tested on 1,000 strings of 20, 80 and 320 bits and on 100 of 1,000 and 10,000 bits. Writes results/parity.json.
"""

import sys
import time
from pathlib import Path
from statistics import fmean

import torch
from record import write_record

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from parity import BATCH, ENOUGH, LONGEST, Parity, accuracy, train

DEPTHS, SEEDS, MOST_STEPS = (1, 2, 3, 5), range(5), 5000
FACTORS = {1: 1000, 4: 1000, 16: 1000, 50: 100, 500: 100}


def run(depth: int, seed: int) -> dict[str, object]:
    """Train and test one model."""
    torch.manual_seed(seed)
    model, began = Parity(depth), time.process_time()
    steps = train(model, MOST_STEPS)
    seconds = time.process_time() - began
    right = {str(LONGEST * factor): accuracy(model, LONGEST * factor, count) for factor, count in FACTORS.items()}
    return {"depth": depth, "seed": seed, "steps": steps, "processor_seconds": round(seconds, 1), "right": right}


def main() -> None:
    """Train all; write the record."""
    torch.set_num_threads(1)
    runs = [run(depth, seed) for depth in DEPTHS for seed in SEEDS]
    for depth in DEPTHS:
        own = [one for one in runs if one["depth"] == depth]
        lengths = {length: fmean(one["right"][length] for one in own) for length in own[0]["right"]}  # type: ignore[index, attr-defined]
        print(depth, fmean(one["steps"] for one in own), lengths)  # type: ignore[arg-type]
    settings = {"longest": LONGEST, "batch": BATCH, "enough": ENOUGH, "most_steps": MOST_STEPS}
    write_record("parity", "parity.py", settings=settings, runs=runs)


if __name__ == "__main__":
    main()
