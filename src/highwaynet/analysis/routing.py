"""How samples of different classes take different routes (figure 3 of the paper)."""

import copy

import numpy as np
import torch
from torch import Tensor, nn

from highwaynet.analysis.records import Origin, RoutingRecord
from highwaynet.analysis.watching import BATCH, Progress, highway_modules, table
from highwaynet.base.arrays import Numbers
from highwaynet.data.dataset import Split
from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.observation import Recording, observe
from highwaynet.training.evaluation import evaluate

SMALLEST = 1e-6
"""A gate's mean is held this far from 0 and 1, whose logits are not finite."""


def analyse_routing(network: nn.Module, split: Split, *, origin: Origin, progress: Progress | None = None) -> RoutingRecord:
    """Mean gates by class, how far classes are apart, and what gating owes to the input.

    The variance of a layer's gates has two parts: between blocks, whose mean gates differ, and within each block over the samples. The
    second is what depends on the input; part of that lies between the means of the classes. As a baseline every gate is held at its mean
    over the samples (gate weights 0, gate bias its logit), so that all samples take the same route.

    Raises:
        ValueError: The network has no transform gates, or the task no classes.
    """
    modules = highway_modules(network)
    record = split.preparation.record
    if record.task != "classification":
        raise ValueError("routes are compared class by class, and a regression has no classes")
    gates = _gates_by_class(network, split, progress)
    counts = gates[0].class_count
    counts = torch.cat([counts, counts.new_zeros(len(record.class_names) - len(counts))])
    places = max(gates[0].count // max(len(split), 1), 1)  # pixels of a map in the first layer
    means, variances = [gate.mean for gate in gates], [gate.variance for gate in gates]
    class_means = [_padded(gate.class_mean, len(counts)) for gate in gates]  # (classes, blocks) for each layer
    weights = (counts / counts.sum())[:, None]
    between = [(weights * (own - mean).square().nan_to_num()).sum(dim=0) for own, mean in zip(class_means, means, strict=True)]
    within = [own.sum() for own in variances]
    return RoutingRecord(
        **origin.fields(len(split)),
        convolutional=any(isinstance(module, ConvHighway) for module in modules),
        class_names=record.class_names,
        class_samples=tuple(int(count) // places for count in counts),
        mean=table(means),
        class_mean=np.stack([table([own[number] for own in class_means]) for number in range(len(counts))]),
        distance=_distances(torch.cat(class_means, dim=1)),
        input_share=_shares(within, [own + _spread(mean) for own, mean in zip(within, means, strict=True)]),
        class_share=_shares([own.sum() for own in between], within),
        intact=evaluate(network, split),
        static=evaluate(static_twin(network, means), split),
    )


def static_twin(network: nn.Module, means: list[Tensor]) -> nn.Module:
    """A copy whose transform gates are held at these values, layer by layer, whatever the input."""
    twin = copy.deepcopy(network)
    held = iter(means)
    with torch.no_grad():
        for module in highway_modules(twin):
            module.gate_weight.zero_()
            for bias in module.gate_bias:
                bias.copy_(next(held).clamp(SMALLEST, 1 - SMALLEST).logit())
    return twin


def _gates_by_class(network: nn.Module, split: Split, progress: Progress | None) -> list[Recording]:
    was_training, done = network.training, 0
    weights = next(network.parameters())
    network.eval()
    try:
        with torch.inference_mode(), observe(network, ["transform"], streaming=True) as seen:
            for inputs, targets in split.batches(BATCH):
                seen.labels = targets
                network(inputs.to(weights))
                done += len(targets)
                if progress:
                    progress(done, len(split))
    finally:
        network.train(was_training)
    return [layer["transform"] for layer in seen.gated]


def _padded(class_mean: Tensor, classes: int) -> Tensor:
    """With a row of NaN for each of the last classes that was not seen."""
    missing = class_mean.new_full((classes - len(class_mean), class_mean.shape[1]), float("nan"))
    return torch.cat([class_mean, missing])


def _spread(mean: Tensor) -> Tensor:
    """Sum of squares around the blocks' common mean."""
    return (mean - mean.mean()).square().sum()


def _shares(parts: list[Tensor], wholes: list[Tensor]) -> Numbers:
    shares = [(part / whole).item() if whole > 0 else 0.0 for part, whole in zip(parts, wholes, strict=True)]
    return np.array(shares, dtype=np.float32)


def _distances(routes: Tensor) -> Numbers:
    """Root mean squared differences between rows (classes, gates)."""
    rows = [(routes - route).square().mean(dim=1).sqrt() for route in routes]
    return torch.stack(rows).float().numpy()
