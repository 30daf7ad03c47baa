"""Tables with default settings: our estimators beside scikit-learn's gradient boosting, MLP and linear model.

    python benchmarks/tables.py FOLDER [--only NAME] [--members 4] [--runs FOLDER]

FOLDER holds adult-train.csv, adult-test.csv, abalone.csv, winequality-white.csv and phoneme.csv (no header, target last); digits, breast
cancer, wine and diabetes come with scikit-learn. Five divisions of each table, the same for all models; a fifth of the rows is tested.
A third of the rows, always the same, is never tested: `table_study.py`, by which our defaults were chosen, may use it. Every model has
its defaults. Those that need it get standardised numbers and one-hot categories. One thread; times are processor seconds. Writes
results/tables.json. Divisions that are finished, in the folder of runs, are not repeated. With --members, our networks have this
many members and half the steps (`member_study.py`), and the record is results/tables-members.json.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import torch
from record import RESULTS, write_record
from sklearn import datasets
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from highwaynet import HighwayClassifier, HighwayRegressor

SEEDS = (0, 1, 2, 3, 4)
TESTED = 0.2
FILES = {"abalone": "abalone.csv", "winequality-white": "winequality-white.csv", "phoneme": "phoneme.csv"}
BUILT_IN = {
    "digits": datasets.load_digits,
    "breast cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "diabetes": datasets.load_diabetes,
}
REGRESSIONS = ("abalone", "winequality-white", "diabetes")
NAMES = ("adult", *FILES, *BUILT_IN)
MODELS = ("highwaynet", "gradient boosting", "MLP", "linear")


def load(name: str, folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the features and the target of a table."""
    if name in BUILT_IN:
        data = BUILT_IN[name]()
        return pd.DataFrame(data.data), data.target
    files = ("adult-train.csv", "adult-test.csv") if name == "adult" else (FILES[name],)
    parts = [pd.read_csv(folder / file, header=None, skipinitialspace=True, na_values="?", comment="|") for file in files]
    table = pd.concat(parts, ignore_index=True).dropna(subset=[parts[0].columns[-1]])
    target = table.pop(table.columns[-1]).to_numpy()
    if name == "adult":
        target = np.array([label.rstrip(".") for label in target])
    for column in table.columns:
        if table[column].dtype.kind not in "iuf":
            table[column] = table[column].astype("category")
    table.columns = [f"column {number}" for number in range(1, table.shape[1] + 1)]
    return table, target


def never_tested(rows: int) -> np.ndarray:
    """The third of the rows that is in every training part."""
    return np.random.default_rng(2026).permutation(rows)[: rows // 3]


def division(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test rows."""
    others = np.setdiff1d(np.arange(rows), never_tested(rows))
    test = np.random.default_rng(seed).permutation(others)[: round(TESTED * rows)]
    return np.setdiff1d(np.arange(rows), test), test


def _prepared(model: Any) -> Any:
    numbers = make_column_selector(dtype_include="number")
    categories = make_column_selector(dtype_exclude="number")
    return make_pipeline(make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), categories)), model)


def models(regression: bool, seed: int, settings: dict[str, Any] | None = None) -> dict[str, Callable[[], Any]]:
    """Return functions that make the models, with their defaults; ours may get settings."""
    if regression:
        return {
            "highwaynet": lambda: HighwayRegressor(random_state=seed, settings=settings),
            "gradient boosting": lambda: HistGradientBoostingRegressor(random_state=seed),
            "MLP": lambda: _prepared(MLPRegressor(random_state=seed)),
            "linear": lambda: _prepared(Ridge()),
        }
    return {
        "highwaynet": lambda: HighwayClassifier(random_state=seed, settings=settings),
        "gradient boosting": lambda: HistGradientBoostingClassifier(random_state=seed),
        "MLP": lambda: _prepared(MLPClassifier(random_state=seed)),
        "linear": lambda: _prepared(LogisticRegression()),
    }


def with_members(members: int | None, rows: int) -> dict[str, Any] | None:
    """The settings of our networks, for this many training rows; None if they have their defaults."""
    if members is None:
        return None
    from member_study import settings_of

    return settings_of({"members": members, "steps": 1000}, rows)


def fitted(name: str, seed: int, folder: Path, runs: Path, members: int | None) -> dict[str, Any]:
    """Fit all models on one division, or read what an earlier call found; the order of the models rotates with the seed."""
    kept = runs / f"{name.replace(' ', '-')}-{seed}.json"
    if kept.is_file():
        stored: dict[str, Any] = json.loads(kept.read_text())
        return stored
    x, y = load(name, folder)
    train, test = division(len(y), seed)
    makers = models(name in REGRESSIONS, seed, with_members(members, len(train)))
    found: dict[str, Any] = {"rows": len(y), "columns": x.shape[1], "models": {}}
    for model in [*MODELS[seed % 4 :], *MODELS[: seed % 4]]:
        made, began = makers[model](), time.process_time()
        made.fit(x.iloc[train], y[train])
        seconds = time.process_time() - began
        found["models"][model] = {"score": float(made.score(x.iloc[test], y[test])), "seconds": seconds}
    runs.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(found))
    return found


def compare(name: str, folder: Path, runs: Path, members: int | None) -> dict[str, Any]:
    """Fit all models on all divisions of a table."""
    found = [fitted(name, seed, folder, runs, members) for seed in SEEDS]
    by_model = {
        model: {"scores": [one["models"][model]["score"] for one in found], "seconds": [one["models"][model]["seconds"] for one in found]}
        for model in MODELS
    }
    score = "R²" if name in REGRESSIONS else "accuracy"
    return {"table": name, "rows": found[0]["rows"], "columns": found[0]["columns"], "score": score, "models": by_model}


def summary(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean ranks by mean score, and the counts that the aims are about."""
    ranks: dict[str, list[float]] = {model: [] for model in MODELS}
    ahead = near = quick = 0
    for table in tables:
        means = {model: fmean(table["models"][model]["scores"]) for model in MODELS}
        for model in MODELS:
            better = sum(mean > means[model] for mean in means.values())
            equal = sum(mean == means[model] for mean in means.values())
            ranks[model].append(1 + better + (equal - 1) / 2)
        best = max(means, key=lambda model: means[model])
        ahead += means["highwaynet"] > means["MLP"]
        near += means["highwaynet"] >= means[best] - stdev(table["models"][best]["scores"])
        seconds = {model: fmean(table["models"][model]["seconds"]) for model in MODELS}
        quick += seconds["highwaynet"] <= seconds["MLP"]
    mean_ranks = {model: fmean(values) for model, values in ranks.items()}
    return {"mean_rank": mean_ranks, "ahead_of_mlp": ahead, "within_a_deviation_of_the_best": near, "as_fast_as_mlp": quick}


def main() -> None:
    """Compare, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the tables are")
    parser.add_argument("--only", choices=NAMES, help="one table; nothing is written")
    parser.add_argument("--members", type=int, help="members of our networks")
    parser.add_argument("--runs", type=Path, help="where finished divisions are kept")
    options = parser.parse_args()
    record = "tables" if options.members is None else "tables-members"
    runs = options.runs or RESULTS.parent / "runs" / record
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # the MLP says that its 200 epochs are not enough
    HighwayClassifier(epochs=1).fit(np.eye(20), np.arange(20) % 2)  # loads what the first fit needs
    tables = []
    for name in [options.only] if options.only else NAMES:
        tables.append(compare(name, options.folder, runs, options.members))
        for model, found in tables[-1]["models"].items():
            spread = f"{fmean(found['scores']):.4f} ± {stdev(found['scores']):.4f}"
            print(f"{name:18} {model:18} {spread}  {fmean(found['seconds']):7.2f} s", flush=True)
    if not options.only:
        command = "tables.py FOLDER" if options.members is None else f"tables.py FOLDER --members {options.members}"
        write_record(record, command, seeds=list(SEEDS), tables=tables, summary=summary(tables))
        print(RESULTS / f"{record}.json", summary(tables))


if __name__ == "__main__":
    main()
