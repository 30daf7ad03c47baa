"""Dense networks: a plain layer that sets the width, a stack of layers of one kind, and the head before the softmax."""

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from highwaynet.base.errors import InputError
from highwaynet.kernels.dense_layer import cross_entropy
from highwaynet.kernels.dense_network import Parameters, can_network, network_loss
from highwaynet.layers.dense_highway import DenseHighway
from highwaynet.layers.dense_plain import DensePlain
from highwaynet.layers.dense_residual import DenseResidual
from highwaynet.layers.depth_lstm import DepthLSTM
from highwaynet.layers.dropout import Dropout
from highwaynet.layers.initialisation import DEFAULT_STD, initialise_
from highwaynet.networks.affine import AnyStack, MixedStack, affine_map
from highwaynet.networks.members import MemberJoin, Members
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Affine, Dense, DenseStack, DropoutPart, MembersPart, Plan, PlanPart

_STACKS = (DenseHighway, DensePlain, DenseResidual)


class DenseNetwork(Network):
    """A dense network: input of any shape → flatten → plain layer → stack → head → logits (or the numbers of a regression).

    With members, the plain layer and the stack compute all of them, (batch, members, ...), and the head gets all of their states.

    Args:
        plan: The plan of the network.
        entry: The first plain layer, from the number of inputs to the width.
        stack: The other layers; a `MixedStack` if affine maps are between them.
        head: The last layer, from the width (of all members) to the number of outputs.
        dropout: Probabilities after the first layer and before the head.
        members: Copies and scales the inputs for each member; None if there are none.
    """

    head_name = "head"
    takes_targets = True

    def __init__(
        self,
        plan: Plan,
        entry: DensePlain,
        stack: AnyStack | MixedStack,
        head: nn.Linear,
        dropout: tuple[float, ...] = (0.0, 0.0),
        members: Members | None = None,
    ) -> None:
        super().__init__()
        self.plan = plan
        self.members, self.entry, self.stack, self.head = members, entry, stack, head
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
        """Compute logits (batch, outputs).

        Args:
            x: Input of shape (batch, ...).
            return_gates: Also return the gates of a highway stack: T (layers, batch, width), and C if the carry gate is independent; with
                members (layers, batch, members, width).
            targets: Class numbers (batch), or numbers (batch) or (batch, outputs). Returns (outputs, loss) then, with the mean
                cross-entropy or squared error; only the loss has gradients. With members it is the mean of their losses.
        """
        if targets is not None:
            if return_gates:
                raise ValueError("return_gates with targets: a call can return gates or the loss, not both")
            return self._with_loss(x.flatten(1), targets)
        x = self._entered(x)
        if not return_gates:
            logits: Tensor = self.head(self._joined(self.head_dropout(self.stack(x))))
            return logits
        x, *gates = self.stack(x, return_gates=True)  # type: ignore[call-arg]  # stacks without gates raise TypeError
        return self.head(self._joined(self.head_dropout(x))), *gates

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def by_member(self, x: Tensor) -> Tensor:
        """Compute the outputs of each member, (batch, members, outputs); of a usual network, (batch, 1, outputs)."""
        states = self.head_dropout(self.stack(self._entered(x)))  # (batch, members, width), or (batch, width)
        if self.members is None:
            outputs: Tensor = self.head(states)
            return outputs.unsqueeze(1)
        weights = self.head.weight.unflatten(1, (self.members.count, -1))  # (outputs, members, width)
        return torch.einsum("bmw,omw->bmo", states, weights) + self.head.bias

    def _entered(self, x: Tensor) -> Tensor:
        """Return what the stack gets, (batch, width) or (batch, members, width)."""
        x = x.flatten(1)
        entered: Tensor = self.entry_dropout(self.entry(x if self.members is None else self.members(x)))
        return entered

    def _joined(self, x: Tensor) -> Tensor:
        return x if self.members is None else x.flatten(1) / self.members.count

    def _with_loss(self, x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        entry, stack, head = self.entry, self.stack, self.head
        factors = None if self.members is None else self.members.factors[0]
        kind = getattr(stack, "kernel_kind", None)
        if kind is not None and not isinstance(stack, MixedStack) and not self._is_special():
            parameters = Parameters(entry.weight, entry.bias, stack.weight, stack.bias, head.weight, head.bias, factors)
            if can_network(x, targets, parameters, kind):
                return network_loss(x, targets, parameters, kind, stack.activation, sorted(getattr(stack, "closed_layers", ())))
        outputs = self.by_member(x)  # (batch, members, outputs)
        if targets.is_floating_point():
            loss = F.mse_loss(outputs, targets.view(len(targets), 1, -1).expand_as(outputs))
        else:
            loss = cross_entropy(outputs.flatten(0, 1), targets.repeat_interleave(outputs.shape[1]))
        return outputs.detach().mean(1), loss

    def _is_special(self) -> bool:
        """Whether the fused loss cannot be used: because of active dropout, recomputation, observers, hooks, or modules of other types."""
        entry, stack, head = self.entry, self.stack, self.head
        if (
            type(entry) is not DensePlain
            or isinstance(stack, MixedStack)
            or type(stack) not in _STACKS
            or type(head) is not nn.Linear
            or head.bias is None
        ):
            return True
        if entry.observer is not None or stack.observer is not None or stack.recomputes or stack.activation != entry.activation:
            return True
        if any(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks for module in self.children()):
            return True
        return self.entry_dropout.is_active() or self.head_dropout.is_active()

    def in_order(self) -> Iterator[nn.Module]:
        """Yield the first layer, the stack, the head, and the modules between them."""
        middle = self.stack if isinstance(self.stack, MixedStack) else (self.stack,)
        if self.members is None:
            yield from (nn.Flatten(), self.entry, self.entry_dropout, *middle, self.head_dropout, self.head)
        else:
            join = MemberJoin(self.members.count)
            yield from (nn.Flatten(), self.members, self.entry, self.entry_dropout, *middle, self.head_dropout, join, self.head)

    def without(self, layers: Iterable[int]) -> Self:
        """Return the network without these layers of its stack, numbered from 1; the first plain layer is not counted."""
        numbers = list(layers)
        plan = self.plan.without(numbers)  # checks the numbers
        shorter = copy.deepcopy(self)
        shorter.plan, shorter.stack = plan, self.stack.without(numbers)
        return shorter


def build_dense(plan: Plan, generator: Generator | None) -> DenseNetwork:
    """Build the dense network of a plan; weights are drawn in the order of the layers.

    Raises:
        InputError: If its parts are not a dense layer, stacks with or without affine maps between them, and the outputs, with or without
            members before and dropout between them.
    """
    match [part for part in plan.parts if not isinstance(part, DropoutPart | MembersPart)]:
        case [Dense(pieces=1) as first, *middle, Dense(head=True, activation="identity") as last] if _is_middle(middle):
            pass
        case _:
            raise InputError(f"the plan of {plan.name} is not a dense network's: it needs a dense layer, a stack of layers, the outputs")
    width, place = first.units, next(place for place, part in enumerate(plan.parts) if isinstance(part, DenseStack | Affine))
    entry = DensePlain(math.prod(plan.input_shape), width, **_shared(first, generator))
    parts = [_stack(part, width, generator) if isinstance(part, DenseStack) else affine_map((width,)) for part in middle]
    stack = parts[0] if isinstance(parts[0], AnyStack) and len(parts) == 1 else MixedStack(parts)
    head = nn.Linear(width * plan.members, last.units)
    for own in head.weight.split(width, dim=1):  # of each member
        initialise_(own, last.init, std=DEFAULT_STD if last.init_std is None else last.init_std, generator=generator)
    nn.init.zeros_(head.bias)
    dropout = _probability(plan.parts[:place]), _probability(plan.parts[place:])
    members = Members(math.prod(plan.input_shape), plan.members, generator) if plan.members > 1 else None
    return DenseNetwork(plan, entry, stack, head, dropout, members)


def _is_middle(parts: Sequence[PlanPart]) -> bool:
    """Whether the parts between the first layer and the head are stacks and affine maps, with at least one stack."""
    return any(isinstance(part, DenseStack) for part in parts) and all(isinstance(part, DenseStack | Affine) for part in parts)


def _stack(part: DenseStack, width: int, generator: Generator | None) -> AnyStack:
    if not part.layers:  # nothing is left of a stack after shrinking; its module remains and copies its input
        return _stack(replace(part, layers=1), width, Generator()).without([1])
    if part.kind == "highway":
        gates: dict[str, Any] = {"gate_bias": part.gate_bias or 0.0, "carry": part.carry or "coupled"}
        return DenseHighway(width, layers=part.layers, **gates, **_shared(part, generator))
    if part.kind == "lstm":
        return DepthLSTM(width, layers=part.layers, gate_bias=part.gate_bias or 0.0, **_shared(part, generator))
    kind = DensePlain if part.kind == "plain" else DenseResidual
    return kind(width, layers=part.layers, **_shared(part, generator))


def _probability(parts: Sequence[PlanPart]) -> float:
    """Return the dropout probability in these parts; 0 if there is no dropout."""
    return next((part.probability for part in parts if isinstance(part, DropoutPart)), 0.0)


def _shared(part: Dense | DenseStack, generator: Generator | None) -> dict[str, Any]:
    """Return the arguments that all dense layers have."""
    std = DEFAULT_STD if part.init_std is None else part.init_std
    return {"activation": part.activation, "init": part.init, "init_std": std, "generator": generator}
