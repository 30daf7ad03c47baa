"""Which transform gates open (figure 2 of the paper)."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from highwaynet.analysis.records import GatesRecord, Origin
from highwaynet.analysis.watching import Progress, by_block, highway_modules, table, watched
from highwaynet.data.dataset import Split
from highwaynet.layers.conv_highway import ConvHighway

OPEN, CLOSED = 0.5, 0.1
"""Above and below which a gate counts as open and as closed."""


def analyse_gates(network: nn.Module, split: Split, *, origin: Origin, sample: int = 0, progress: Progress | None = None) -> GatesRecord:
    """Biases, mean outputs, and the gates and outputs of one sample.

    Args:
        network: A network with highway layers.
        split: The samples.
        origin: What the record says about itself.
        sample: The sample that is shown alone, from 0.
        progress: Told how many samples are done.

    Raises:
        ValueError: The network has no transform gates, or the sample does not exist.
    """
    modules = highway_modules(network)
    if not 0 <= sample < len(split):
        raise ValueError(f"sample = {sample}: there are {len(split)} samples, numbered from 0")
    biases = [bias.detach().double() for module in modules for bias in module.gate_bias]  # (blocks) for each layer
    sums = [torch.zeros_like(bias) for bias in biases]
    shares = torch.zeros(2, len(biases), dtype=torch.float64)  # of open and closed gates
    for seen, _ in watched(network, split, ["transform"], progress):
        gates = [by_block(layer["transform"].values) for layer in seen.gated]  # (batch, blocks) each
        sums = [total + gate.sum(dim=0) for total, gate in zip(sums, gates, strict=True)]
        shares += torch.stack([torch.stack([_share(gate > OPEN), _share(gate < CLOSED)]) for gate in gates], dim=1)
    ((alone, _),) = watched(network, replace(split, rows=split.rows[sample : sample + 1]), ["transform", "output"])
    return GatesRecord(
        **origin.fields(len(split)),
        convolutional=any(isinstance(module, ConvHighway) for module in modules),
        start_bias=modules[0].start_gate_bias,
        bias=table(biases),
        mean=table([total / len(split) for total in sums]),
        sample=sample,
        sample_gates=table([by_block(layer["transform"].values)[0] for layer in alone.gated]),
        sample_outputs=table([by_block(layer["output"].values)[0] for layer in alone.gated]),
        open_share=(shares[0] / len(split)).numpy(),
        closed_share=(shares[1] / len(split)).numpy(),
    )


def _share(chosen: Tensor) -> Tensor:
    """The sum over samples of the share of blocks."""
    return chosen.double().mean(dim=1).sum()
