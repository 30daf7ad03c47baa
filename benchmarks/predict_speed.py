"""Time and memory of predictions for a long table: piece by piece (`TrainedModel.stream`), compared with reading it whole first.

    python benchmarks/predict_speed.py --rows 400000

A CSV file of six number columns and six category columns, with gaps; an untrained fc-highway with 50 layers, one thread. Each way runs in
a process of its own, twice; the faster run counts, with the peak of resident memory. Both must give the same answers. Writes
results/predict-speed.json.
"""

import argparse
import csv
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from record import write_record

from highwaynet import NetworkSpec, RunSpec, TrainedModel, build_network
from highwaynet.data.preparation import Preparation
from highwaynet.data.preprocessing import Preprocessing
from highwaynet.data.record import DataRecord
from highwaynet.data.table_files import read_table
from highwaynet.data.table_pieces import table_pieces
from highwaynet.data.tables import TableEncoder

NUMBERS, CATEGORIES = [f"n{number}" for number in range(6)], [f"c{number}" for number in range(6)]
WAYS = ("whole", "pieces")


def write_table(path: Path, rows: int) -> None:
    """Write the table."""
    draw = random.Random(0)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*NUMBERS, *CATEGORIES])
        for _ in range(rows):
            numbers = [f"{draw.gauss(0, 100):.3f}" if draw.random() > 0.02 else "" for _ in NUMBERS]
            writer.writerow([*numbers, *(draw.choice(("red", "green", "blue", "")) for _ in CATEGORIES)])


def model_for(path: Path) -> TrainedModel:
    """Return a model with new weights, encoded by the first rows."""
    encoder = TableEncoder.fit(next(table_pieces(path, lambda names: [(name, name) for name in names])))
    size = len(encoder.feature_names)
    spec = NetworkSpec(name="fc-highway", depth=50)
    network = build_network(spec, (size,), 3, generator=torch.Generator().manual_seed(0)).eval()
    record = DataRecord(
        found="a table",
        kind="table",
        task="classification",
        input_shape=(size,),
        class_names=("a", "b", "c"),
        encoder=encoder.to_json(),
        train=1,
        validation=0,
        test=0,
    )
    return TrainedModel(network, Preparation(record, Preprocessing((), 1.0, {})), RunSpec(network=spec), Path("predict-speed"))


def work(way: str, path: Path) -> dict[str, object]:
    """Predict, and return seconds, memory and a checksum of the answers."""
    torch.set_num_threads(1)
    model, found = model_for(path), hashlib.sha256()
    started = time.perf_counter()
    if way == "whole":
        found.update("".join(model.predict(read_table(path))).encode())
    else:
        for piece in model.stream(path):
            found.update("".join(piece.answers).encode())
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {"seconds": seconds, "peak_megabytes": peak, "answers": found.hexdigest()}


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--work", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work(options.work, options.file)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        write_table(path, options.rows)
        size = path.stat().st_size
        taken: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(2):
            for way in WAYS:
                command = [sys.executable, __file__, "--work", way, "--file", str(path)]
                taken[way].append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))
    assert len({one["answers"] for ones in taken.values() for one in ones}) == 1
    best = {way: min(ones, key=lambda one: one["seconds"]) for way, ones in taken.items()}
    for way, one in best.items():
        print(f"{way}: {one['seconds']:.1f} s, {options.rows / one['seconds']:,.0f} rows/s, {one['peak_megabytes']:.0f} MB")
    write_record(
        "predict-speed",
        f"predict_speed.py --rows {options.rows}",
        what=f"predictions for a CSV file of {options.rows} rows and 12 columns ({size / 1e6:.0f} MB), 50 layers, one thread",
        rows=options.rows,
        ways={way: {"seconds": one["seconds"], "peak_megabytes": one["peak_megabytes"]} for way, one in best.items()},
    )


if __name__ == "__main__":
    main()
