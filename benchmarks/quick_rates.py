"""Learning rates of the recipe `quick`, compared on validation data, for networks with which no other rate has been tried.

    python benchmarks/quick_rates.py [--only NAME ...] [--data-root FOLDER]

Trains each network with each rate of its grid, for an epoch or two, with one thread, on MNIST or CIFAR-10 (in --data-root or
$HIGHWAYNET_DATA). The test samples are not used. Runs go to runs/quick-rates/, where finished ones are not trained again;
results/quick-rates.json has the validation accuracy and loss of each, or says that it diverged.
"""

import argparse
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from highwaynet.base.files import write_atomically
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import RunSpec, spec_from_values
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.loop import train

ROOT = Path(__file__).parents[1]
RUNS, RECORD = ROOT / "runs" / "quick-rates", ROOT / "results" / "quick-rates.json"
SEED = 1
PLAN: dict[str, tuple[dict[str, Any], int, tuple[float, ...]]] = {
    "mnist-maxout": ({"name": "mnist", "validation": 0.1}, 2, (0.0025, 0.005, 0.01)),
    "maxout-teacher-half": ({"name": "cifar-10", "validation": 0.2}, 1, (0.0025, 0.005, 0.01, 0.02)),
}
"""Network: data, epochs, rates."""


def spec_of(network: str, rate: float) -> RunSpec:
    """The settings of a run: the recipe's, with the batches of the claims race-maxout and fitnets, and fewer epochs."""
    data, epochs, _ = PLAN[network]
    training = {"recipe": "quick", "batch_size": 100, "epochs": epochs, "learning_rate": rate, "threads": 1}
    return spec_from_values({"seed": SEED, "network": {"name": network}, "data": data, "training": training})


def path_of(network: str, rate: float) -> Path:
    """The directory of a run."""
    return RUNS / f"{network}-rate{rate:g}"


def trained(network: str, rate: float) -> None:
    """Train a network with a rate, or continue its run, unless it has ended."""
    if described(network, rate)["run"] in {"finished", "diverged"}:
        return
    with suppress(DivergenceError):
        train(spec_of(network, rate), path_of(network, rate), resume=True)


def described(network: str, rate: float) -> dict[str, Any]:
    """How a run ended."""
    path = path_of(network, rate)
    if not path.is_dir():
        return {"rate": rate, "run": "not made"}
    run = RunDirectory.open(path)
    if not run.finished:
        return {"rate": rate, "run": "diverged" if run.has_diverged else "unfinished"}
    last = run.read_history()[-1]
    figures = {"validation_accuracy": last.validation_accuracy, "validation_loss": last.validation_loss, "training_loss": last.train_loss}
    return {"rate": rate, "run": "finished"} | {name: None if value is None else round(value, 5) for name, value in figures.items()}


def main() -> None:
    """Train the missing runs, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PLAN, default=list(PLAN), metavar="NAME")
    parser.add_argument("--data-root", type=Path)
    options = parser.parse_args()
    if options.data_root:
        os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    for network in options.only:
        for rate in PLAN[network][2]:
            trained(network, rate)
            print(network, described(network, rate), flush=True)
    record = {
        network: {"data": data, "epochs": epochs, "seed": SEED, "rates": [described(network, rate) for rate in rates]}
        for network, (data, epochs, rates) in PLAN.items()
    }
    write_atomically(RECORD, json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
