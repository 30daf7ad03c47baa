"""Highway around any module (Srivastava, Greff and Schmidhuber 2015, https://arxiv.org/abs/1507.06228)."""

import torch
from torch import Tensor, nn

from highwaynet.layers.gates import mix


class Highway(nn.Module):
    """y = H(x)·T(x) + x·C(x) with any transform H; coupled, C = 1 − T, unless a carry gate is given.

    Args:
        transform: H, any module whose output has the shape of its input, activation included.
        gate: Gives the transform gate's pre-activation W_T·x + b_T, for instance ``nn.Linear(n, n)``; the sigmoid is applied here.
        carry: Gives the pre-activation of an independent carry gate C.
        gate_bias: Start value of the gate's bias, negative so that the layer begins by carrying. The carry gate's bias starts at
            −gate_bias, so that C starts near 1 − T. None leaves the biases as they are.

    Raises:
        ValueError: If a gate ends in its own sigmoid or softmax, or has no bias to set.

    >>> layer = Highway(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), gate=nn.Linear(8, 8))
    >>> layer(torch.zeros(1, 8)).shape
    torch.Size([1, 8])
    """

    closed_layers: frozenset[int]

    def __init__(self, transform: nn.Module, gate: nn.Module, carry: nn.Module | None = None, *, gate_bias: float | None = -2.0) -> None:
        super().__init__()
        self.transform = transform
        self.gate = gate
        self.carry = carry
        self.closed_layers = frozenset()
        for name, module, sign in (("gate", gate, 1.0), ("carry", carry, -1.0)):
            if module is None:
                continue
            _refuse_squashed(name, module)
            if gate_bias is not None:
                _set_bias(name, module, sign * gate_bias)

    @property
    def num_layers(self) -> int:
        """One: the layer itself."""
        return 1

    def forward(self, x: Tensor, return_gates: bool = False) -> Tensor | tuple[Tensor, ...]:
        """The layer's output y; with `return_gates` also T, and C if there is a carry gate: (y, T) or (y, T, C)."""
        if 1 in self.closed_layers:
            gates = (torch.zeros_like(x),) if self.carry is None else (torch.zeros_like(x), torch.ones_like(x))
            return (x, *gates) if return_gates else x
        h, t = self.transform(x), torch.sigmoid(self.gate(x))
        c = None if self.carry is None else torch.sigmoid(self.carry(x))
        for name, value in (("transform", h), ("gate", t), ("carry", c)):
            if value is not None and value.shape != x.shape:
                raise ValueError(
                    f"{name} gives shape {tuple(value.shape)} for input {tuple(x.shape)}: in a highway layer both must be equal; "
                    "change the width with a plain layer"
                )
        y = mix(x, h, t, c)
        if not return_gates:
            return y
        return (y, t) if c is None else (y, t, c)


def _refuse_squashed(name: str, module: nn.Module) -> None:
    """Refuse a gate that squashes its output itself: a second sigmoid would leave it half open for ever."""
    last = [leaf for leaf in module.modules() if not any(leaf.children())][-1]
    if isinstance(last, nn.Sigmoid | nn.Softmax | nn.LogSoftmax | nn.Hardsigmoid):
        raise ValueError(f"{name} ends in {type(last).__name__}: give its pre-activation, Highway applies the sigmoid")


def _set_bias(name: str, module: nn.Module, value: float) -> None:
    biases = [bias for part in module.modules() if isinstance(bias := getattr(part, "bias", None), nn.Parameter)]
    if not biases:
        raise ValueError(f"{name} has no bias to start at {value}: give it one, or pass gate_bias=None to keep it as it is")
    nn.init.constant_(biases[-1], value)
