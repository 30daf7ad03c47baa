"""Training steps of wide highway stacks, as published systems use them, compared with PyTorch modules written by hand."""

from collections.abc import Sequence

import torch
from torch import nn

from highwaynet.base.memory import keep_freed_memory
from highwaynet.bench.bench_records import WideMeasurement, WideRecord, WideSetting
from highwaynet.bench.measure import Report, best_times
from highwaynet.bench.peers import MOMENTUM, RATE, MergedHighway, NaiveHighway, StepCall
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.runs.environment import describe_environment

WIDE = (
    WideSetting(system="CBHG", layers=4, width=128, rows=5120),
    WideSetting(system="BiDAF", layers=2, width=200, rows=18_000),
    WideSetting(system="character CNN", layers=2, width=1100, rows=700),
    WideSetting(system="ELMo", layers=2, width=2048, rows=1000),
)
"""Tacotron's CBHG (Wang et al. 2017), BiDAF (Seo et al. 2016), a large character CNN (Kim et al. 2015), and ELMo's (Peters et al. 2018)."""
OURS = "highwaynet"


def wide_peers(setting: WideSetting) -> dict[str, nn.Module]:
    """Return the same stack from this package and as modules by hand: separate products for H and T, and one for both."""
    layers, width = setting.layers, setting.width
    return {
        OURS: DenseHighway(width, layers=layers, activation="relu"),
        "naive PyTorch": nn.Sequential(*(NaiveHighway(width, torch.relu) for _ in range(layers))),
        "PyTorch, H and T merged": nn.Sequential(*(MergedHighway(width, torch.relu) for _ in range(layers))),
    }


def _step(stack: nn.Module, setting: WideSetting) -> StepCall:
    """One training step inside a larger network: gradients come from above, and are needed for the input."""
    generator = torch.Generator().manual_seed(0)
    x, gradient = (torch.randn(setting.rows, setting.width, generator=generator) for _ in range(2))
    x.requires_grad_()
    optimiser = torch.optim.SGD(stack.parameters(), lr=RATE / setting.rows, momentum=MOMENTUM)

    def step() -> None:
        y = stack(x)
        optimiser.zero_grad()
        x.grad = None
        y.backward(gradient)
        optimiser.step()

    return step


def run_wide(
    *,
    settings: Sequence[WideSetting] = WIDE,
    seconds: float = 6.0,
    threads: int | None = None,
    report: Report = lambda text: None,
) -> WideRecord:
    """Compare the speed of wide highway stacks of this package with modules by hand, on this machine.

    Args:
        settings: The stacks.
        seconds: Duration of each comparison.
        threads: Number of threads; by default all.
        report: Called with a text that says what is being measured.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    keep_freed_memory()  # as training does, for all peers
    try:
        found = []
        for setting in settings:
            report(f"{setting.system}: {setting.layers} layers of {setting.width}, {setting.rows} rows")
            times = best_times({name: _step(stack, setting) for name, stack in wide_peers(setting).items()}, seconds)
            by_hand = min(duration for name, duration in times.items() if name != OURS)
            found += [
                WideMeasurement(
                    setting=setting,
                    peer=name,
                    milliseconds=1e3 * duration,
                    times_by_hand=by_hand / duration,
                    gflops=setting.operations / duration / 1e9,
                )
                for name, duration in times.items()
            ]
        return WideRecord(environment=describe_environment(), steps=tuple(found))
    finally:
        torch.set_num_threads(before)
