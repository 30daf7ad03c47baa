"""Highway around any module (Srivastava, Greff and Schmidhuber 2015, https://arxiv.org/abs/1507.06228)."""

from typing import TYPE_CHECKING, Literal, overload

import torch
from torch import Tensor, nn

from highwaynet.layers.gate_bias import GateBias, resolve_gate_bias
from highwaynet.layers.gates import mix
from highwaynet.layers.names import FamilyName
from highwaynet.layers.observation import Observer


class Highway(nn.Module):
    """Highway layer around any module: y = H(x)·T(x) + x·C(x), coupled (C = 1 − T) unless a carry gate is given.

    Args:
        transform: H including its activation: any module whose output has the shape of its input.
        gate: Computes the transform gate's pre-activation W_T·x + b_T, for instance ``nn.Linear(n, n)``; Highway applies the sigmoid.
        carry: Computes the pre-activation of an independent carry gate C.
        gate_bias: Initial value of the gate's bias, negative so that the layer starts by carrying its input, or "auto", which follows from
            `depth`. The carry gate's bias starts at −gate_bias, so that C starts near 1 − T. None leaves the biases unchanged.
        depth: Number of layers of the whole network, for ``gate_bias="auto"``, see `auto_gate_bias`.

    Raises:
        ValueError: If a gate ends in its own sigmoid or softmax, or does not end in a layer with a bias to set.

    >>> layer = Highway(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), gate=nn.Linear(8, 8))
    >>> layer(torch.zeros(1, 8)).shape
    torch.Size([1, 8])
    """

    closed_layers: frozenset[int]
    observer: Observer | None = None

    def __init__(
        self,
        transform: nn.Module,
        gate: nn.Module,
        carry: nn.Module | None = None,
        *,
        gate_bias: GateBias | None = -2.0,
        depth: int = 1,
    ) -> None:
        super().__init__()
        for name, value in (("transform", transform), ("gate", gate), ("carry", carry)):
            if not isinstance(value, nn.Module) and not (name == "carry" and value is None):
                raise TypeError(f"{name} = {value!r}: give a module, for instance nn.Linear(n, n)")
        if gate is transform or carry is transform or carry is gate:
            raise ValueError("transform, gate and carry must be different modules: the same one was given twice")
        self.transform = transform
        self.gate = gate
        self.carry = carry
        self.closed_layers = frozenset()
        self._axis = 1 if type(_last_layer(gate)).__name__.startswith("Conv") else -1  # the axis of blocks or maps
        self.start_gate_bias: float | None = None
        for name, module, sign in (("gate", gate, 1.0), ("carry", carry, -1.0)):
            if module is None:
                continue
            last = _last_layer(module)
            if isinstance(last, nn.Sigmoid | nn.Softmax | nn.LogSoftmax | nn.Hardsigmoid):
                # With a second sigmoid, the gate would always stay about half open.
                raise ValueError(f"{name} ends in {type(last).__name__}: give its pre-activation, Highway applies the sigmoid")
            if gate_bias is not None:
                family: FamilyName = "convolutional" if type(last).__name__.startswith("Conv") else "dense"
                start = resolve_gate_bias(gate_bias, depth, family=family)
                self.start_gate_bias = start
                _set_bias(name, last, sign * start)

    @property
    def gate_bias(self) -> Tensor | None:
        """The transform gate biases b_T, (1, width), with a layer axis as in a dense stack; None if the gate's last layer has no bias."""
        bias = getattr(_last_layer(self.gate), "bias", None)
        return bias[None] if isinstance(bias, Tensor) else None

    @property
    def num_layers(self) -> int:
        """Number of layers of this module: 1."""
        return 1

    @overload
    def forward(self, x: Tensor, return_gates: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, x: Tensor, return_gates: Literal[True]) -> tuple[Tensor, ...]: ...

    @overload
    def forward(self, x: Tensor, return_gates: bool) -> Tensor | tuple[Tensor, ...]: ...

    def forward(self, x: Tensor, return_gates: bool = False) -> Tensor | tuple[Tensor, ...]:
        """Compute the output y; with `return_gates` also T, and C if there is a carry gate: (y, T) or (y, T, C)."""
        if 1 in self.closed_layers:
            zeros = torch.zeros_like(x)
            ones = None if self.carry is None else torch.ones_like(x)
            if self.observer is not None:
                self.observer(1, output=x, state=zeros, transform=zeros, carry=ones, axis=self._axis)
            return (x, zeros, *([] if ones is None else [ones])) if return_gates else x
        h, t = self.transform(x), torch.sigmoid(self.gate(x))
        c = None if self.carry is None else torch.sigmoid(self.carry(x))
        for name, value in (("transform", h), ("gate", t), ("carry", c)):
            if value is not None and value.shape != x.shape:
                raise ValueError(
                    f"{name} returns shape {tuple(value.shape)} for input {tuple(x.shape)}: in a highway layer both must be equal; "
                    "change the width with a plain layer"
                )
        y = mix(x, h, t, c)
        if self.observer is not None:
            self.observer(1, output=y, state=h, transform=t, carry=c, axis=self._axis)
        if not return_gates:
            return y
        return (y, t) if c is None else (y, t, c)

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward


def _last_layer(module: nn.Module) -> nn.Module:
    """Return the last module of nested Sequentials, or the module itself."""
    while isinstance(module, nn.Sequential) and len(module):
        module = module[-1]
    return module


def _set_bias(name: str, last: nn.Module, value: float) -> None:
    bias = getattr(last, "bias", None)
    if not isinstance(bias, nn.Parameter):
        raise ValueError(
            f"{name} ends in {type(last).__name__}, which has no bias to start at {value:g}: "
            "give it one, or set the initial bias yourself and pass gate_bias=None"
        )
    nn.init.constant_(bias, value)
