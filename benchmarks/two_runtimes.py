"""What scikit-learn's OpenMP runtime, beside that of torch, costs: steps and fits in processes with and without it.

    python benchmarks/two_runtimes.py

Measures in fresh processes, with one thread and with all cores: a training step of 10 layers if only torch is loaded; after importing
scikit-learn; and if its gradient boosting, which uses OpenMP, predicts between the steps. Then a search with `HighwayClassifier` in one
process and in two. Best of five. Writes results/two-runtimes.json.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

KINDS = ("torch only", "scikit-learn imported", "gradient boosting between steps")


def step_milliseconds(kind: str, threads: int) -> float:
    """Return the time of a training step, best of five."""
    import numpy as np
    import torch

    from highwaynet import NetworkSpec, build_network

    torch.set_num_threads(threads)
    booster = None
    if kind != "torch only":
        import sklearn.ensemble

        import highwaynet.estimator  # noqa: F401

        x = np.random.default_rng(0).normal(size=(2000, 20))
        booster = sklearn.ensemble.HistGradientBoostingClassifier(max_iter=20).fit(x, (x[:, 0] > 0).astype(int))
    network = build_network(NetworkSpec(depth=10, width=64), (60,), 2)
    optimiser = torch.optim.AdamW(network.parameters(), fused=True)
    inputs, targets = torch.randn(256, 60), torch.randint(0, 2, (256,))
    best = float("inf")
    for _ in range(6):
        spent = 0.0
        for number in range(60):
            if kind == "gradient boosting between steps" and booster is not None and number % 5 == 0:
                booster.predict(x[:50])
            began = time.perf_counter()
            _, loss = network(inputs, targets=targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            spent += time.perf_counter() - began
        best = min(best, 1000 * spent / 60)
    return best


def search_seconds(jobs: int) -> float:
    """Return the time of a search over four settings in three folds, best of three; processes are started before."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV

    from highwaynet import HighwayClassifier

    x, y = load_digits(return_X_y=True)
    best = float("inf")
    for number in range(3):
        search = GridSearchCV(HighwayClassifier(random_state=0, epochs=10), {"depth": [3, 4], "dropout": [0.0, 0.1]}, cv=3, n_jobs=jobs)
        if number == 0:
            GridSearchCV(HighwayClassifier(epochs=1), {"depth": [3, 4]}, cv=2, n_jobs=jobs, refit=False).fit(x[:200], y[:200])
        began = time.perf_counter()
        search.fit(x, y)
        best = min(best, time.perf_counter() - began)
    return best


def in_new_process(*arguments: object) -> float:
    """Run this file with arguments in a new process, without limits on threads."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run([sys.executable, __file__, *map(str, arguments)], env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def main() -> None:
    """Measure, print and write the record."""
    if len(sys.argv) > 1:
        kind, count = sys.argv[1], int(sys.argv[2])
        print(json.dumps(search_seconds(count) if kind == "search" else step_milliseconds(kind, count)))
        return
    from record import RESULTS, write_record

    cores = os.cpu_count() or 1
    steps: list[dict[str, Any]] = []
    for kind in KINDS:
        row = {"process": kind, "milliseconds": {str(threads): in_new_process(kind, threads) for threads in sorted({1, cores})}}
        print(row, flush=True)
        steps.append(row)
    searches = {str(jobs): in_new_process("search", jobs) for jobs in (1, 2)}
    print(searches)
    write_record("two-runtimes", "two_runtimes.py", steps=steps, search_seconds=searches)
    print(RESULTS / "two-runtimes.json")


if __name__ == "__main__":
    main()
