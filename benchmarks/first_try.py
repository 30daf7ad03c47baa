"""What a newcomer gets who names only the data: the default run of before against that of now.

    python benchmarks/first_try.py --data-root FOLDER [--fashion FOLDER] [--runs FOLDER] [--only NAME]

Makes folders of images (digits as PNG files, subsets of CIFAR-10 and of Fashion-MNIST) and tables with identifiers, dates and gaps, trains
`highway train --data PATH` with the defaults of before (a dense network of 50 layers, 30 epochs, the last weights, all columns) and
of now, three seeds each, and writes test accuracies (or R²) and times to results/first-try.json. Finished runs are not repeated.
"""

import argparse
import csv
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from PIL import Image
from record import RESULTS, write_record

from highwaynet import DataSpec, RunSpec, evaluate, load, load_dataset, train
from highwaynet.base.errors import HighwayError
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import spec_from_values

ROOT = Path(__file__).parents[1]
SEEDS = (1, 2, 3)
COLUMNS = ("customer_id", "joined", "age", "income", "city")
FOUR = ("airplane", "frog", "ship", "truck")
SMALLEST = "cifar, 4 classes, 100 images"


def images(built_in: str, classes: Sequence[str] | None, count: int) -> Callable[[Path], dict[str, Any]]:
    """Return a function that writes `count` training images of a built-in set as a folder of class folders."""

    def make(path: Path) -> dict[str, Any]:
        data = load_dataset(DataSpec(name=built_in, validation=0.0))
        names = data.preparation.record.class_names
        inputs, targets = data.train.inputs.numpy(), data.train.targets.numpy()
        scale = 255 / data.preparation.record.full_scale
        for name in classes or names:
            chosen = np.random.default_rng(0).permutation(np.flatnonzero(targets == names.index(name)))
            folder = path / name.replace("/", "-")
            folder.mkdir(parents=True)
            for row in chosen[: count // len(classes or names)]:
                pixels = (inputs[row].astype(np.float32) * scale).round().astype(np.uint8)
                Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(folder / f"{row}.png")
        return {}

    return make


def table(rows: int, *, regression: bool) -> Callable[[Path], dict[str, Any]]:
    """Return a function that writes a table with an identifier, a date, gaps, numbers and categories."""

    def make(path: Path) -> dict[str, Any]:
        path.mkdir(parents=True)
        random = np.random.default_rng(rows)
        age, income = random.integers(18, 80, rows), random.lognormal(10, 0.5, rows)
        city = random.choice(["Lugano", "Bern", "Basel", "Genève"], rows)
        joined = np.datetime64("2015-01-01") + random.integers(0, 3000, rows)
        days = (joined - joined.min()).astype(int)
        score = 0.05 * (age - 45) + np.log(income) - 10 + 0.8 * (city == "Bern") + days / 1500 + random.normal(0, 0.6, rows)
        with (path / "customers.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["customer_id", "joined", "age", "income", "city", "spends" if regression else "buys"])
            for row in range(rows):
                gap = random.random() < 0.05
                target = f"{1000 * score[row]:.2f}" if regression else ("yes" if score[row] > 1.4 else "no")
                known = "" if gap else f"{income[row]:.0f}"
                writer.writerow([f"C{row:06}-{random.integers(10**6)}", joined[row], age[row], known, city[row], target])
        return {"target": "spends" if regression else "buys"}

    return make


SETS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "cifar, 4 classes, 1,500 images": images("cifar-10", FOUR, 1500),
    "cifar, 10 classes, 500 images": images("cifar-10", None, 500),
    "cifar, 10 classes, 5,000 images": images("cifar-10", None, 5000),
    "cifar, 4 classes, 100 images": images("cifar-10", FOUR, 100),
    "digits, 1,400 images": images("digits", None, 1400),
    "fashion, 2,000 images": images("fashion-mnist", None, 2000),
    "table, 600 rows, classes": table(600, regression=False),
    "table, 4,000 rows, classes": table(4000, regression=False),
    "table, 1,500 rows, numbers": table(1500, regression=True),
}


def before(data: dict[str, Any], seed: int) -> RunSpec:
    """The defaults of the version before: a dense network of 50 layers, 30 epochs, the last weights, all columns."""
    training = {"epochs": 30, "answer": "final", "threads": 1}
    network = {"name": "fc-highway", "depth": 50}
    fields = {"use": COLUMNS} if "target" in data else {}
    return spec_from_values({"seed": seed, "network": network, "data": data | fields, "training": training})


def now(data: dict[str, Any], seed: int) -> RunSpec:
    """The defaults of now."""
    return RunSpec.for_data(
        data["name"], data={key: value for key, value in data.items() if key != "name"}, seed=seed, training={"threads": 1}
    )


def mean_of(values: list[float | None]) -> float | None:
    """The mean over the seeds; None if the data were refused."""
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def folder_of(name: str, runs: Path) -> Path:
    """Return the folder of a set and its runs."""
    return runs / name.replace(", ", "-").replace(",", "").replace(" ", "-")


def result(name: str, kind: str, seed: int, runs: Path) -> dict[str, Any]:
    """Train, or read, the run with one seed; return its test accuracy (or R²) in percent and its seconds."""
    folder = folder_of(name, runs)
    if not (folder / "made.json").is_file():
        made = SETS[name](folder / "data")
        (folder / "made.json").write_text(json.dumps(made))
    data = json.loads((folder / "made.json").read_text())
    path = folder / "data" / "customers.csv"
    data["name"] = str((path if path.exists() else path.parent).resolve())
    out = folder / f"{kind}-{seed}"
    if not (out / "done.json").is_file():
        began = time.perf_counter()
        try:
            run = train({"before": before, "now": now}[kind](data, seed), out, resume=out.exists())
            percent = evaluate(run.path).percent
        except HighwayError as error:  # a table of before may be refused
            print(f"{name}, {kind}: {error}", flush=True)
            percent = None
        out.mkdir(parents=True, exist_ok=True)
        (out / "done.json").write_text(json.dumps({"percent": percent, "seconds": time.perf_counter() - began}))
    done: dict[str, Any] = json.loads((out / "done.json").read_text())
    if (out / "spec.toml").is_file():
        spec = RunDirectory.open(out).read_spec()
        done["network"] = f"{spec.network.name}, {spec.network.depth} layers, {spec.training.epochs} epochs at most"
    return done


def on_others(name: str, kind: str, runs: Path) -> list[float]:
    """Accuracies of the runs of the smallest set on 1,000 other images of its classes, in percent: its own 20 test images are few."""
    data = load_dataset(DataSpec(name="cifar-10", validation=0.0))
    names, targets = data.preparation.record.class_names, data.train.targets.numpy()
    rows = [np.random.default_rng(0).permutation(np.flatnonzero(targets == names.index(one)))[600:850] for one in FOUR]
    inputs, wanted = data.train.inputs.numpy()[np.concatenate(rows)], np.repeat(FOUR, 250)
    folder = folder_of(name, runs)
    return [100 * float((load(folder / f"{kind}-{seed}").predict(inputs) == wanted).mean()) for seed in SEEDS]


def main() -> None:
    """Train what is missing, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "first-try")
    parser.add_argument("--only", choices=SETS)
    options = parser.parse_args()
    os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    torch.set_num_threads(1)
    rows = []
    for name in [options.only] if options.only else SETS:
        found = {kind: [result(name, kind, seed, options.runs) for seed in SEEDS] for kind in ("before", "now")}
        means = {kind: mean_of([one["percent"] for one in ones]) for kind, ones in found.items()}
        print(f"{name}: {means}", flush=True)
        rows.append({"data": name, "test_percent": means, "runs": found})
        if name == SMALLEST:
            rows[-1]["percent_of_1000_others"] = {kind: on_others(name, kind, options.runs) for kind in found}
            print({kind: fmean(ones) for kind, ones in rows[-1]["percent_of_1000_others"].items()}, flush=True)
    measured = {one["data"] for one in rows}
    path = RESULTS / "first-try.json"
    before = json.loads(path.read_text())["sets"] if path.is_file() else []
    rows += [one for one in before if one["data"] not in measured]  # with --only, the others stay as they were measured
    write_record("first-try", "first_try.py --data-root FOLDER", sets=sorted(rows, key=lambda one: list(SETS).index(one["data"])))
    print(RESULTS / "first-try.json")


if __name__ == "__main__":
    main()
