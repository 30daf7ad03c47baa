"""Finds the settings of the demo: the same random search for the plain and the highway network.

Both networks get the same trials: trial i draws one learning rate, momentum, decay, activation and initialisation, and
trains both networks with them for as many epochs as the demo. The highway network also draws its gate bias. The three
best trials of each network, by validation loss, are repeated with three more seeds, and the settings with the best mean
are written to plain.toml or highway.toml next to this file. Test data are not used.

    python examples/demo/search.py --trials 60 --workers 2
"""

import argparse
import json
import math
import multiprocessing
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

from highwaynet import NetworkSpec, RunSpec, TrainingSpec
from highwaynet.base.errors import HighwayError
from highwaynet.base.files import write_atomically
from highwaynet.runs.environment import describe_environment
from highwaynet.training.loop import train

HERE = Path(__file__).parent
RECORD = HERE.parents[1] / "results" / "demo-search.json"
EPOCHS, BATCH_SIZE, DEPTH = 60, 32, 50
FINALISTS, FINAL_SEEDS = 3, (1, 2, 3)
NETWORKS = ("fc-plain", "fc-highway")


def draw(network: str, trial: int, seed: int = 0) -> RunSpec:
    """Return the spec of one trial. Shared settings are drawn first, so that both networks get the same."""
    rng = random.Random(trial)
    training = TrainingSpec(
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        learning_rate=float(f"{10 ** rng.uniform(-3.5, 0):.2g}"),
        momentum=rng.choice([0.0, 0.5, 0.9, 0.95]),
        decay=float(f"{10 ** rng.uniform(-2, 0):.2g}"),
        threads=1,
        answer="final",
    )
    values: dict[str, Any] = {
        "activation": rng.choice(["tanh", "relu"]),
        "init": rng.choice(["glorot-uniform", "he", "orthogonal"]),
    }
    if network == "fc-highway":
        values["gate_bias"] = round(rng.uniform(-4, -1), 1)
    return RunSpec(seed=seed, network=NetworkSpec(name=network, depth=DEPTH, **values), training=training)


def run_trial(job: tuple[str, int, int]) -> dict[str, Any]:
    """Train one trial and return its settings with its last epoch (None if the run diverged)."""
    network, trial, seed = job
    spec = draw(network, trial, seed)
    with tempfile.TemporaryDirectory() as folder:
        try:
            last = train(spec, Path(folder) / "run").read_history()[-1].model_dump()
        except HighwayError:
            last = None
    settings = spec.model_dump(exclude_none=True)
    return {"network": network, "trial": trial, "seed": seed, "spec": settings, "last_epoch": last}


def validation_loss(result: dict[str, Any]) -> float:
    """Return the loss by which trials are ranked; a diverged run counts as guessing."""
    return result["last_epoch"]["validation_loss"] if result["last_epoch"] else math.log(10)


def run_all(jobs: list[tuple[str, int, int]], workers: int) -> list[dict[str, Any]]:
    """Train all jobs, each in a process with one thread."""
    results = []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for result in pool.imap(run_trial, jobs):
            results.append(result)
            print(result["network"], result["trial"], result["seed"], validation_loss(result), flush=True)
    return results


def best_trial(network: str, trials: list[dict[str, Any]], finals: list[dict[str, Any]]) -> int:
    """Return the finalist with the best mean over all its seeds."""
    runs = [result for result in trials + finals if result["network"] == network]
    finalists = {result["trial"] for result in finals if result["network"] == network}
    return min(finalists, key=lambda trial: statistics.mean(validation_loss(run) for run in runs if run["trial"] == trial))


def main() -> None:
    """Run the search, and write its record and the two run files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--reuse", action="store_true", help="read the trials from the record, and run only the finals")
    options = parser.parse_args()
    if options.reuse:
        trials = json.loads(RECORD.read_text())["trials"]
    else:
        trials = run_all([(network, trial, 0) for trial in range(options.trials) for network in NETWORKS], options.workers)
    jobs = []
    for network in NETWORKS:
        ranked = sorted((result for result in trials if result["network"] == network), key=validation_loss)
        jobs += [(network, result["trial"], seed) for result in ranked[:FINALISTS] for seed in FINAL_SEEDS]
    finals = run_all(jobs, options.workers)
    record = {
        "schema_version": 1,
        "command": f"python examples/demo/search.py --trials {options.trials}",
        "environment": describe_environment(),
        "trials": trials,
        "finals": finals,
    }
    write_atomically(RECORD, json.dumps(record, indent=1) + "\n")
    for network in NETWORKS:
        trial = best_trial(network, trials, finals)
        heading = (
            f"# The best of {options.trials} random settings, by validation loss over four seeds: examples/demo/search.py, trial {trial}.\n"
        )
        write_atomically(HERE / f"{network.removeprefix('fc-')}.toml", heading + draw(network, trial).to_toml())


if __name__ == "__main__":
    main()
