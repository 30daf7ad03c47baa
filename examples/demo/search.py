"""Where the settings of the demo come from: the same random search for the plain and the highway network.

Both networks get the same trials: trial i draws one learning rate, momentum, decay, activation and initialisation, and trains either
network with them for the demo's budget; the highway network additionally draws its gate bias. The best trial by validation
loss becomes plain.toml and highway.toml beside this file. The test data play no part.

    python examples/demo/search.py --trials 60 --workers 2
"""

import argparse
import json
import math
import multiprocessing
import random
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


def draw(network: str, trial: int) -> RunSpec:
    """The spec of one trial. Shared settings are drawn first, so that both networks get the same."""
    rng = random.Random(trial)
    training = TrainingSpec(
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        learning_rate=float(f"{10 ** rng.uniform(-3.5, 0):.2g}"),
        momentum=rng.choice([0.0, 0.5, 0.9, 0.95]),
        decay=float(f"{10 ** rng.uniform(-2, 0):.2g}"),
        threads=1,
    )
    values: dict[str, Any] = {
        "activation": rng.choice(["tanh", "relu"]),
        "init": rng.choice(["glorot-uniform", "he", "orthogonal"]),
    }
    if network == "fc-highway":
        values["gate_bias"] = round(rng.uniform(-4, -1), 1)
    return RunSpec(network=NetworkSpec(name=network, depth=DEPTH, **values), training=training)


def run_trial(job: tuple[str, int]) -> dict[str, Any]:
    """Train one trial and return its settings with its last epoch (None where the loss was not finite)."""
    network, trial = job
    spec = draw(network, trial)
    with tempfile.TemporaryDirectory() as folder:
        try:
            last = train(spec, Path(folder) / "run").read_history()[-1].model_dump()
        except HighwayError:
            last = None
    settings = spec.model_dump(exclude_none=True)
    return {"network": network, "trial": trial, "spec": settings, "last_epoch": last}


def validation_loss(result: dict[str, Any]) -> float:
    """What trials are ranked by."""
    return result["last_epoch"]["validation_loss"] if result["last_epoch"] else math.inf


def main() -> None:
    """Run the search, keep its record, and write the two run files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    jobs = [(network, trial) for trial in range(options.trials) for network in ("fc-plain", "fc-highway")]
    results: list[dict[str, Any]] = []
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for result in pool.imap(run_trial, jobs):
            results.append(result)
            print(result["network"], result["trial"], validation_loss(result), flush=True)
    record = {
        "schema_version": 1,
        "command": f"python examples/demo/search.py --trials {options.trials}",
        "environment": describe_environment(),
        "trials": results,
    }
    write_atomically(RECORD, json.dumps(record, indent=1) + "\n")
    for network in ("fc-plain", "fc-highway"):
        best = min((result for result in results if result["network"] == network), key=validation_loss)
        spec = draw(network, best["trial"])
        heading = f"# Best of {options.trials} random settings by validation loss: examples/demo/search.py, trial {best['trial']}.\n"
        write_atomically(HERE / f"{network.removeprefix('fc-')}.toml", heading + spec.to_toml())


if __name__ == "__main__":
    main()
