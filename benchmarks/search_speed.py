"""Trials of a study that two workers finish in an hour, compared with one worker.

    python benchmarks/search_speed.py --data-root FOLDER      # with the real MNIST; --study for another study

Runs the paper's study with depths 10 and 20 and few settings. Studies with one and with two workers alternate. Only trials that end between
the first end and the last are counted, so that the start of Python is excluded. Writes results/search-speed.json.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import tomli_w
from record import write_record

from highwaynet.search.ready import ready_study
from highwaynet.search.spec import StudySpec, read_study
from highwaynet.search.storage import database_of, open_storage

LIMIT = 1.8
PAPER = "paper-mnist"


def smaller(study: Path | None, trials: int) -> StudySpec:
    """Return the study with fewer settings, and only the first two values of each axis."""
    spec = read_study(study) if study else ready_study(PAPER)
    axes = {field: values[:2] for field, values in spec.axes.items()}
    return spec.model_copy(update={"trials": trials, "axes": axes})


def trials_per_hour(spec: StudySpec, workers: int, data_root: Path | None) -> float:
    """Run the study with this many workers, and return its speed."""
    with tempfile.TemporaryDirectory() as folder:
        study, out = Path(folder) / "study.toml", Path(folder) / "out"
        study.write_text(tomli_w.dumps(spec.model_dump(exclude_none=True)), encoding="utf-8")
        environment = os.environ | ({"HIGHWAYNET_DATA": str(data_root)} if data_root else {})
        command = [sys.executable, "-m", "highwaynet", "search", str(study), "--out", str(out), "--workers", str(workers)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        storage = open_storage(database_of(out), reading=True)
        trials = [trial for study in storage.get_all_studies() for trial in storage.get_all_trials(study._study_id)]
        storage.engine.dispose()
    ends = sorted(trial.datetime_complete for trial in trials if trial.datetime_complete is not None)
    # At the end of a short study one worker is idle while the other finishes its last trial, so the last ends are not counted.
    counted = ends[: len(ends) - workers + 1]
    return 3600 * (len(counted) - workers) / (counted[-1] - counted[workers - 1]).total_seconds()


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--study", type=Path, help="a study's file; by default the paper's study")
    parser.add_argument("--trials", type=int, default=8, help="settings for each configuration")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    spec = smaller(options.study, options.trials)
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(options.repeats):
        for workers, found in rates.items():
            found.append(trials_per_hour(spec, workers, options.data_root))
            print(f"{workers} workers: {found[-1]:,.0f} trials per hour", flush=True)
    ratio = median(rates[2]) / median(rates[1])
    print(f"two workers finish {ratio:.2f} times as many as one")
    write_record(
        "search-speed",
        f"search_speed.py --trials {options.trials} --repeats {options.repeats}",
        study=spec.model_dump(mode="json", exclude_none=True),
        trials_per_hour={f"{workers} workers": [round(rate) for rate in found] for workers, found in rates.items()},
        ratio=round(ratio, 3),
        limit=LIMIT,
        reached=ratio >= LIMIT,
    )


if __name__ == "__main__":
    main()
