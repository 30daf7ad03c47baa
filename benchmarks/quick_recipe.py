"""Test accuracy of the recipe `quick` on the real MNIST and CIFAR-10 (in --data-root or $HIGHWAYNET_DATA).

    python benchmarks/quick_recipe.py [--only NAME ...]

Trains the missing runs one after the other with one thread (minutes to an hour each) and evaluates them on the test samples. Spec, history,
times, environment and test score of each run, without the weights, go to results/quick/. Run directories go to runs/quick/; finished runs
there are not trained again.
"""

import argparse
import json
import os
import shutil
from pathlib import Path

from highwaynet.base.files import write_atomically
from highwaynet.cli.progress import TrainingProgress
from highwaynet.data.load import load_dataset
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network
from highwaynet.runs.spec import spec_from_values
from highwaynet.training.evaluation import evaluate
from highwaynet.training.loop import train

ROOT = Path(__file__).parents[1]
RUNS, RECORDS = ROOT / "runs" / "quick", ROOT / "results" / "quick"
KEPT = ("spec.toml", "history.jsonl", "timing.jsonl", "environment.json")
PLAN = {
    "mnist-highway-16": ("mnist", 10, (1, 2, 3)),
    "mnist-highway-32": ("mnist", 10, (1,)),
    "highway-a": ("cifar-10", 15, (1,)),
    "resnet-20": ("cifar-10", 15, (1,)),
}
"""Network: data, epochs, seeds."""


def finished_run(network: str, data: str, epochs: int, seed: int) -> RunDirectory:
    """Return the run; train it if it is missing or has other settings."""
    path = RUNS / f"{network}-seed{seed}"
    settings = {"recipe": "quick", "epochs": epochs, "threads": 1}
    spec = spec_from_values({"seed": seed, "network": {"name": network}, "data": {"name": data}, "training": settings})
    if not (path / "checkpoints" / "final.json").is_file() or RunDirectory.open(path).read_spec() != spec:
        with TrainingProgress(f"{network}, seed {seed}", epochs) as progress:
            train(spec, path, overwrite=path.exists(), watcher=progress)
    return RunDirectory.open(path)


def keep(run: RunDirectory) -> None:
    """Copy the small files of a run to results/, and add its test score."""
    preparation = run.load_preparation()
    score = evaluate(load_network(run, data=preparation.record), load_dataset(run.read_spec().data, preparation).test)
    target = RECORDS / run.name
    target.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copyfile(run.path / name, target / name)
    write_atomically(target / "test.json", json.dumps(score.model_dump(exclude_none=True), indent=2) + "\n")
    print(f"{run.name}: test {score}")


def main() -> None:
    """Train the missing runs, and write the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PLAN, default=list(PLAN), metavar="NAME")
    parser.add_argument("--data-root", type=Path)
    options = parser.parse_args()
    if options.data_root:
        os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    for network in options.only:
        data, epochs, seeds = PLAN[network]
        for seed in seeds:
            keep(finished_run(network, data, epochs, seed))


if __name__ == "__main__":
    main()
