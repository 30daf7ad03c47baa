"""How samples of different classes take different routes (figure 3 of the paper)."""

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
"""A gate's mean is held this far from 0 and 1, whose logits are not finite."""


def analyse_routing(network: nn.Module, split: Split, *, origin: Origin, progress: Progress | None = None) -> RoutingRecord:
    """Mean gates by class, how far classes are apart, and what gating owes to the input.

    The variance of a layer's gates has two parts: between blocks, whose mean gates differ, and within each block over the samples. The
    second is what depends on the input; part of that lies between the means of the classes. Of a map the mean over its pixels counts. As a
    baseline every gate is held at its mean over the samples (gate weights 0, gate bias its logit), so that all take the same route.

    Raises:
        ValueError: The network has no transform gates, or the task no classes.
    """
    highway_modules(network)
    record = split.preparation.record
    if record.task != "classification":
        raise ValueError("routes are compared class by class, and a regression has no classes")
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
    """The modules whose gates can be held, in their order, without stacks of no layers; raises ValueError where there are none."""
    found = [module for module in network.modules() if isinstance(module, DenseHighway | ConvHighway) and module.num_layers]
    if not found or any(isinstance(module, Highway) for module in network.modules()):
        raise ValueError("the network has no transform gates of DenseHighway or ConvHighway layers, or has others besides")
    return found


def static_twin(network: nn.Module, means: list[Tensor], carries: list[Tensor]) -> nn.Module:
    """A copy whose transform gates (and independent carry gates) are held at these values, layer by layer, whatever the input."""
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
