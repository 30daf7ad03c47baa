"""Where the rule that chooses between fused tiles and the library's products comes from (`prefers_products`).

    python benchmarks/stack_paths.py [--threads N] [--seconds S]

Times two highway layers over widths and numbers of rows, forward only and forward with backward, with the tiles, with the products, and as
PyTorch modules written by hand (the better one of separate and merged H and T). Then the stacks of `highway bench --wide`. Everything is
done with each vector instruction set of the processor for the tiles; the library chooses its own. On AMD processors torch's library uses
AVX2 only, so that the comparison with AVX2 tiles shows what to expect of other processors. Writes results/stack-paths.json.
"""

import argparse
from collections.abc import Callable

import torch
from record import write_record
from torch import nn

from highwaynet import DenseHighway
from highwaynet.base.memory import keep_freed_memory
from highwaynet.bench.measure import best_times
from highwaynet.bench.peers import MergedHighway, NaiveHighway
from highwaynet.bench.wide import OURS, run_wide
from highwaynet.kernels import dense_stack
from highwaynet.kernels.native import native_module

LAYERS = 2
WIDTHS = (64, 128, 256, 512, 1024, 2048)
ROWS = (1, 2, 4, 16, 128, 1024)


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each shape and instruction set")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    native = native_module()
    if native is None:
        raise SystemExit("the kernels were not compiled: there is nothing to choose")
    shapes, wide = [], []
    for instructions in [name for name in native.instruction_sets() if name != "baseline"]:
        native.use_instruction_set(instructions)
        print(f"{instructions}: rows, tiles and products × the best module by hand, forward | step")
        for width in WIDTHS:
            row = [{"instructions": instructions, **measure(width, rows, options.seconds)} for rows in ROWS]
            shapes += row
            print(f"{width:5} wide  " + "  ".join(_cell(shape) for shape in row), flush=True)
        for found in run_wide(seconds=40 * options.seconds, threads=options.threads).steps:
            if found.peer == OURS:
                wide.append({"instructions": instructions, **found.setting.model_dump(), "times_by_hand": round(found.times_by_hand, 3)})
                print(f"{found.setting.system}: {found.times_by_hand:.2f} × by hand")
    write_record("stack-paths", "stack_paths.py", layers=LAYERS, shapes=shapes, wide=wide)


def _cell(shape: dict[str, float]) -> str:
    ways = [f"{shape[f'tiles_{part}']:.2f} {shape[f'products_{part}']:.2f}" for part in ("forward", "step")]
    return f"{shape['rows']}: {' | '.join(ways)}"


def measure(width: int, rows: int, seconds: float) -> dict[str, float]:
    """Return the speeds of both ways, forward and whole step, as multiples of that of the best module by hand."""
    modules: dict[str, nn.Module] = {
        "tiles": DenseHighway(width, layers=LAYERS),
        "products": DenseHighway(width, layers=LAYERS),
        "naive": nn.Sequential(*(NaiveHighway(width) for _ in range(LAYERS))),
        "merged": nn.Sequential(*(MergedHighway(width) for _ in range(LAYERS))),
    }
    shape: dict[str, float] = {"width": width, "rows": rows}
    for part in ("forward", "step"):
        times = best_times({name: _call(name, module, width, rows, part) for name, module in modules.items()}, seconds)
        by_hand = min(times["naive"], times["merged"])
        for name in ("tiles", "products"):
            shape[f"{name}_{part}"] = round(by_hand / times[name], 3)
    return shape


def _call(name: str, module: nn.Module, width: int, rows: int, part: str) -> Callable[[], object]:
    x, gradient = torch.randn(rows, width, requires_grad=True), torch.randn(rows, width)
    parameters = list(module.parameters())

    def forward() -> object:
        with torch.no_grad():
            return module(x)

    def step() -> object:
        return torch.autograd.grad(module(x), [x, *parameters], gradient)

    def call() -> object:
        dense_stack.prefers_products = lambda rows, width: name == "products"
        return forward() if part == "forward" else step()

    return call


if __name__ == "__main__":
    main()
