"""Gated residual network of temporal fusion transformers (Lim et al. 2021, https://arxiv.org/abs/1912.09363, equations 2 to 5)."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet.layers.checks import check_features, check_kind, check_sizes, is_foreign, not_a_tensor, not_scriptable
from highwaynet.layers.observation import Observer


class GatedResidualNetwork(nn.Module):
    """y = LayerNorm(x + T·H) with H = W_5·η + b_5, T = sigmoid(W_4·η + b_4), η = W_1·ELU(W_2·x + W_3·c + b_2) + b_1.

    The gate T decides how much of the transform H is added to x, unit by unit; with T = 0 the block only normalises its input. `observe`
    records T and H, and `lesion` closes the block (T = 0).

    Args:
        in_features: Size of the input.
        out_features: Size of the output; that of the input by default. If they differ, a linear layer changes the size of x.
        hidden_features: Size of η; that of the output by default.
        context_features: Size of the context c; None for a block without context.
        dropout: Probability of dropout on η, before the gate.
        gate_bias: Initial value of b_4; None for that of `nn.Linear`, near 0.

    >>> block = GatedResidualNetwork(16, context_features=4)
    >>> block(torch.zeros(8, 30, 16), torch.zeros(8, 4)).shape  # one context for all steps of a sequence
    torch.Size([8, 30, 16])
    """

    closed_layers: frozenset[int]
    num_layers = 1
    observer: Observer | None = None

    def __init__(
        self,
        in_features: int,
        out_features: int | None = None,
        *,
        hidden_features: int | None = None,
        context_features: int | None = None,
        dropout: float = 0.0,
        gate_bias: float | None = None,
    ) -> None:
        super().__init__()
        out_features = in_features if out_features is None else out_features
        hidden = out_features if hidden_features is None else hidden_features
        sizes = {} if context_features is None else {"context_features": context_features}
        check_sizes(in_features=in_features, out_features=out_features, hidden_features=hidden, **sizes)
        self.in_features, self.out_features, self.context_features = in_features, out_features, context_features
        self.closed_layers = frozenset()
        self.first = nn.Linear(in_features, hidden)  # W_2
        self.context = None if context_features is None else nn.Linear(context_features, hidden, bias=False)  # W_3
        self.second = nn.Linear(hidden, hidden)  # W_1
        self.dropout = nn.Dropout(dropout)
        self.transform = nn.Linear(hidden, out_features)  # W_5
        self.gate = nn.Linear(hidden, out_features)  # W_4
        self.shortcut = nn.Identity() if in_features == out_features else nn.Linear(in_features, out_features)
        self.norm = nn.LayerNorm(out_features)
        if gate_bias is not None:
            nn.init.constant_(self.gate.bias, gate_bias)

    @property
    def gate_bias(self) -> Tensor:
        """The gate biases b_4, a view of shape (1, out_features), with a layer axis as in a dense stack."""
        return self.gate.bias[None]

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Compute the output (..., out_features).

        Args:
            x: Input (..., in_features).
            context: Context (..., context_features), with the axes of x, or only its first ones: the same for all steps.

        Raises:
            ValueError: If x or the context has another shape, type or device, or the context is missing.
        """
        if is_foreign(x):
            return not_a_tensor(self, x, context=context)
        check_features(self, x, self.first.weight, self.in_features)
        z = self.first(x)  # (..., hidden)
        if (context is None) != (self.context is None):
            wanted = "a context, which is missing" if context is None else "no context: create it with context_features"
            raise ValueError(f"GatedResidualNetwork with context_features={self.context_features} takes {wanted}")
        if self.context is not None and context is not None:
            self._check_context(context, x, self.context.weight)
            c = self.context(context)
            z = z + c.reshape(*c.shape[:-1], *[1] * (z.dim() - c.dim()), c.shape[-1])
        eta = self.dropout(self.second(F.elu(z)))
        h, t = self.transform(eta), torch.sigmoid(self.gate(eta))  # (..., out_features) each
        if self.closed_layers:
            h, t = torch.zeros_like(h), torch.zeros_like(t)
        y: Tensor = self.norm(self.shortcut(x) + t * h)
        if self.observer is not None:
            self.observer(1, output=y, state=h, transform=t, carry=torch.ones_like(t))
        return y

    def _check_context(self, context: Tensor, x: Tensor, weight: Tensor) -> None:
        name = type(self).__name__
        if is_foreign(context):
            raise TypeError(
                f"{name} takes a tensor as context, but got {type(context).__name__}: convert it, for instance with torch.as_tensor"
            )
        if not context.dim() or context.shape[-1] != self.context_features:
            raise ValueError(f"{name} takes a context (..., {self.context_features}), but it has shape {tuple(context.shape)}")
        axes = context.shape[:-1]
        if context.dim() > x.dim() or any(size not in (1, own) for size, own in zip(axes, x.shape, strict=False)):
            shapes = f"context has shape {tuple(context.shape)} and the input {tuple(x.shape)}"
            raise ValueError(f"{name}: {shapes}: its first axes must be those of the input, or 1")
        check_kind(self, context, weight, "context")

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward
