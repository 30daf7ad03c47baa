"""The experiment behind gate_bias = "auto": dense highway networks of several depths on digits, with gate biases from −1 to −4 and "auto".

    python benchmarks/gate_bias_rule.py

Every combination of depth, gate bias, learning rate and seed is trained for 30 epochs. The record has the training loss of each run, and
for each depth and bias the loss with the best learning rate, averaged over seeds. Diverged runs count as ln 10, the loss of guessing.
"""

import json
import math
import multiprocessing
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from highwaynet import NetworkSpec, RunSpec, TrainingSpec, auto_gate_bias
from highwaynet.base.errors import HighwayError
from highwaynet.base.files import write_atomically
from highwaynet.runs.environment import describe_environment
from highwaynet.training.loop import train

RECORD = Path(__file__).parents[1] / "results" / "gate-bias-rule.json"
DEPTHS, BIASES, RATES, SEEDS = [10, 20, 50, 100], [-1.0, -2.0, -3.0, -4.0, "auto"], [0.05, 0.1, 0.2, 0.4], [0, 1]


def run(job: tuple[int, Any, float, int]) -> dict[str, Any]:
    """Train one combination; return its settings and the training loss of the last epoch."""
    depth, bias, rate, seed = job
    spec = RunSpec(
        seed=seed,
        network=NetworkSpec(depth=depth, gate_bias=bias),
        training=TrainingSpec(epochs=30, batch_size=32, learning_rate=rate, momentum=0.9, decay=0.1, threads=1),
    )
    with tempfile.TemporaryDirectory() as folder:
        try:
            loss = train(spec, Path(folder) / "run").read_history()[-1].train_loss
        except HighwayError:
            loss = None
    return {"depth": depth, "gate_bias": bias, "learning_rate": rate, "seed": seed, "train_loss": loss}


def main() -> None:
    """Train all combinations on all cores, with one thread each, and write the record."""
    with multiprocessing.get_context("spawn").Pool() as pool:
        runs = pool.map(run, list(product(DEPTHS, BIASES, RATES, SEEDS)), chunksize=1)
    table = []
    for depth in DEPTHS:
        row: dict[str, Any] = {"depth": depth, "auto means": round(auto_gate_bias(depth), 2)}
        for bias in BIASES:
            means = []
            for rate in RATES:
                chosen = [r for r in runs if (r["depth"], r["gate_bias"], r["learning_rate"]) == (depth, bias, rate)]
                means.append(sum(math.log(10) if r["train_loss"] is None else r["train_loss"] for r in chosen) / len(chosen))
            row[f"{bias}"] = float(f"{min(means):.3g}")
            row[f"best rate at {bias}"] = RATES[means.index(min(means))]
        table.append(row)
        print(row)
    record = {"schema_version": 1, "environment": describe_environment(), "table": table, "runs": runs}
    write_atomically(RECORD, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
