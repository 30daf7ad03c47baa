"""Initialisation of weight matrices: Glorot & Bengio 2010, He et al. 2015, Saxe et al. 2014, and normal or uniform distributions.

All are zero-mean. Glorot and orthogonal use gain 1, He uses the fan-in and the gain of ReLU.
"""

from math import sqrt

from torch import Generator, Tensor, nn

from highwaynet.layers.names import Init

DEFAULT_STD = 0.05


def initialise_(weight: Tensor, init: Init, *, std: float = DEFAULT_STD, generator: Generator | None = None) -> Tensor:
    """Fill one matrix (fan_out, fan_in) in place and return it.

    Args:
        weight: The matrix of a single layer, or a view of it. H and T of one layer are filled separately.
        init: The name of the scheme; raises ValueError for an unknown one.
        std: Standard deviation, used only by ``"normal"`` and ``"uniform"``, which is uniform between ±√3·std.
        generator: Random generator; torch's global generator if None.
    """
    if init == "glorot-uniform":
        return nn.init.xavier_uniform_(weight, generator=generator)
    if init == "glorot-normal":
        return nn.init.xavier_normal_(weight, generator=generator)
    if init == "he":
        return nn.init.kaiming_normal_(weight, nonlinearity="relu", generator=generator)
    if init == "orthogonal":
        return nn.init.orthogonal_(weight, generator=generator)
    if init == "normal":
        return nn.init.normal_(weight, 0.0, std, generator=generator)
    if init == "uniform":
        return nn.init.uniform_(weight, -sqrt(3) * std, sqrt(3) * std, generator=generator)
    raise ValueError(f"unknown init {init!r}: choose glorot-uniform, glorot-normal, he, orthogonal, normal or uniform")
