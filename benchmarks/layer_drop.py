"""Does a network that is trained with random closing of layers survive the removal of half of its layers?

    python benchmarks/layer_drop.py --data-root FOLDER [--runs FOLDER]

Trains 50-layer highway networks on MNIST for 30 epochs, three seeds each: without `layer_drop`, and with a constant probability of 0.5.
Then removes half of the highway layers at random, 20 times, without further training, and writes the test accuracies to
results/layer-drop.json.
"""

import argparse
import os
from pathlib import Path
from statistics import fmean

import torch
from record import write_record

from highwaynet import load_dataset
from highwaynet.analysis.closing import closing, score_routes
from highwaynet.base.randomness import generator_for
from highwaynet.cli.progress import TrainingProgress
from highwaynet.layers.lesion import count_layers
from highwaynet.runs.load import load_network
from highwaynet.runs.spec import spec_from_values
from highwaynet.training.loop import train

ROOT = Path(__file__).parents[1]
TRAINING = {"without": {}, "with": {"layer_drop": 0.5, "layer_drop_shape": "constant"}}
SEEDS = (1, 2, 3)
DRAWS = 20
EPOCHS = 30


def accuracies(kind: str, seed: int, runs: Path) -> dict[str, float]:
    """Test accuracy in percent, intact and with half of the layers removed: mean and lowest of the draws."""
    network = {"name": "fc-highway", "depth": 50}
    values = {"seed": seed, "network": network, "data": {"name": "mnist"}, "training": TRAINING[kind] | {"epochs": EPOCHS, "threads": 1}}
    spec, path = spec_from_values(values), runs / f"{kind}-{seed}"
    with TrainingProgress(path.name, EPOCHS) as progress:
        run = train(spec, path, resume=path.exists(), watcher=progress)
    model, data = load_network(run), load_dataset(spec.data)
    layers = count_layers(model)
    drawn = [torch.randperm(layers, generator=generator_for(seed, "half", draw))[: layers // 2] + 1 for draw in range(DRAWS)]
    intact, *halves = [closing(layers, set(numbers)) for numbers in ([], *(numbers.tolist() for numbers in drawn))]
    scores = score_routes(model, data.test, [intact, *halves])
    left = [scores[route].percent for route in halves]
    return {"intact": scores[intact].percent, "half_removed": fmean(left), "half_removed_lowest": min(left)}


def main() -> None:
    """Train what is missing, remove layers, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "layer-drop")
    options = parser.parse_args()
    os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    found = {kind: [accuracies(kind, seed, options.runs) for seed in SEEDS] for kind in TRAINING}
    lost = {kind: fmean(one["intact"] - one["half_removed"] for one in rows) for kind, rows in found.items()}
    write_record("layer-drop", "layer_drop.py --data-root FOLDER", test_accuracy=found, points_lost=lost)
    print(lost)


if __name__ == "__main__":
    main()
