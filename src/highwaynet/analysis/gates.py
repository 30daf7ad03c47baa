"""Which transform gates open (figure 2 of the paper, first two columns)."""

import torch
from torch import nn

from highwaynet.analysis.records import GatesRecord
from highwaynet.data.dataset import Split
from highwaynet.data.names import Part
from highwaynet.layers.conv_highway import ConvHighway
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.networks.build import Network

BATCH = 256


def highway_modules(network: nn.Module) -> list[DenseHighway | ConvHighway]:
    """The modules with transform gates, in their order, without stacks of no layers."""
    return [module for module in network.modules() if isinstance(module, DenseHighway | ConvHighway) and module.num_layers]


def analyse_gates(network: Network, split: Split, *, part: Part, fingerprint: str) -> GatesRecord:
    """Biases and mean outputs of the transform gates; raises ValueError for a network without highway layers."""
    modules = highway_modules(network)
    if not modules:
        raise ValueError("the network has no transform gates")
    biases = [bias.detach().double() for module in modules for bias in module.gate_bias]  # (blocks) for each layer
    totals = [torch.zeros_like(bias) for bias in biases]
    with torch.inference_mode():
        for inputs, _ in split.batches(BATCH):
            gates = network(inputs, return_gates=True)[1]  # layer by layer (batch, blocks) or (batch, maps, height, width)
            means = [gate.double() if gate.ndim == 2 else gate.double().mean(dim=(2, 3)) for gate in gates]
            totals = [total + mean.sum(dim=0) for total, mean in zip(totals, means, strict=True)]
    return GatesRecord(
        fingerprint=fingerprint,
        part=part,
        samples=len(split),
        convolutional=any(isinstance(module, ConvHighway) for module in modules),
        start_bias=modules[0].start_gate_bias,
        bias=[bias.tolist() for bias in biases],
        mean=[(total / len(split)).tolist() for total in totals],
    )
