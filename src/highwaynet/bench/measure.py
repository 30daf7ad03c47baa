"""Timing: peers take turns, and the fastest turn counts, because other load on the machine can only slow things down."""

import time
from collections.abc import Callable, Sequence

import torch

from highwaynet.base.memory import keep_freed_memory
from highwaynet.bench.bench_records import BenchRecord, Measurement, RecurrentMeasurement, RecurrentSetting, Setting
from highwaynet.bench.peers import PRODUCT_OPERATIONS, StepCall, naive, ours, peers_for, product, stack_alone
from highwaynet.bench.recurrent import SETTINGS as RECURRENT_SETTINGS
from highwaynet.bench.recurrent import measure_recurrent
from highwaynet.runs.environment import describe_environment

SETTINGS = (
    Setting(layers=50),
    Setting(layers=10),
    Setting(layers=100),
    Setting(kind="plain", layers=50, width=71),
)
DEPTHS = (10, 20, 50, 100, 200, 500, 1000)
BATCHES = (32, 64, 128, 256, 512, 1024)
Report = Callable[[str], None]


def best_times(steps: dict[str, StepCall], seconds: float) -> dict[str, float]:
    """Return the seconds of each peer's fastest step. Turns of about 20 ms alternate for `seconds` in total, at least three each."""
    counts: dict[str, int] = {}
    for name, step in steps.items():
        step()
        started = time.perf_counter()
        step()
        counts[name] = max(1, min(50, int(0.02 / max(time.perf_counter() - started, 1e-6))))
    best = dict.fromkeys(steps, float("inf"))
    began, turn = time.perf_counter(), 0
    while turn < 3 or time.perf_counter() - began < seconds:
        turn += 1
        for name, step in steps.items():
            step()  # not measured: the caches still hold the data of the previous peer
            started = time.perf_counter()
            for _ in range(counts[name]):
                step()
            best[name] = min(best[name], (time.perf_counter() - started) / counts[name])
    return best


def _measured(setting: Setting, steps: dict[str, StepCall], seconds: float) -> tuple[list[Measurement], float]:
    """Measure all peers of a setting, and the speed of the matrix product in the same turns."""
    times = best_times(steps | {"product": product()}, seconds)
    peak = PRODUCT_OPERATIONS / times.pop("product") / 1e9
    found = []
    for name, duration in times.items():
        gflops = setting.operations / duration / 1e9
        ratio = times["naive PyTorch"] / duration if "naive PyTorch" in times else None
        found.append(
            Measurement(
                setting=setting,
                peer=name,
                milliseconds=1e3 * duration,
                times_naive=ratio,
                gflops=gflops,
                share_of_product=gflops / peak,
            )
        )
    return found, peak


def run_bench(
    *,
    settings: Sequence[Setting] = SETTINGS,
    recurrent: Sequence[RecurrentSetting] = RECURRENT_SETTINGS,
    seconds: float = 6.0,
    compile_too: bool = False,
    sweep: bool = False,
    threads: int | None = None,
    report: Report = lambda text: None,
) -> BenchRecord:
    """Compare the speed of highwaynet and its peers on this machine.

    Args:
        settings: The networks and batch sizes to compare on.
        recurrent: The recurrent layers and batches of sequences to compare on.
        seconds: Duration of each comparison.
        compile_too: Also measure torch.compile, which takes a minute to start.
        sweep: Also compare highwaynet with the naive module over depths and batch sizes.
        threads: Number of threads of torch and the kernels; by default all.
        report: Called with a text that says what is being measured.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    keep_freed_memory()  # as training does
    try:
        steps: list[Measurement] = []
        stacks: list[Measurement] = []
        peaks: list[float] = []
        for setting in settings:
            report(f"{setting.kind}, {setting.layers} layers, {setting.width} wide, batches of {setting.batch}")
            made = {name: make(setting) for name, make in peers_for(setting, compile_too=compile_too).items()}
            found, peak = _measured(setting, made, seconds)
            steps += found
            alone, _ = _measured(setting, {"highwaynet, stack alone": stack_alone(setting)}, seconds / 2)
            stacks += alone
            peaks.append(peak)
        sequences: list[RecurrentMeasurement] = []
        for own in recurrent:
            report(f"recurrent, depth {own.depth}, {own.width} wide, {own.steps} steps, batches of {own.batch}")
            rows, peak = measure_recurrent(own, seconds, best_times)
            sequences += rows
            peaks.append(peak)
        swept: list[Measurement] = []
        if sweep:
            for setting in dict.fromkeys([*(Setting(layers=depth) for depth in DEPTHS), *(Setting(batch=batch) for batch in BATCHES)]):
                report(f"{setting.layers} layers, batches of {setting.batch}")
                swept += _measured(setting, {"highwaynet": ours(setting), "naive PyTorch": naive(setting)}, seconds / 2)[0]
        return BenchRecord(
            environment=describe_environment(),
            product_gflops=max(peaks),
            steps=tuple(steps),
            stacks=tuple(stacks),
            recurrent=tuple(sequences),
            sweep=tuple(swept),
        )
    finally:
        torch.set_num_threads(before)
