"""Measures the numbers of the demo in the README: both networks with their settings, five seeds each.

    python examples/demo/measure.py

Writes results/demo.json: losses and accuracies of each run, with mean and standard deviation over the seeds.
"""

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from highwaynet.analysis.collect import Study
from highwaynet.base.files import write_atomically
from highwaynet.runs.environment import describe_environment
from highwaynet.runs.spec import read_spec_values, spec_from_values
from highwaynet.training.loop import train

HERE = Path(__file__).parent
RECORD = HERE.parents[1] / "results" / "demo.json"
SEEDS = range(10, 15)
"""Seeds that were not used to choose the settings."""


def measure(kind: str) -> dict[str, Any]:
    """Train and evaluate all seeds of one network."""
    runs = []
    for seed in SEEDS:
        spec = spec_from_values(read_spec_values(HERE / f"{kind}.toml") | {"seed": seed})
        with tempfile.TemporaryDirectory() as folder:
            score = Study(train(spec, Path(folder) / "run")).evaluation()
        runs.append({"seed": seed, "train_loss": score.train.loss, "test_loss": score.test.loss, "test_accuracy": score.test.accuracy})
        print(kind, runs[-1], flush=True)
    numbers = {name: [run[name] for run in runs] for name in ("train_loss", "test_loss", "test_accuracy")}
    summary = {name: {"mean": statistics.mean(values), "std": statistics.stdev(values)} for name, values in numbers.items()}
    return {"network": kind, "parameters": score.parameters, "summary": summary, "runs": runs}


def main() -> None:
    """Measure both networks and write the record."""
    record = {
        "schema_version": 1,
        "command": "python examples/demo/measure.py",
        "environment": describe_environment(),
        "networks": [measure(kind) for kind in ("plain", "highway")],
    }
    write_atomically(RECORD, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
