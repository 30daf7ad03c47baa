"""Which transform gates open (figure 2 of the paper)."""

from collections import Counter
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from highwaynet.analysis.analysis_records import QUANTILES, GatesRecord, Origin
from highwaynet.analysis.watching import Progress, is_convolutional, mean_over_places, table, watched
from highwaynet.data.dataset import Split
from highwaynet.layers.observation import ObservedLayer

OPEN, CLOSED = 0.5, 0.1
"""A gate counts as open above `OPEN` and as closed below `CLOSED`."""


def analyse_gates(network: nn.Module, split: Split, *, origin: Origin, sample: int = 0, progress: Progress | None = None) -> GatesRecord:
    """Measure gate biases, mean gates, how many gates are open, and the gates and outputs of one sample.

    Args:
        network: Any network with highway layers.
        split: The samples.
        origin: Fields of the record that say where it comes from.
        sample: The sample whose gates are recorded one by one, from 0.
        progress: Called with (done, total) samples.

    Raises:
        ValueError: The network has no transform gates, or the sample does not exist.
    """
    if not 0 <= sample < len(split):
        raise ValueError(f"sample = {sample}: there are {len(split)} samples, numbered from 0")
    sums: list[Tensor] = []  # of each layer: mean gate, open, closed, (3, blocks)
    sparse: list[Tensor] = []  # of each sample: its share of closed gates
    for seen in watched(network, split, ["transform"], _shares, progress):
        gates = [layer["transform"].values for layer in seen.gated]  # (batch, 3, blocks) each
        if not gates:
            raise ValueError("the network has no transform gates: it has no highway layers")
        own = [gate.sum(dim=0) for gate in gates]
        sums = [total + more for total, more in zip(sums, own, strict=True)] if sums else own
        sparse.append(torch.cat([gate[:, 2] for gate in gates], dim=1).mean(dim=1))
    (alone,) = watched(network, replace(split, rows=split.rows[sample : sample + 1]), ["transform", "output"], mean_over_places)
    starts, biases = zip(*_biases(alone.gated), strict=True)
    count = len(split)
    return GatesRecord(
        **origin.fields(count),
        convolutional=is_convolutional(network),
        start_bias=np.array(starts),
        bias=table(biases),
        mean=table([total[0] / count for total in sums]),
        sample=sample,
        sample_gates=table([layer["transform"].values[0] for layer in alone.gated]),
        sample_outputs=table([layer["output"].values[0] for layer in alone.gated]),
        open_share=np.array([total[1].mean().item() / count for total in sums]),
        closed_share=np.array([total[2].mean().item() / count for total in sums]),
        sparsity=np.quantile(torch.cat(sparse).numpy(), QUANTILES),
    )


def _shares(gates: Tensor) -> Tensor:
    """Reduce (samples, places, blocks) to the mean gate and the shares of places where it is open and closed, (samples, 3, blocks)."""
    exact = gates.double()
    return torch.stack([exact.mean(dim=1), (exact > OPEN).double().mean(dim=1), (exact < CLOSED).double().mean(dim=1)], dim=1)


def _biases(layers: list[ObservedLayer]) -> list[tuple[float, Tensor]]:
    """Return initial bias and biases of each layer's gates; NaN if the gate has none."""
    found, passed = [], Counter[int]()
    for layer in layers:
        module, width = layer.module, layer["transform"].values.shape[-1]
        bias, start = getattr(module, "gate_bias", None), getattr(module, "start_gate_bias", None)
        own = torch.full((width,), torch.nan) if bias is None else bias[passed[id(module)]].detach()
        found.append((float("nan") if start is None else start, own.double()))
        passed[id(module)] += 1
    return found
