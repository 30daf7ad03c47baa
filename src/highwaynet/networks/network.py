"""The base class of all networks of this package."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from torch import Tensor, nn

from highwaynet.networks.plan import Companion, Plan


class Network(nn.Module):
    """A module that is built from a plan, and from which layers can be removed. Families (families.py) subclass it."""

    plan: Plan
    """The plan of the network."""
    head_name: str
    """The name of the submodule that gives the outputs."""
    takes_targets = False
    """Whether `forward` accepts `targets` and computes the loss too, which is faster than computing it from the outputs."""

    @property
    def companions(self) -> bool:
        """Whether there are companion classifiers."""
        return any(isinstance(part, Companion) for part in self.plan.parts)

    @overload
    def forward(self, x: Tensor, return_gates: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, x: Tensor, return_gates: Literal[True]) -> tuple[Any, ...]: ...

    @overload
    def forward(self, x: Tensor, return_gates: bool = False) -> Tensor | tuple[Any, ...]: ...

    @abstractmethod
    def forward(self, x: Tensor, return_gates: bool = False) -> Tensor | tuple[Any, ...]:
        """Logits (batch, outputs), or the numbers of a regression; on request also the gates."""

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    @abstractmethod
    def in_order(self) -> Iterator[nn.Module]:
        """The modules that compute the outputs, each from the output of the one before; companions are left out."""

    @abstractmethod
    def without(self, layers: Iterable[int]) -> Self:
        """A copy with these closable layers removed, numbered from 1; raises ValueError if one cannot be removed."""
