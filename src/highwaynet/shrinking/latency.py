"""How long a forward pass takes: networks side by side, alternating, the best of several rounds."""

import time
from collections.abc import Sequence

import torch

from highwaynet.networks.network import Network
from highwaynet.training.evaluation import evaluating

ROUNDS = 7
SECONDS = 0.05
"""Each round of a network takes about this long."""


def latencies(networks: Sequence[Network], batch_size: int) -> list[float]:
    """Return the seconds of one forward pass of each network, for a batch of this size.

    The networks take turns, so that a busy moment of the machine hits all of them.
    """
    inputs = torch.rand(batch_size, *networks[0].plan.input_shape)
    best = [float("inf")] * len(networks)
    with evaluating(*networks):
        calls = [max(1, int(SECONDS / max(_timed(network, inputs, 2), 1e-6))) for network in networks]
        for _ in range(ROUNDS):
            for place, network in enumerate(networks):
                best[place] = min(best[place], _timed(network, inputs, calls[place]))
    return best


def _timed(network: Network, inputs: torch.Tensor, calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        network(inputs)
    return (time.perf_counter() - began) / calls
