"""Learning rates of the recipe `quick`, compared on validation data, for networks with which no other rate has been tried.

    python benchmarks/quick_rates.py [--only NAME ...] [--data-root FOLDER]

Trains each network with each rate of its grid, for an epoch or two, with one thread, on MNIST or CIFAR-10 (in --data-root or
$HIGHWAYNET_DATA). The test samples are not used. Runs go to runs/quick-rates/, where finished ones are not trained again;
results/quick-rates.json has the validation accuracy and loss of each, or says that it diverged. With --only, the other networks keep
what the record has.
"""

import argparse
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
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
MNIST, CIFAR_10 = {"name": "mnist", "validation": 0.1}, {"name": "cifar-10", "validation": 0.2}
LIMITED = {"max_kernel_norm": 0.9, "max_unit_norm": 1.9}
"""The limits of the FitNets' released files."""


@dataclass(frozen=True)
class Grid:
    """A network and the rates to try."""

    network: str
    data: dict[str, Any]
    epochs: int
    rates: tuple[float, ...]
    training: dict[str, Any] = field(default_factory=dict)
    """Settings besides those of the recipe, with the batches of the claims race-maxout and fitnets."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the network."""

    def spec(self, rate: float) -> RunSpec:
        """The settings of a run."""
        training = {"recipe": "quick", "batch_size": 100, "epochs": self.epochs, "learning_rate": rate, "threads": 1} | self.training
        return spec_from_values({"seed": SEED, "network": {"name": self.network} | self.settings, "data": self.data, "training": training})


CLIPPED = {"clip_norm": 1.0}
NOT_AUGMENTED = {"crop": 0, "mirror": False}
"""As in the claim fitnets at scale laptop."""
PLAN = {
    "mnist-maxout": Grid("mnist-maxout", MNIST, 2, (0.0025, 0.005, 0.01)),
    "mnist-fitnet-limited": Grid("mnist-fitnet", MNIST, 1, (0.01, 0.03, 0.09), LIMITED),
    "mnist-fitnet-clipped": Grid("mnist-fitnet", MNIST, 1, (0.01, 0.03, 0.09), CLIPPED),
    "maxout-teacher-half": Grid("maxout-teacher-half", CIFAR_10, 1, (0.0025, 0.005, 0.01, 0.02)),
    "maxout-teacher-half-less-dropout": Grid(
        "maxout-teacher-half", CIFAR_10, 2, (0.03, 0.09), CLIPPED | NOT_AUGMENTED, {"dropout": [0.0, 0.1, 0.1, 0.2]}
    ),
    "fitnet-a-clipped": Grid("fitnet-a", CIFAR_10, 1, (0.01, 0.03), CLIPPED),
}


def path_of(name: str, rate: float) -> Path:
    """The directory of a run."""
    return RUNS / f"{name}-rate{rate:g}"


def trained(name: str, rate: float) -> None:
    """Train a network with a rate, or continue its run, unless it has ended."""
    if described(name, rate)["run"] in {"finished", "diverged"}:
        return
    with suppress(DivergenceError):
        train(PLAN[name].spec(rate), path_of(name, rate), resume=True)


def described(name: str, rate: float) -> dict[str, Any]:
    """How a run ended."""
    path = path_of(name, rate)
    if not path.is_dir():
        return {"rate": rate, "run": "not made"}
    run = RunDirectory.open(path)
    if not run.finished:
        return {"rate": rate, "run": "diverged" if run.has_diverged else "unfinished"}
    last = run.read_history()[-1]
    figures = {"validation_accuracy": last.validation_accuracy, "validation_loss": last.validation_loss, "training_loss": last.train_loss}
    return {"rate": rate, "run": "finished"} | {key: None if value is None else round(value, 5) for key, value in figures.items()}


def main() -> None:
    """Train the missing runs, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PLAN, default=list(PLAN), metavar="NAME")
    parser.add_argument("--data-root", type=Path)
    options = parser.parse_args()
    if options.data_root:
        os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    for name in options.only:
        for rate in PLAN[name].rates:
            trained(name, rate)
            print(name, described(name, rate), flush=True)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for name in options.only:
        grid = PLAN[name]
        record[name] = asdict(grid) | {"seed": SEED, "rates": [described(name, rate) for rate in grid.rates]}
    write_atomically(RECORD, json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
