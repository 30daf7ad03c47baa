"""The initial bias of transform gates (Srivastava, Greff and Schmidhuber 2015, section 2.2). Does not import torch."""

import math
from typing import Literal, get_args

from highwaynet.layers.names import FamilyName
from highwaynet.layers.old_calls import Changed, accepts_old

GateBias = float | Literal["auto"]


@accepts_old(convolutional=Changed("family", lambda convolutional: "convolutional" if convolutional else "dense"))
def auto_gate_bias(depth: int, *, family: FamilyName = "dense") -> float:
    """Return the initial transform gate bias b_T for a network of this depth.

    Convolutional networks use the paper's guideline, −1, −2, −3 at about 10, 20, 30 layers: −depth/10, within [−4, −1].

    Dense networks use −1 − 3·log10(depth/10), within the paper's range [−10, −1]: −1 up to 10 layers, −4 at 100, −7 at 1000. This is
    near the best value at each depth up to 100 (benchmarks/gate_bias_rule.py, results/gate-bias-rule.json). Networks of 200, 500 and
    1000 layers learn in their first epoch with it, whereas 200 layers with −4 hardly do (results/deep-gate-bias). If the bias is too high
    for the depth, a network does not start to learn; if it is too low, it starts later.

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
    """Return a number unchanged and ``"auto"`` as the value for this depth; raises ValueError for anything else."""
    if gate_bias == "auto":
        return auto_gate_bias(depth, family=family)
    if not isinstance(gate_bias, int | float) or not math.isfinite(gate_bias):
        raise ValueError(f"gate_bias = {gate_bias!r}: give a finite number or 'auto'")
    return float(gate_bias)
