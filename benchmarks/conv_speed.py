"""Speed of convolutional networks, compared with naive twins, with torch's convolutions, with mixed bfloat16, and with matrix products.

    python benchmarks/conv_speed.py

A naive twin has the same layers and weights in the usual form: two `nn.Conv2d` per highway layer, `h * t + x * (1 - t)`, `amax` over the
pieces of maxout, torch's default memory layout. Two other peers are our own network, with torch's operator for all convolutions, and in
mixed bfloat16. Whole training steps (forward, loss, backward, SGD with Nesterov momentum) on a batch of 100 with one thread alternate; the
fastest counts. Each peer runs in its own process: ours as `highway train` does, with freed memory kept (highwaynet.base.memory), the twin
as in a plain script. The share of the speed of matrix products counts the multiply-adds that `highway networks` shows, three times for a
training step; with fewer multiplications it may exceed 1. Measure on an idle machine. Writes results/conv-speed.json.
"""

import argparse
import copy
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from record import write_record
from torch import Tensor, nn

import highwaynet.layers.convolution
from highwaynet import NetworkSpec, build_network
from highwaynet.base.memory import keep_freed_memory
from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.conv_plain import ConvPlain
from highwaynet.layers.maxout import ConvMaxout
from highwaynet.networks.convolutional import ConvNetwork
from highwaynet.networks.description import describe

NETWORKS = {"mnist-highway-16": 1.25, "mnist-highway-32": None, "highway-a": 1.3, "highway-b": None, "fitnet-a": None}
"""Each network with the ratio to reach."""
PEAK_SHARE = 0.65
BATCH, SIZE = 100, 2048
PEERS = ("ours", "torch-convolutions", "bfloat16", "naive")


class NaiveHighway(nn.Module):
    """The usual form of the layer, with the weights of a ConvHighway."""

    def __init__(self, layer: ConvHighway) -> None:
        super().__init__()
        self.h, self.t = (nn.Conv2d(layer.channels, layer.channels, layer.kernel_size, padding=layer.kernel_size // 2) for _ in range(2))
        with torch.no_grad():
            for convolution, weight, bias in zip((self.h, self.t), layer.weight.chunk(2), layer.bias.chunk(2), strict=True):
                convolution.weight.copy_(weight)
                convolution.bias.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Compute h·t + x·(1 − t)."""
        h, t = torch.relu(self.h(x)), torch.sigmoid(self.t(x))
        return h * t + x * (1 - t)


class NaiveMaxout(nn.Module):
    """The usual form of the layer, with the weights of a ConvMaxout."""

    def __init__(self, layer: ConvMaxout) -> None:
        super().__init__()
        outputs, inputs, kernel, _ = layer.weight.shape
        self.pieces = layer.pieces
        self.convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2 if layer.padding == "same" else layer.padding)
        self.convolution.load_state_dict({"weight": layer.weight, "bias": layer.bias})

    def forward(self, x: Tensor) -> Tensor:
        """Compute the maximum over the pieces."""
        return self.convolution(x).unflatten(1, (self.pieces, -1)).amax(1)


def naive_twin(network: ConvNetwork) -> nn.Sequential:
    """Return the same network, built from torch's modules."""
    layers: list[nn.Module] = []
    for layer in network.layers:
        if isinstance(layer, ConvHighway):
            layers.append(NaiveHighway(layer))
        elif isinstance(layer, ConvMaxout):
            layers.append(NaiveMaxout(layer))
        elif isinstance(layer, ConvPlain):
            outputs, inputs, kernel, _ = layer.weight.shape
            convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2 if layer.padding == "same" else layer.padding)
            convolution.load_state_dict({"weight": layer.weight, "bias": layer.bias})
            layers += [convolution, nn.ReLU()]
        else:
            layers.append(copy.deepcopy(layer))
    return nn.Sequential(*layers)


def stepper(network: nn.Module, x: Tensor, targets: Tensor, *, mixed: bool) -> Callable[[], float]:
    """Return a function that makes a training step, if `mixed` in mixed bfloat16, and returns its seconds."""
    optimiser = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, nesterov=True, weight_decay=5e-4)

    def step() -> float:
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            outputs = network(x)
        loss = F.cross_entropy(outputs.float(), targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return time.perf_counter() - started

    return step


def product_seconds(left: Tensor, right: Tensor) -> float:
    """Time one large matrix product."""
    started = time.perf_counter()
    torch.mm(left, right)
    return time.perf_counter() - started


def built(name: str, who: str) -> nn.Module:
    """Build our network, or its twin after checking that both compute the same."""
    spec = NetworkSpec(name=name)
    ours = build_network(spec, spec.preset.made_for, 10, generator=torch.Generator().manual_seed(0))
    if who != "naive" or not isinstance(ours, ConvNetwork):
        return ours
    theirs, x = naive_twin(ours), torch.randn(4, *spec.preset.made_for)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), atol=1e-4, rtol=1e-4)
    return theirs


def work(name: str, who: str) -> None:
    """Run a worker process: make a step for each input line, and print its seconds."""
    torch.set_num_threads(1)
    if who != "naive":
        keep_freed_memory()
    if who == "torch-convolutions":
        highwaynet.layers.convolution.is_faster = lambda x, weight: False
    shape = NetworkSpec(name=name).preset.made_for
    step = stepper(built(name, who).train(), torch.randn(BATCH, *shape), torch.arange(BATCH) % 10, mixed=who == "bfloat16")
    for _ in sys.stdin:
        print(step(), flush=True)


def steps_of(worker: "subprocess.Popen[str]") -> float:
    """Let the worker make a step, and return its seconds."""
    if worker.stdin is None or worker.stdout is None:
        raise RuntimeError("the worker has no pipes")
    worker.stdin.write("\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def measure(name: str, rounds: int) -> dict[str, float | str | None]:
    """Measure the best times of all peers and of the matrix product, in turns."""
    spec = NetworkSpec(name=name)
    shape = spec.preset.made_for
    workers = {
        who: subprocess.Popen([sys.executable, __file__, "--work", name, who], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for who in PEERS
    }
    left, right = torch.randn(2, SIZE, SIZE)
    best = dict.fromkeys([*workers, "product"], float("inf"))
    for turn in range(rounds + 3):
        for who, worker in workers.items():
            seconds = steps_of(worker)
            best[who] = min(best[who], seconds) if turn >= 3 else best[who]
        best["product"] = min(best["product"], product_seconds(left, right))
    for worker in workers.values():
        worker.communicate("")
    speed = 6 * describe(spec, shape, 10).multiply_adds * BATCH / best["ours"]
    peak = 2 * SIZE**3 / best["product"]
    return {
        "network": name,
        "ours_ms": 1e3 * best["ours"],
        "torch_convolutions_ms": 1e3 * best["torch-convolutions"],
        "bfloat16_ms": 1e3 * best["bfloat16"],
        "naive_ms": 1e3 * best["naive"],
        "ratio": best["naive"] / best["ours"],
        "asked_ratio": NETWORKS[name],
        "gflops": speed / 1e9,
        "product_gflops": peak / 1e9,
        "share_of_product": speed / peak,
        "asked_share": PEAK_SHARE if name == "highway-b" else None,
    }


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--work", nargs=2, metavar=("NETWORK", "WHO"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(*options.work)
        return
    torch.set_num_threads(1)
    results = []
    for name in NETWORKS:
        results.append(measure(name, options.rounds if name != "highway-b" else max(3, options.rounds // 4)))
        print(
            f"{name}: {results[-1]['ours_ms']:.1f} ms per step, with torch's convolutions {results[-1]['torch_convolutions_ms']:.1f} ms, "
            f"in bfloat16 {results[-1]['bfloat16_ms']:.1f} ms, naive twin {results[-1]['naive_ms']:.1f} ms, "
            f"ratio {results[-1]['ratio']:.2f}; "
            f"{results[-1]['gflops']:.0f} GFLOP/s, {results[-1]['share_of_product']:.0%} of the speed of a matrix product"
        )
    what = f"training step of a batch of {BATCH} with one thread; the naive twin has the default memory layout"
    write_record("conv-speed", f"conv_speed.py --rounds {options.rounds}", what=what, results=results)


if __name__ == "__main__":
    main()
