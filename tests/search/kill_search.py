"""The kill test of studies: one whose workers and parent are killed again and again ends as one that was left in peace.

PYTHONPATH=tests python -m search.kill_search [--kills 10] [--seed 0] [--record FILE]

A third of the kills (SIGKILL, at random moments) hit a worker, a third the parent, a third all of them at once. The last trial of each
configuration is held in its first epoch until they are over, so that the study is not over before.
"""

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import forked
from forked import Forked
from highwaynet.search.address import DATABASE, Address
from highwaynet.search.spec import read_study
from highwaynet.search.storage import open_storage
from highwaynet.search.workers import is_alive
from holding import PATIENCE, Gate, wait_for

TARGETS = ("worker", "parent", "everybody")
STUDY = """
name = "shaken"
seed = 5
trials = {trials}

[run.network]
depth = 6
width = 12

[run.training]
epochs = {epochs}
checkpoint = "120 steps"

[axes]
"network.name" = ["fc-highway", "fc-plain"]

[space]
"training.learning_rate" = {{ kind = "log-uniform", low = 1e-3, high = 0.5 }}
"training.momentum" = {{ kind = "uniform", low = 0.0, high = 0.95 }}
"network.activation" = {{ kind = "choice", choices = ["tanh", "relu"] }}
"""


def write_study(path: Path, trials: int, epochs: int) -> Path:
    path.write_text(STUDY.format(trials=trials, epochs=epochs), encoding="utf-8")
    return path


def start(study: Path, out: Path, workers: int = 2, **environment: str) -> Forked:
    return forked.start("search", study, "--out", out, "--workers", workers, **{"HIGHWAYNET_HEARTBEAT": "1"} | environment)


def worker_pids(out: Path) -> list[int]:
    """The workers of a study that live."""
    names = [folder.name for folder in (out / "workers").glob("*")]
    return [int(name.split("-")[-2]) for name in names if is_alive(out, name)]


def stored_trials(address: Address) -> dict[str, list[Any]]:
    """All trials in a storage, by the name of their study, as Optuna reads them."""
    storage = open_storage(address, read_only=True)
    try:
        return {study.study_name: storage.get_all_trials(study._study_id) for study in storage.get_all_studies()}
    finally:
        storage.remove_session()
        storage.engine.dispose()


def results(out: Path) -> dict[str, dict[int, tuple[float, dict[str, Any]]]]:
    """Value and settings by configuration and index; raises AssertionError where an index has not exactly one."""
    found: dict[str, dict[int, tuple[float, dict[str, Any]]]] = {}
    for name, trials in stored_trials(Address.of_file(out / DATABASE)).items():
        done = [trial for trial in trials if trial.state.name in {"COMPLETE", "PRUNED"}]
        counts = Counter(trial.user_attrs["index"] for trial in done)
        assert set(counts.values()) == {1}, counts
        unfinished = [trial.state.name for trial in trials if trial.state.name not in {"COMPLETE", "PRUNED", "FAIL"}]
        assert not unfinished, unfinished
        found[name] = {trial.user_attrs["index"]: (trial.value, trial.params) for trial in done}
    return found


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def shake(study: Path, out: Path, kills: int, seed: int, longest: float = 2.5) -> Counter[str]:
    """Run a study with so many kills, each at most so many seconds after workers are there; returns what was hit."""
    chance, hit = random.Random(seed), Counter[str]()
    gate = Gate(out.with_name(f"{out.name}-gate"), runs=f"*/{read_study(study).trials - 1:05}")
    parent = start(study, out, **gate.environment)
    while sum(hit.values()) < kills:
        wait_for(lambda: worker_pids(out), parent)
        time.sleep(chance.uniform(0, longest))
        assert parent.poll() is None, f"ended with {parent.returncode} after {hit}, before all kills\n{parent.communicate()[1]}"
        target = TARGETS[sum(hit.values()) % len(TARGETS)]
        pids = worker_pids(out)
        if target == "worker":
            if not pids:
                continue
            kill(chance.choice(pids))
        else:
            parent.kill()
            for pid in pids if target == "everybody" else ():
                kill(pid)
            parent.communicate()
            parent = start(study, out, **gate.environment)
        hit[target] += 1
    gate.open()
    _, errors = parent.communicate(timeout=2 * PATIENCE)
    assert parent.returncode == 0, errors
    assert "Traceback" not in errors, errors
    return hit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=30, help="of each of two configurations")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--record", type=Path, help="write what was done as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = write_study(Path(folder) / "study.toml", options.trials, options.epochs)
        calm = start(study, Path(folder) / "calm")
        _, errors = calm.communicate()
        assert calm.returncode == 0, errors
        hit = shake(study, Path(folder) / "shaken", options.kills, options.seed, longest=8.0)
        expected, found = results(Path(folder) / "calm"), results(Path(folder) / "shaken")
        assert found == expected, "the disturbed study differs"
        resumed = sum("resumed from" in path.read_text(encoding="utf-8") for path in Path(folder, "shaken", "runs").rglob("events.log"))
    record = {
        "kills": sum(hit.values()),
        "seed": options.seed,
        "hit": dict(hit),
        "trials": sum(map(len, found.values())),
        "runs resumed from a checkpoint": resumed,
        "each index exactly once, settings and values equal": True,
    }
    print(record)
    if options.record:
        options.record.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
