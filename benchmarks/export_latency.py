"""Time for an answer of a run, ours compared with ONNX Runtime on the exported file, one thread, batches of 1 and 256.

    python benchmarks/export_latency.py                    # about two minutes on a quiet machine
    python benchmarks/export_latency.py --answers          # compares the answers of all presets instead, batches of 1 and 1000

Networks with new weights, random pixels. Both get raw pixels and give probabilities: ours is `predict_proba`, which also checks its input;
`network` is the network without preprocessing and checks. The file of torch's own exporter (torch.onnx.export, the network without
preprocessing) is measured too, for two networks and if onnxscript is installed. Ways alternate; the best of several rounds counts. Writes
results/export-latency.json, or results/export-answers.json.
"""

import argparse
import importlib.util
import io
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from record import write_record

from highwaynet import DataSpec, NetworkSpec, RunSpec, TrainedModel, build_network, export
from highwaynet.data.preparation import Preparation
from highwaynet.data.preprocessing import Preprocessing
from highwaynet.data.record import DataRecord
from highwaynet.exporting.checking import onnx_answer
from highwaynet.exporting.made_up import made_up
from highwaynet.networks.presets import PRESETS

NETWORKS: dict[str, dict[str, Any]] = {
    "fc-highway, 10 layers": {"name": "fc-highway", "depth": 10},
    "fc-highway, 50 layers": {"name": "fc-highway", "depth": 50},
    "fc-highway, 100 layers": {"name": "fc-highway", "depth": 100},
    "mnist-highway-16": {"name": "mnist-highway-16"},
    "highway-a": {"name": "highway-a"},
    "resnet-20": {"name": "resnet-20"},
}
WITH_TORCH = ("fc-highway, 50 layers", "highway-a")
"""Networks that torch's exporter writes, too."""
BATCHES = (1, 256)
ROUND_SECONDS = 0.25


def made(spec: NetworkSpec, task: str = "classification") -> TrainedModel:
    """Return a model with new weights, for images of the size that the preset was made for."""
    shape, outputs = PRESETS[spec.name].made_for, 10 if task == "classification" else 1
    network = build_network(spec, shape, outputs, generator=torch.Generator().manual_seed(0))
    if any(isinstance(module, torch.nn.BatchNorm2d) for module in network.modules()):  # without statistics, outputs would be huge
        for _ in range(30):
            network(torch.rand(16, *shape, generator=torch.Generator().manual_seed(1)))
    network.eval()
    record = DataRecord(
        found="random pixels",
        kind="images",
        task="classification" if task == "classification" else "regression",
        input_shape=shape,
        class_names=tuple("0123456789") if task == "classification" else (),
        full_scale=255.0,
        pixels="uint8",
        preprocessing=("scale",),
        train=1,
        validation=0,
        test=0,
    )
    run = RunSpec(network=spec, data=DataSpec())
    return TrainedModel(network, Preparation(record, Preprocessing(("scale",), 255.0, {})), run, Path("export-latency"))


def session_of(content: bytes) -> onnxruntime.InferenceSession:
    """Open an ONNX file for one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def torch_exported(model: TrainedModel) -> tuple[bytes, float] | None:
    """Return the file of torch's exporter and the seconds that it took; None without onnxscript."""
    if importlib.util.find_spec("onnxscript") is None:
        return None
    started, stored = time.perf_counter(), io.BytesIO()
    example = torch.rand(2, *model.data.input_shape)
    with warnings.catch_warnings(action="ignore"):
        program = torch.onnx.export(model.network, (example,), dynamo=True, dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False)
    assert program is not None
    program.save(stored)
    return stored.getvalue(), time.perf_counter() - started


def best_of(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the best mean time of each way in milliseconds; ways alternate."""
    counts, best = {}, dict.fromkeys(ways, float("inf"))
    for name, way in ways.items():
        way()
        started = time.perf_counter()
        way()
        counts[name] = max(1, int(ROUND_SECONDS / len(ways) / (time.perf_counter() - started)))
    for _ in range(rounds):
        for name, way in ways.items():
            started = time.perf_counter()
            for _ in range(counts[name]):
                way()
            best[name] = min(best[name], (time.perf_counter() - started) / counts[name] * 1000)
    return best


def ways_of(model: TrainedModel, session: onnxruntime.InferenceSession, theirs: bytes | None, batch: int) -> dict[str, Callable[[], Any]]:
    """Return the ways to an answer for a batch."""
    pixels = made_up(model, batch).given["pixels"]
    prepared = torch.from_numpy(pixels).float() / 255
    network = torch.inference_mode()(model.network.__call__)
    ways: dict[str, Callable[[], Any]] = {
        "ours": lambda: model.predict_proba(pixels),
        "network": lambda: network(prepared),
        "onnxruntime": lambda: session.run(None, {"pixels": pixels}),
    }
    if theirs is not None:
        other, given = session_of(theirs), prepared.numpy()
        name = other.get_inputs()[0].name
        ways["onnxruntime, torch's file"] = lambda: other.run(None, {name: given})
    return ways


def latency(rounds: int) -> None:
    """Measure all networks and write the record."""
    rows = []
    for title, settings in NETWORKS.items():
        model = made(NetworkSpec.model_validate(settings))
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            content = Path(export(model, Path(folder) / "file.onnx").path).read_bytes()
            seconds = {"ours": time.perf_counter() - started}
        session, other = session_of(content), torch_exported(model) if title in WITH_TORCH else None
        if other is not None:
            seconds["torch"] = other[1]
        for batch in BATCHES:
            best = best_of(ways_of(model, session, None if other is None else other[0], batch), rounds)
            rows.append({"network": title, "batch": batch, "milliseconds": best, "export_seconds": seconds})
            print(title, batch, ", ".join(f"{name} {taken:.3f} ms" for name, taken in best.items()), seconds, flush=True)
    write_record(
        "export-latency",
        f"export_latency.py --rounds {rounds}",
        what="milliseconds for a batch on one thread, and seconds for writing the file (ours with its check)",
        onnxruntime=onnxruntime.__version__,
        rows=rows,
    )


def differences(case: tuple[str, str]) -> dict[str, Any]:
    """Return the largest differences between the answers of a preset's file and ours."""
    name, task = case
    torch.set_num_threads(1)
    own = {"depth": 50} if PRESETS[name].family == "dense" else {}
    model = made(NetworkSpec.model_validate({"name": name} | own), task)
    with tempfile.TemporaryDirectory() as folder:
        answer = onnx_answer(Path(export(model, Path(folder) / "file.onnx").path).read_bytes())
    largest = {}
    for batch in (1, 1000):
        samples = made_up(model, batch, seed=1)
        found = answer(samples.given)
        theirs, ours = (
            (found["prediction"], model.predict(samples.own))
            if task == "regression"
            else (found["probabilities"], model.predict_proba(samples.own))
        )
        largest[str(batch)] = float(np.abs(theirs - ours).max())
    print(name, task, largest, flush=True)
    return {"network": name, "task": task, "largest_difference": largest}


def answers() -> None:
    """Compare answers of all presets, and of two regressions, in two processes, and write the record."""
    cases = [*((name, "classification") for name in PRESETS), ("fc-highway", "regression"), ("highway-a", "regression")]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        rows = list(pool.map(differences, cases))
    worst = max(max(row["largest_difference"].values()) for row in rows)
    write_record("export-answers", "export_latency.py --answers", what="largest difference of answers", limit=1e-4, worst=worst, rows=rows)


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--answers", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.answers:
        answers()
    else:
        latency(options.rounds)


if __name__ == "__main__":
    main()
