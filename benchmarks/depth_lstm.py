"""LSTM cells over depth beside highway, residual and plain layers: 10, 20, 50 and 100 layers on MNIST, as in figure 1 of the paper.

    python benchmarks/depth_lstm.py --data-root FOLDER [--runs FOLDER] [--only-finished]

All networks have about 5,000 parameters in each layer. For each kind and depth, six settings are trained for two epochs: learning rate
(log-uniform between 0.001 and 1, one draw in each sixth of the range), activation (tanh or relu) and gate bias (uniform between −6 and −1;
highway and lstm). The draws are the same for all kinds; momentum is 0.9, the batch size 128. The setting with the lowest training loss is
then trained for ten epochs with another seed. Runs that exist are continued. Writes results/depth-lstm.json and .png;
with --only-finished, of the networks whose runs are all there.
"""

import argparse
import math
import os
from pathlib import Path
from typing import Any

import torch
from matplotlib.ticker import MaxNLocator
from record import RESULTS, write_record

from highwaynet.base.errors import HighwayError
from highwaynet.base.randomness import generator_for
from highwaynet.figures.style import KIND_COLOURS, WIDTH, Figure, house_style, log_scale, to_png
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import RunSpec, spec_from_values
from highwaynet.training.loop import train

ROOT = Path(__file__).parents[1]
KINDS, DEPTHS = ("highway", "lstm", "residual", "plain"), (10, 20, 50, 100)
TRIALS, TRIAL_EPOCHS, EPOCHS, SEED = 6, 2, 10, 24


def drawn(kind: str, depth: int, trial: int) -> dict[str, Any]:
    """Return the settings of a trial, as fields of a run."""
    u, v, w = torch.rand(3, generator=generator_for(SEED, "depth-lstm", depth, trial), dtype=torch.float64).tolist()
    gates = {"network.gate_bias": round(-6 + 5 * w, 2)} if kind in {"highway", "lstm"} else {}
    rate = 10 ** (-3 + 3 * (trial + u) / TRIALS)
    return {"training.learning_rate": float(f"{rate:.3g}"), "network.activation": "tanh" if v < 0.5 else "relu"} | gates


def spec_of(kind: str, depth: int, settings: dict[str, Any], epochs: int, seed: int) -> RunSpec:
    """Return the run with these settings."""
    sections: dict[str, Any] = {
        "seed": seed,
        "network": {"name": f"fc-{kind}", "depth": depth},
        "data": {"name": "mnist"},
        "training": {"epochs": epochs, "batch_size": 128, "momentum": 0.9, "threads": 1},
    }
    for name, value in settings.items():
        section, field = name.split(".")
        sections[section][field] = value
    return spec_from_values(sections)


def losses(spec: RunSpec, path: Path) -> list[float] | None:
    """Train, and return the training loss of each epoch; None if the run diverged."""
    failed = path.with_suffix(".diverged")
    if failed.exists():
        return None
    try:
        history = train(spec, path, resume=path.exists()).read_history()
    except HighwayError as error:
        failed.parent.mkdir(parents=True, exist_ok=True)
        failed.write_text(f"{error}\n")
        return None
    found = [line.train_loss for line in history]
    print(path.name, *(f"{loss:.4f}" for loss in found), flush=True)
    return found


def is_finished(path: Path) -> bool:
    """Whether a run has ended, well or not."""
    return path.with_suffix(".diverged").exists() or (path.exists() and RunDirectory.open(path).finished)


def compared(kind: str, depth: int, runs: Path) -> dict[str, Any]:
    """Search, then train the best setting longer."""
    trials = []
    for trial in range(TRIALS):
        settings = drawn(kind, depth, trial)
        found = losses(spec_of(kind, depth, settings, TRIAL_EPOCHS, SEED + trial), runs / f"{kind}-{depth}-{trial}")
        trials.append({"settings": settings, "train_loss": found})
    best = min(trials, key=lambda one: one["train_loss"][-1] if one["train_loss"] else math.inf)
    final = losses(spec_of(kind, depth, best["settings"], EPOCHS, SEED + 100), runs / f"{kind}-{depth}-final")
    return {"kind": kind, "depth": depth, "trials": trials, "best": best["settings"], "train_loss": final}


def draw(networks: list[dict[str, Any]]) -> Figure:
    """Draw a panel for each depth that has results, with a line for each kind."""
    depths = sorted({one["depth"] for one in networks})
    with house_style():
        figure = Figure(figsize=(2 * WIDTH, 3.2))
        panels = figure.subplots(1, len(depths), sharey=True, squeeze=False)[0]
        for axes, depth in zip(panels, depths, strict=True):
            for one in networks:
                if one["depth"] == depth and one["train_loss"]:
                    values = one["train_loss"]
                    axes.plot(range(1, len(values) + 1), values, color=KIND_COLOURS[one["kind"]], label=one["kind"])
            axes.set_title(f"{depth} layers")
            axes.set_xlabel("epoch")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            log_scale(axes.yaxis)
        panels[0].set_ylabel("training loss")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
        return figure


def main() -> None:
    """Train what is missing; write record and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "depth-lstm")
    parser.add_argument("--only-finished", action="store_true", help="train nothing")
    options = parser.parse_args()
    os.environ["HIGHWAYNET_DATA"] = str(options.data_root)
    wanted = [(kind, depth) for depth in DEPTHS for kind in KINDS]
    if options.only_finished:
        wanted = [(kind, depth) for kind, depth in wanted if is_finished(options.runs / f"{kind}-{depth}-final")]
    networks = [compared(kind, depth, options.runs) for kind, depth in wanted]
    budget = {"trials": TRIALS, "trial_epochs": TRIAL_EPOCHS, "epochs": EPOCHS}
    write_record("depth-lstm", "depth_lstm.py --data-root FOLDER", budget=budget, networks=networks)
    (RESULTS / "depth-lstm.png").write_bytes(to_png(draw(networks)))


if __name__ == "__main__":
    main()
