"""The transform gate's start value and the gating itself (Srivastava, Greff and Schmidhuber 2015, equations 2 and 3)."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from highwaynet.layers.names import FamilyName
from highwaynet.layers.old_calls import Changed, accepts_old

GateBias = float | Literal["auto"]


@accepts_old(convolutional=Changed("family", lambda convolutional: "convolutional" if convolutional else "dense"))
def auto_gate_bias(depth: int, *, family: FamilyName = "dense") -> float:
    """The start value b_T of the transform gate biases for a network of this depth.

    Convolutional networks follow the paper's guideline, −1, −2, −3 at about 10, 20, 30 layers: −depth/10, within [−4, −1].

    Dense networks follow −1 − 3·log10(depth/10), within the paper's range [−10, −1]: −1 up to 10 layers, −4 at 100, −7 at 1000. That is
    near the best start value at each depth up to 100 (benchmarks/gate_bias_rule.py, results/gate-bias-rule.json), and lets 200, 500 and
    1000 layers learn in their first epoch, where 200 layers with −4 have hardly begun (results/deep-gate-bias). With a bias too high for
    its depth a network does not begin to learn, with one too low it begins later.

    Args:
        depth: Number of layers of the whole network.
        family: "dense" or "convolutional".

    >>> [auto_gate_bias(depth, family="convolutional") for depth in (5, 10, 20, 30, 100)]
    [-1.0, -1.0, -2.0, -3.0, -4.0]
    >>> [round(auto_gate_bias(depth), 2) for depth in (5, 10, 20, 50, 100, 1000)]
    [-1.0, -1.0, -1.9, -3.1, -4.0, -7.0]
    """
    if family not in get_args(FamilyName):
        raise ValueError(f"unknown family {family!r}: choose one of {', '.join(get_args(FamilyName))}")
    if depth < 1:
        return -1.0
    if family == "convolutional":
        return min(-1.0, max(-4.0, -depth / 10))
    return min(-1.0, max(-10.0, -1.0 - 3.0 * math.log10(depth / 10)))


def resolve_gate_bias(gate_bias: GateBias, depth: int, *, family: FamilyName = "dense") -> float:
    """A number as it is, ``"auto"`` by the rule of depth; raises ValueError for anything else."""
    if gate_bias == "auto":
        return auto_gate_bias(depth, family=family)
    if not isinstance(gate_bias, int | float) or not math.isfinite(gate_bias):
        raise ValueError(f"gate_bias = {gate_bias!r}: give a finite number or 'auto'")
    return float(gate_bias)


def mix(x: Tensor, h: Tensor, t: Tensor, c: Tensor | None = None) -> Tensor:
    """The highway equation y = H·T + x·C, coupled (C = 1 − T) where `c` is None.

    The coupled form is exact at both ends: T = 0 gives x and T = 1 gives H, to the bit. The result has the type of x: under mixed precision
    the carried values are not rounded on their way.
    """
    h, t, c = h.to(x.dtype), t.to(x.dtype), None if c is None else c.to(x.dtype)
    if c is None:
        return torch.lerp(x, h, t)
    return h * t + x * c
