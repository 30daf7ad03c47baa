"""Dense networks: one plain layer that sets the width, a stack of layers of one kind, and the head before the softmax."""

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, overload

from torch import Generator, Tensor, nn

from highwaynet.kernels.dense_layer import cross_entropy
from highwaynet.kernels.dense_network import Parameters, can_network, network_loss
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.dense_plain import DensePlain
from highwaynet.layers.dense_residual import DenseResidual
from highwaynet.layers.dropout import Dropout
from highwaynet.layers.initialisation import DEFAULT_STD, initialise_
from highwaynet.networks.spec import NetworkSpec

DenseStack = DenseHighway | DensePlain | DenseResidual
_STACKS = (DenseHighway, DensePlain, DenseResidual)


class DenseNetwork(nn.Module):
    """Input of any shape → flat → plain layer → stack → head; gives logits (or the numbers of a regression).

    Args:
        entry: The first plain layer, from the number of inputs to the width.
        stack: The other layers.
        head: From the width to the number of outputs.
        dropout: Probabilities behind the first layer and before the head.
    """

    head_name = "head"
    companions = False
    takes_targets = True
    """Whether it can compute the loss as well, which takes less time than asking for the logits first."""

    def __init__(self, entry: DensePlain, stack: DenseStack, head: nn.Linear, dropout: tuple[float, ...] = (0.0, 0.0)) -> None:
        super().__init__()
        self.entry, self.stack, self.head = entry, stack, head
        self.entry_dropout, self.head_dropout = map(Dropout, dropout)

    @overload
    def forward(self, x: Tensor, return_gates: Literal[False] = False, targets: None = None) -> Tensor: ...

    @overload
    def forward(self, x: Tensor, return_gates: Literal[True], targets: None = None) -> tuple[Tensor, ...]: ...

    @overload
    def forward(self, x: Tensor, return_gates: Literal[False] = False, *, targets: Tensor) -> tuple[Tensor, Tensor]: ...

    @overload
    def forward(self, x: Tensor, return_gates: bool = False, targets: Tensor | None = None) -> Tensor | tuple[Tensor, ...]: ...

    def forward(self, x: Tensor, return_gates: bool = False, targets: Tensor | None = None) -> Tensor | tuple[Tensor, ...]:
        """Logits (batch, outputs).

        Args:
            x: Of shape (batch, ...).
            return_gates: Also return what a highway stack returns, T (layers, batch, width) and maybe C.
            targets: Class numbers (batch). Then (logits, loss) is returned: the mean cross-entropy, which alone carries gradients.
        """
        if targets is not None:
            if return_gates:
                raise ValueError("return_gates and targets: ask for gates or for the loss, not for both")
            return self._with_loss(x.flatten(1), targets)
        x = self.entry_dropout(self.entry(x.flatten(1)))  # (batch, width)
        if not return_gates:
            logits: Tensor = self.head(self.head_dropout(self.stack(x)))
            return logits
        x, *gates = self.stack(x, return_gates=True)  # type: ignore[call-arg]  # stacks without gates refuse it
        return self.head(self.head_dropout(x)), *gates

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def _with_loss(self, x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        entry, stack, head = self.entry, self.stack, self.head
        kind = getattr(stack, "kernel_kind", None)
        if kind is not None and not self._is_special():
            parameters = Parameters(entry.weight, entry.bias, stack.weight, stack.bias, head.weight, head.bias)
            if can_network(x, targets, parameters, kind):
                return network_loss(x, targets, parameters, kind, stack.activation, sorted(getattr(stack, "closed_layers", ())))
        logits = self.forward(x)
        return logits.detach(), cross_entropy(logits, targets)

    def _is_special(self) -> bool:
        """Whether it takes more than the parameters: dropout, recomputation, observation, hooks, modules that are not the usual ones."""
        entry, stack, head = self.entry, self.stack, self.head
        if type(entry) is not DensePlain or type(stack) not in _STACKS or type(head) is not nn.Linear or head.bias is None:
            return True
        if entry.observer is not None or stack.observer is not None or stack.recomputes or stack.activation != entry.activation:
            return True
        if any(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks for module in (entry, stack, head)):
            return True
        return self.entry_dropout.is_active() or self.head_dropout.is_active()

    def without(self, layers: Iterable[int]) -> "DenseNetwork":
        """The network with these layers of its stack removed, numbered from 1; the first plain layer is not counted."""
        shorter = copy.deepcopy(self)
        shorter.stack = self.stack.without(layers)
        return shorter


def build_dense(spec: NetworkSpec, inputs: int, outputs: int, generator: Generator | None) -> DenseNetwork:
    """The dense network that a spec describes, its weights drawn in the order of the layers."""
    std = DEFAULT_STD if spec.init_std is None else spec.init_std
    width = spec.width or inputs
    entry = DensePlain(inputs, width, activation=spec.activation, init=spec.init, init_std=std, generator=generator)
    stack: DenseStack
    if spec.kind == "highway":
        stack = DenseHighway(
            width,
            layers=spec.depth - 1,
            activation=spec.activation,
            gate_bias="auto" if spec.gate_bias is None else spec.gate_bias,
            depth=spec.depth,
            carry=spec.carry or "coupled",
            init=spec.init,
            init_std=std,
            generator=generator,
        )
    else:
        kind = DensePlain if spec.kind == "plain" else DenseResidual
        stack = kind(
            width,
            layers=spec.depth - 1,
            activation=spec.activation,
            init=spec.init,
            init_std=std,
            generator=generator,
        )
    head = nn.Linear(width, outputs)
    initialise_(head.weight, "glorot-uniform", generator=generator)
    nn.init.zeros_(head.bias)
    return DenseNetwork(entry, stack, head, spec.dropout or (0.0, 0.0))
