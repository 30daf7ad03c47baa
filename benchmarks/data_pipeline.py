"""Speed of batches, compared with a per-sample `torch.utils.data.DataLoader` that does the same work, with one thread.

    python benchmarks/data_pipeline.py

Measured are data of the form of CIFAR-10 (50,000 colour images, batches of 128, pad-8 crop and mirroring, scaled to 0…1), of MNIST (60,000
grey images, batches of 128, scaled), and the latter from a memory-mapped file. Pixels are random: speed does not depend on them. The peer
takes one sample at a time in Python, crops and flips it with tensor operations and stacks the batch. Rounds alternate; the best counts.
Also measured is the resident memory that the pipeline of CIFAR-10 adds, at its peak and while batches are made, with files in the original
binary format, in a separate process. Writes results/data-pipeline.json.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from record import write_record
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from highwaynet import DataSpec
from highwaynet.base.randomness import generator_for
from highwaynet.data.augmentation import Augmentation
from highwaynet.data.dataset import Split
from highwaynet.data.load import load_dataset

BATCH = 128


class PerSample(Dataset[tuple[Tensor, Tensor]]):
    """A data set that returns one sample at a time, as is usual."""

    def __init__(self, split: Split, crop: int, mirror: bool) -> None:
        self.inputs, self.targets, self.crop, self.mirror = split.inputs, split.targets, crop, mirror

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.targets)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        image = self.inputs[row]
        if self.crop:
            height, width = image.shape[1:]
            top, left = torch.randint(2 * self.crop + 1, (2,)).tolist()
            image = F.pad(image, (self.crop,) * 4)[:, top : top + height, left : left + width]
        if self.mirror and torch.rand(()) < 0.5:
            image = image.flip(2)
        return image.float() / 255, self.targets[row]


def ours(split: Split, augmentation: Augmentation, epoch: int) -> Iterator[object]:
    """Iterate over an epoch's batches as the training loop does."""
    order = torch.randperm(len(split), generator=generator_for(0, "permutation", epoch))
    augment = (lambda n, x, share: augmentation.apply(x, generator_for(0, "augmentation", epoch, n), share)) if augmentation else None
    return split.batches(BATCH, order, augment)


def images_per_second(batches: Iterator[object], limit: int) -> float:
    """Measure the speed over at most `limit` batches."""
    started, count = time.perf_counter(), 0
    for number, (inputs, _) in enumerate(batches, start=1):
        count += len(inputs)
        if number == limit:
            break
    return count / (time.perf_counter() - started)


def compare(name: str, split: Split, augmentation: Augmentation, rounds: int) -> dict[str, object]:
    """Measure our speed and the peer's, the best of several rounds."""
    peer = PerSample(split, augmentation.crop, augmentation.mirror)
    best_ours = best_peer = 0.0
    for epoch in range(1, rounds + 1):
        best_ours = max(best_ours, images_per_second(ours(split, augmentation, epoch), 200))
        best_peer = max(best_peer, images_per_second(iter(DataLoader(peer, BATCH, shuffle=True)), 20))
    print(f"{name}: {best_ours:,.0f} images/s, DataLoader {best_peer:,.0f}, {best_ours / best_peer:.1f} times")
    return {"name": name, "images_per_second": best_ours, "dataloader_images_per_second": best_peer, "ratio": best_ours / best_peer}


MEMORY = """
import resource, sys, torch
from pathlib import Path
from highwaynet import DataSpec
from highwaynet.data.augmentation import Augmentation
from highwaynet.data.load import load_dataset

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

torch.zeros(1000, 1000) @ torch.zeros(1000, 1000)
before, generator = held(), torch.Generator()
data = load_dataset(DataSpec(name="cifar-10"))
for _ in data.train.batches(128, torch.randperm(len(data.train)), lambda n, x, share: Augmentation(8, True).apply(x, generator, share)):
    pass
print(peak() - before, held() - before)
"""


def memory(root: Path, rng: np.random.Generator) -> dict[str, int]:
    """Measure the bytes that CIFAR-10 adds to a process: at the peak, and after an epoch of batches (Linux only)."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        records = rng.integers(0, 256, (10_000, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        records.tofile(folder / f"{name}.bin")
    child = [sys.executable, "-c", MEMORY]
    answer = subprocess.run(child, env=os.environ | {"HIGHWAYNET_DATA": str(root)}, capture_output=True, text=True, check=True)
    at_peak, at_end = map(int, answer.stdout.split())
    print(f"CIFAR-10 adds {at_peak / 1e6:.0f} MB at its peak, {at_end / 1e6:.0f} MB while batches are made")
    return {"peak_bytes": at_peak, "held_bytes": at_end}


def make(folder: Path, shape: tuple[int, ...], rng: np.random.Generator) -> DataSpec:
    """Write random images as .npy files, which are memory-mapped when they are read."""
    folder.mkdir()
    np.save(folder / "x_train.npy", rng.integers(0, 256, shape, dtype=np.uint8))
    np.save(folder / "y_train.npy", np.arange(shape[0]) % 10)
    np.save(folder / "x_test.npy", rng.integers(0, 256, (100, *shape[1:]), dtype=np.uint8))
    np.save(folder / "y_test.npy", np.arange(100) % 10)
    return DataSpec(name=str(folder), validation=0)


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        cifar = make(Path(folder) / "cifar", (50_000, 3, 32, 32), rng)
        mnist = make(Path(folder) / "mnist", (60_000, 1, 28, 28), rng)
        mapped = load_dataset(cifar).train
        in_memory = Split(mapped.inputs.clone(), mapped.targets, mapped.rows, mapped.preparation)
        results.append(compare("CIFAR-10's form, crop and mirror", in_memory, Augmentation(crop=8, mirror=True), options.rounds))
        mapped = load_dataset(mnist).train
        in_memory = Split(mapped.inputs.clone(), mapped.targets, mapped.rows, mapped.preparation)
        results.append(compare("MNIST's form", in_memory, Augmentation(), options.rounds))
        speeds = {"memory": 0.0, "mapped": 0.0}
        for epoch in range(1, 2 * options.rounds):
            for place, split in (("memory", in_memory), ("mapped", mapped)):
                speeds[place] = max(speeds[place], images_per_second(ours(split, Augmentation(), epoch), 10_000))
        added = memory(Path(folder) / "genuine", rng)
        ratio = speeds["mapped"] / speeds["memory"]
        print(f"memory-mapped, warm: {speeds['mapped']:,.0f} images/s, {ratio:.3f} of in-memory")
    command = f"data_pipeline.py --rounds {options.rounds}"
    write_record("data-pipeline", command, results=results, memory_mapped=speeds | {"ratio": ratio}, memory_added_by_cifar_10=added)


if __name__ == "__main__":
    main()
