"""Highway around any module (Srivastava, Greff and Schmidhuber 2015, https://arxiv.org/abs/1507.06228)."""

import re
import warnings
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from highwaynet.layers.checks import is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.gate_bias import GateBias, resolve_gate_bias
from highwaynet.layers.gates import mix
from highwaynet.layers.names import FamilyName
from highwaynet.layers.observation import Observer


class Highway(nn.Module):
    """Highway layer around any module: y = H(x)·T(x) + x·C(x), coupled (C = 1 − T) unless a carry gate is given.

    H may be a recurrent network, attention, a transformer layer or a convolution. Further inputs and keyword arguments of a call, such as
    masks and states, are passed to it. If it returns a tuple, as `nn.GRU` and `nn.MultiheadAttention` do, its first element is H(x), and
    the layer returns the others behind y, unchanged.

    Args:
        transform: H including its activation: any module whose output has the shape of its first input.
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
    >>> y, state = Highway(nn.GRU(8, 8, batch_first=True), gate=nn.Linear(8, 8))(torch.zeros(2, 5, 8))
    >>> y.shape, state.shape
    (torch.Size([2, 5, 8]), torch.Size([1, 2, 8]))
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
        self._places = _places(_last_layer(gate))
        self.start_gate_bias: float | None = None
        for name, module, sign in (("gate", gate, 1.0), ("carry", carry, -1.0)):
            if module is None:
                continue
            last = _last_layer(module)
            if isinstance(last, nn.Sigmoid | nn.Softmax | nn.LogSoftmax | nn.Hardsigmoid):
                # With a second sigmoid, the gate would always stay about half open.
                raise ValueError(f"{name} ends in {type(last).__name__}: give its pre-activation, Highway applies the sigmoid")
            if gate_bias is not None:
                family: FamilyName = "convolutional" if _places(last) else "dense"
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
    def forward(self, x: Tensor, *, return_gates: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, x: Tensor, *, return_gates: Literal[True]) -> tuple[Tensor, ...]: ...

    @overload
    def forward(self, x: Tensor, *, return_gates: bool) -> Tensor | tuple[Tensor, ...]: ...

    @overload
    def forward(self, x: Tensor | PackedSequence, *inputs: Any, return_gates: bool = False, **options: Any) -> Any: ...

    def forward(self, x: Tensor | PackedSequence, *inputs: Any, return_gates: bool = False, **options: Any) -> Any:
        """Compute the output y; with `return_gates` also T, and C if there is a carry gate: (y, T) or (y, T, C).

        Args:
            x: The input of H and of the gates, and what is carried. A packed sequence gives one, with gates (steps, features).
            *inputs: Further inputs of H, for instance keys and values, or a state.
            return_gates: Return (y, T) or (y, T, C).
            **options: Keyword arguments of H, for instance masks.

        What H returns besides its output comes last: (y, T, C, *others).
        """
        if is_foreign(x) and not isinstance(x, PackedSequence):
            return not_a_tensor(self, x, inputs, options, return_gates=return_gates)
        if len(inputs) == 1 and isinstance(inputs[0], bool):  # the old position of return_gates
            old, new = f"Highway(…)(x, {inputs[0]})", f"Highway(…)(x, return_gates={inputs[0]})"
            warnings.warn(f"{old} is deprecated and will be removed in the next version: use {new}", FutureWarning, stacklevel=4)
            return_gates, inputs = inputs[0], ()
        if isinstance(x, PackedSequence):  # the values of all sequences, (steps, features), are gated like any batch
            y, *others = _as_tuple(self._values(x.data, x, inputs, options, return_gates))
            return _packed(x, y) if not others else (_packed(x, y), *others)
        return self._values(x, x, inputs, options, return_gates)

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def _values(
        self, x: Tensor, given: Tensor | PackedSequence, inputs: tuple[Any, ...], options: dict[str, Any], wants_gates: bool
    ) -> Any:
        """Do what `forward` does, with the values of the input; `given` is the input itself, which H gets."""
        h, *others = _as_tuple(self.transform(given, *inputs, **options))
        h = h.data if isinstance(h, PackedSequence) else h
        if not isinstance(h, Tensor):
            raise TypeError(
                f"transform ({type(self.transform).__name__}) returns {type(h).__name__}: give a module that returns a tensor first"
            )
        if 1 in self.closed_layers:  # H was computed for what it returns besides
            y, h, gates = x.clone(), torch.zeros_like(x), [torch.zeros_like(x), *([] if self.carry is None else [torch.ones_like(x)])]
        else:
            gates = [torch.sigmoid(module(x)) for module in (self.gate, self.carry) if module is not None]
            for name, value in zip(("transform", "gate", "carry"), (h, *gates), strict=False):
                if value.shape != x.shape:
                    raise ValueError(
                        f"{name} returns shape {tuple(value.shape)} for input {tuple(x.shape)}: in a highway layer both must be equal; "
                        "change the width with a plain layer"
                    )
            y = mix(x, h, *gates)
        if self.observer is not None:
            self._tell(self.observer, y, h, *gates)
        result = (y, *(gates if wants_gates else ()), *others)
        return result if len(result) > 1 else y

    def _tell(self, observer: Observer, *values: Tensor) -> None:
        """Call the observer, whose tensors have a batch axis."""
        if self._places and values[0].dim() == self._places + 1:
            values = tuple(value[None] for value in values)
        y, h, t, *c = values
        observer(1, output=y, state=h, transform=t, carry=c[0] if c else None, axis=-1 - self._places)


def _as_tuple(result: Any) -> tuple[Any, ...]:
    """Return what a module returns as a tuple; a packed sequence is itself a tuple, but one value."""
    return tuple(result) if isinstance(result, tuple | list) and not isinstance(result, PackedSequence) else (result,)


def _packed(like: PackedSequence, values: Tensor) -> PackedSequence:
    return PackedSequence(values, like.batch_sizes, like.sorted_indices, like.unsorted_indices)


def _places(last: nn.Module) -> int:
    """Return the number of axes behind the channels: 1, 2 or 3 for convolutions, 0 for other layers, whose features are the last axis."""
    name = type(last).__name__  # also lazy, quantized and parametrized convolutions
    found = re.search(r"Conv(?:Transpose|Highway)?([123])d", name)
    return int(found[1]) if found else 2 * name.startswith("Conv")


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
