"""Which transform gates open (figure 2 of the paper, first two columns)."""

import torch

from highwaynet.analysis.records import GatesRecord
from highwaynet.data.dataset import Split
from highwaynet.data.names import Part
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.networks.dense import DenseNetwork

BATCH = 256


def analyse_gates(network: DenseNetwork, split: Split, *, part: Part, fingerprint: str) -> GatesRecord:
    """Biases and mean outputs of the transform gates; raises ValueError for a network without highway layers."""
    stack = network.stack
    if not isinstance(stack, DenseHighway):
        raise ValueError(f"the network has no transform gates: its layers are {type(stack).__name__}")
    total = torch.zeros(stack.num_layers, stack.width, dtype=torch.float64)
    with torch.inference_mode():
        for inputs, _ in split.batches(BATCH):
            gates = network(inputs, return_gates=True)[1]  # (layers, batch, width)
            total += gates.double().sum(dim=1)
    return GatesRecord(
        fingerprint=fingerprint,
        part=part,
        samples=len(split),
        start_bias=stack.start_gate_bias,
        bias=stack.gate_bias.detach().double().tolist(),
        mean=(total / len(split)).tolist(),
    )
