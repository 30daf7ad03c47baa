"""Routing: how samples of different classes open different gates (figure 3 of the paper)."""

import copy

import numpy as np
import torch
from torch import Tensor, nn

from highwaynet.analysis.analysis_records import Origin, RoutingRecord
from highwaynet.analysis.watching import Progress, is_convolutional, mean_over_places, streamed, table
from highwaynet.base.arrays import Numbers
from highwaynet.data.dataset import Split
from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.highway import Highway
from highwaynet.training.evaluation import evaluate

SMALLEST = 1e-6
"""A gate's mean is kept at least this far from 0 and 1, whose logits are infinite."""


def analyse_routing(network: nn.Module, split: Split, *, origin: Origin, progress: Progress | None = None) -> RoutingRecord:
    """Measure mean gates by class, distances between classes, and how much the gates depend on the input.

    The variance of a layer's gates has two parts: between blocks, whose mean gates differ, and within each block over the samples. The
    second part depends on the input, and a share of it is between the means of the classes. The gates of a map are averaged over its
    pixels. In the baseline every gate is held at its mean over the samples (gate weights 0, gate bias its logit): static routing.

    Raises:
        ValueError: The network has no transform gates, or the task no classes.
    """
    highway_modules(network)
    record = split.preparation.record
    if record.task != "classification":
        raise ValueError("routing compares classes, and a regression has none")
    seen = streamed(network, split, ["transform", "carry"], mean_over_places, progress).gated
    gates = [layer["transform"] for layer in seen]
    counts = _padded(gates[0].class_count[:, None], len(record.class_names)).nan_to_num()[:, 0]
    means, variances = [gate.mean for gate in gates], [gate.variance for gate in gates]
    class_means = [_padded(gate.class_mean, len(counts)) for gate in gates]  # (classes, blocks) for each layer
    weights = (counts / counts.sum())[:, None]
    between = [(weights * (own - mean).square().nan_to_num()).sum(dim=0) for own, mean in zip(class_means, means, strict=True)]
    within = [own.sum() for own in variances]
    return RoutingRecord(
        **origin.fields(len(split)),
        convolutional=is_convolutional(network),
        class_names=record.class_names,
        class_samples=tuple(map(int, counts)),
        mean=table(means),
        class_mean=np.stack([table([own[number] for own in class_means]) for number in range(len(counts))]),
        distance=_distances(torch.cat(class_means, dim=1)),
        input_share=_shares(within, [own + _spread(mean) for own, mean in zip(within, means, strict=True)]),
        class_share=_shares([own.sum() for own in between], within),
        intact=evaluate(network, split),
        static=evaluate(static_twin(network, means, [layer["carry"].mean for layer in seen]), split),
    )


def highway_modules(network: nn.Module) -> list[DenseHighway | ConvHighway]:
    """Return the DenseHighway and ConvHighway modules with layers, in order; raises ValueError if there are none, or other highways."""
    found = [module for module in network.modules() if isinstance(module, DenseHighway | ConvHighway) and module.num_layers]
    if not found or any(isinstance(module, Highway) for module in network.modules()):
        raise ValueError("the network needs transform gates, and only those of DenseHighway and ConvHighway layers")
    return found


def static_twin(network: nn.Module, means: list[Tensor], carries: list[Tensor]) -> nn.Module:
    """Return a copy whose transform gates (and independent carry gates) have these constant values, layer by layer, for any input."""
    twin = copy.deepcopy(network)
    held = iter(zip(means, carries, strict=True))
    with torch.no_grad():
        for module in highway_modules(twin):
            module.gate_weight.zero_()
            module.carry_weight.zero_()
            for bias, carry_bias in zip(module.gate_bias, module.carry_bias, strict=True):
                transform, carry = (value.clamp(SMALLEST, 1 - SMALLEST).logit() for value in next(held))
                bias.copy_(transform)
                if carry_bias.numel():
                    carry_bias.copy_(carry)
    return twin


def _padded(class_mean: Tensor, classes: int) -> Tensor:
    """Append rows of NaN for the last classes if they have no samples."""
    missing = class_mean.new_full((classes - len(class_mean), class_mean.shape[1]), float("nan"))
    return torch.cat([class_mean, missing])


def _spread(mean: Tensor) -> Tensor:
    """Return the sum of squared deviations from the mean over blocks."""
    return (mean - mean.mean()).square().sum()


def _shares(parts: list[Tensor], wholes: list[Tensor]) -> Numbers:
    shares = [(part / whole).item() if whole > 0 else 0.0 for part, whole in zip(parts, wholes, strict=True)]
    return np.array(shares, dtype=np.float32)


def _distances(routes: Tensor) -> Numbers:
    """Return the root mean squared difference between each two rows of (classes, gates), (classes, classes)."""
    rows = [(routes - route).square().mean(dim=1).sqrt() for route in routes]
    return torch.stack(rows).float().numpy()
