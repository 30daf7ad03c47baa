"""What helps a network that learns from few images: fewer layers, or smaller batches.

    python benchmarks/few_images.py --data-root FOLDER [--runs FOLDER] [--ways NAME ...] [--sets NAME ...] [--fresh]

Trains `highway-a` with the default settings for few images (dropout, label smoothing, shifts) and with changes to them, three seeds
each, on 100 to 600 images of CIFAR-10 and Fashion-MNIST, and tests on 1,000 others. No image is one of those in `first_try.py`, whose
numbers therefore stay an honest test of the rule that was chosen here. Writes results/few-images.json. Finished runs are not
repeated, and the record has all of them.
"""

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from record import write_record

from highwaynet import DataSpec, evaluate, load_dataset, train
from highwaynet.networks.presets import PRESETS
from highwaynet.runs.spec import RunSpec

ROOT = Path(__file__).parents[1]
SEEDS = (1, 2, 3)
FRESH = (4, 5, 6)
"""Seeds that confirm what the first ones suggest: fewer layers for at most 300 images."""
USED = 600
"""This many images of each class come first in `first_try.py` and are left alone."""
FOUR = ("automobile", "bird", "cat", "horse")
SETS: dict[str, tuple[str, tuple[str, ...] | None, int]] = {
    "cifar, 4 classes, 100 images": ("cifar-10", FOUR, 100),
    "fashion, 10 classes, 100 images": ("fashion-mnist", None, 100),
    "cifar, 4 classes, 300 images": ("cifar-10", FOUR, 300),
    "fashion, 10 classes, 300 images": ("fashion-mnist", None, 300),
    "cifar, 4 classes, 600 images": ("cifar-10", FOUR, 600),
    "cifar, 10 classes, 600 images": ("cifar-10", None, 600),
}
WAYS: dict[str, dict[str, Any]] = {
    "11 layers, batches of 100": {},
    "8 layers, batches of 100": {"layers": 8},
    "5 layers, batches of 100": {"layers": 5},
    "11 layers, batches of 32": {"batch_size": 32},
    "8 layers, batches of 32": {"layers": 8, "batch_size": 32},
    "5 layers, batches of 32": {"layers": 5, "batch_size": 32},
    "11 layers, batches of 16": {"batch_size": 16},
    "11 layers, batches of 16, half the rate": {"batch_size": 16, "learning_rate": 0.04},
}
"""What is changed. Five layers have no highway layer, eight have one in each of the three stages."""
NETWORKS = {11: "highway-a", 8: "highway-a-8", 5: "highway-a-5"}
PRESETS["highway-a-5"] = replace(PRESETS["highway-a"], kernels=((),) * 3, layers=5)


def images(built_in: str, classes: tuple[str, ...] | None, count: int) -> tuple[Any, ...]:
    """Return images and class names to train on, as many as 80 % of `count`, and 1,000 to test on."""
    data = load_dataset(DataSpec(name=built_in, validation=0.0))
    names = data.preparation.record.class_names
    inputs, targets = data.train.inputs.numpy(), data.train.targets.numpy()
    wanted = classes or names
    parts: list[list[Any]] = [[], []]
    for name in wanted:
        chosen = np.random.default_rng(0).permutation(np.flatnonzero(targets == names.index(name)))[USED:]
        trained = round(0.8 * count / len(wanted))
        parts[0].append(chosen[:trained])
        parts[1].append(chosen[-1000 // len(wanted) :])
    rows = [np.concatenate(part) for part in parts]
    return tuple(found for part in rows for found in (inputs[part], np.array(names)[targets[part]]))


def place(name: str, way: str, seed: int, runs: Path) -> Path:
    """Return the file with the result of a run."""
    return runs / f"{name} {way}".replace(", ", "-").replace(" ", "-") / f"{seed}.json"


def result(name: str, way: str, seed: int, runs: Path) -> float:
    """Train, or read, a run; return its accuracy on the test images in percent."""
    done = place(name, way, seed, runs)
    if not done.is_file():
        data, changes = images(*SETS[name]), dict(WAYS[way])
        layers = changes.pop("layers", 11)
        spec = RunSpec.for_data(data, seed=seed, training={"threads": 1, **changes})
        network = {"name": NETWORKS[layers], "dropout": spec.network.dropout}
        spec = RunSpec.model_validate(spec.model_dump(exclude={"network"}) | {"network": network})
        run = train(spec, done.parent / f"run-{seed}", data=data, overwrite=True)
        done.write_text(json.dumps(evaluate(run.path, data=data).percent))
    return float(json.loads(done.read_text()))


def main() -> None:
    """Train what is missing, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "few-images")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--fresh", action="store_true", help="train with the seeds 4, 5 and 6, which confirm what the others suggest")
    options = parser.parse_args()
    seeds = FRESH if options.fresh else SEEDS
    os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    torch.set_num_threads(1)
    for name in options.sets:
        for way in options.ways:
            print(f"{name}; {way}: {fmean(result(name, way, seed, options.runs) for seed in seeds):.1f} %", flush=True)
    rows = [
        {"data": name, "way": way, "seeds": list(seeds), "test_percent": [result(name, way, seed, options.runs) for seed in seeds]}
        for seeds in (SEEDS, FRESH)
        for name in SETS
        for way in WAYS
        if all(place(name, way, seed, options.runs).is_file() for seed in seeds)
    ]
    write_record("few-images", "few_images.py --data-root FOLDER", tested_on=1000, results=rows)


if __name__ == "__main__":
    main()
